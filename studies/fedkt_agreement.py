"""Why FedKT's noisy votes on Adult cost what they cost: how far voters agree, and what few labels can teach.

The price of a noisy answer depends on how many votes the winner is ahead. Here the same shares of rows are voted on by
students of ours and by scikit-learn's trees and forests, which the paper used, and forests of both kinds learn from as
few public rows as are asked for, with their true labels. Scored on validation rows; some of the parties only. How
unlike the parties' labels are is beside it.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from laconic import Federation
from laconic.learn import Forest, Shard, classes_of, fit_models
from laconic.learn.models.aggregation import count_consistent, count_votes, winners
from laconic.privacy import LaplaceVotes
from laconic.values import Array, Rng
from studies.fedkt_settings import FOREST, SETTINGS, TREE
from studies.harness import Job, Record, arguments, markdown, read_records, run_jobs, write_whole

Learn: TypeAlias = Callable[[Shard, Array, Rng], Array]
"""From labelled rows to the classes of other rows."""

ASKED = (41, 81)


def main() -> None:
    """Measure and write both tables."""
    chosen = arguments(__doc__ or "", "studies/results/fedkt_agreement")
    every, times = (25, 1) if chosen.quick else (4, 8)
    kinds = {
        "ours, splits see 60 % of the columns": (_ours(TREE), _ours(FOREST)),
        "ours, the square root of them": (_ours(TREE), _ours(Forest())),
        "scikit-learn's, the square root of them": (_sklearn_tree, _sklearn_forest),
    }
    jobs = [
        Job({"table": "votes", "students": name}, _votes(teach, learn, every)) for name, (teach, learn) in kinds.items()
    ]
    jobs += [Job({"table": "few", "forest": name}, _few(learn, times)) for name, (_, learn) in kinds.items()]
    jobs += [Job({"table": "dealt", "seed": seed}, _dealt(seed)) for seed in range(1 if chosen.quick else 5)]
    results = chosen.out / "results.jsonl"
    run_jobs(jobs, results)
    write_whole(chosen.out / "table.md", "\n".join(_report(read_records(results))))


def _votes(teach: Learn, learn: Learn, every: int) -> Callable[[], Record]:
    """How far the winner is ahead, counted for a hundred voters, and the price at gamma 0.04."""

    def measure() -> Record:
        federation, rng = _federation(), np.random.default_rng(0)
        public = federation.tables["server"].part("public")[0]
        asked = rng.permutation(len(public))[:400]
        names = federation.peers[::every]
        groups = [_students(federation, name, teach, learn, asked, rng) for name in names]
        counts = count_consistent(groups, 2) * 50 / len(names)
        prices = {
            f"epsilon of {m}": LaplaceVotes(gamma=0.04).price(np.round(counts[:m]), 2, 1e-5).dependent for m in ASKED
        }
        return {"lead": float(np.abs(counts[:, 0] - counts[:, 1]).mean()), "parties": len(names), **prices}

    return measure


def _students(federation: Federation, name: str, teach: Learn, learn: Learn, asked: Array, rng: Rng) -> Array:
    """What the two students of a party say of the rows asked for."""
    own, y = federation.tables[name].part("train")
    x = federation.tables[name].part("public")[0]
    said = []
    for _ in range(2):
        shards = [] if y is None else [(own[some], y[some]) for some in np.array_split(rng.permutation(len(y)), 5)]
        votes = np.array([_taught(teach, shard, x, rng) for shard in shards if len(shard[1])])
        said.append(_taught(learn, (x, winners(count_votes(votes, 2), rng)), x[asked], rng))
    return np.array(said)


def _few(learn: Learn, times: int) -> Callable[[], Record]:
    """Accuracy on validation rows after learning from a few public rows with their true labels."""

    def measure() -> Record:
        server, dataset = _federation().tables["server"], SETTINGS["Adult"].load()
        (x, y), public = server.part("valid"), server.part("public")[0]
        truth = dataset.y[server.keys[server.cut("public")].astype(int)]
        rng, found = np.random.default_rng(0), {}
        for count in ASKED:
            rows = [rng.permutation(len(truth))[:count] for _ in range(times)]
            right = [float((_taught(learn, (public[some], truth[some]), x, rng) == y).mean()) for some in rows]
            found[f"from {count}"] = float(np.mean(right))
        return found

    return measure


def _dealt(seed: int) -> Callable[[], Record]:
    """The shares of parties with mostly rows of the rarer class and with rows of one class only."""

    def measure() -> Record:
        tables = SETTINGS["Adult"].deal(seed).tables
        labels = [
            table.y[table.cut("train")] for table in tables.values() if "train" in table.cuts and table.y is not None
        ]
        rare = np.array([float(y.mean()) for y in labels])
        tested = tables["server"].part("test")[1]
        common = 0.0 if tested is None else 1 - float(tested.mean())
        return {"mostly": float((rare > 0.5).mean()), "only": float(np.isin(rare, (0, 1)).mean()), "common": common}

    return measure


def _federation() -> Federation:
    return SETTINGS["Adult"].deal(0, valid=0.1)


def _taught(learn: Learn, shard: Shard, x: Array, rng: Rng) -> Array:
    """What a model says, and what a shard of one class says without one."""
    kinds = np.unique(shard[1])
    return np.full(len(x), kinds[0]) if len(kinds) == 1 else learn(shard, x, rng)


def _ours(forest: Forest) -> Learn:
    task = SETTINGS["Adult"].load().task

    def learn(shard: Shard, x: Array, rng: Rng) -> Array:
        return np.asarray(classes_of(forest, task, fit_models(forest, task, [shard], rng), x)[0])

    return learn


def _sklearn_tree(shard: Shard, x: Array, rng: Rng) -> Array:
    tree = DecisionTreeClassifier(max_depth=6, random_state=int(rng.integers(2**31)))
    return np.asarray(tree.fit(*shard).predict(x))


def _sklearn_forest(shard: Shard, x: Array, rng: Rng) -> Array:
    forest = RandomForestClassifier(100, max_depth=6, random_state=int(rng.integers(2**31)))
    return np.asarray(forest.fit(*shard).predict(x))


def _report(records: list[Record]) -> Iterator[str]:
    votes = [one for one in records if one["key"]["table"] == "votes"]
    yield "# Why noisy votes on Adult cost what they cost\n"
    yield "## Votes by which the winner is ahead, of a hundred, and the data-dependent epsilon at L1, gamma 0.04\n"
    rows = [
        (one["key"]["students"], f"{one['lead']:.1f}", *(f"{one[f'epsilon of {m}']:.2f}" for m in ASKED))
        for one in votes
    ]
    yield markdown(("trees and forests", "ahead by", *(f"epsilon of {m} answers" for m in ASKED)), rows)
    yield "## Accuracy in percent of a forest that learns from a few public rows with their true labels\n"
    few = [one for one in records if one["key"]["table"] == "few"]
    lines = [(one["key"]["forest"], *(f"{100 * one[f'from {m}']:.1f}" for m in ASKED)) for one in few]
    yield markdown(("forest", *(f"from {m} rows" for m in ASKED)), lines)
    yield "## Parties, and test rows, in percent, rows dealt as for the tables\n"
    dealt = [one for one in records if one["key"]["table"] == "dealt"]
    shares = [
        (one["key"]["seed"], *(f"{100 * one[part]:.0f}" for part in ("mostly", "only", "common"))) for one in dealt
    ]
    yield markdown(
        ("seed", "mostly of the rarer class", "of one class only", "test rows of the commoner class"), shares
    )


if __name__ == "__main__":
    main()
