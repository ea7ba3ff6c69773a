"""What predictions are worth when some parties are not there: every pattern of presence, every way to make up for it.

Four parties, of which one holds the label, on two data sets. FedOnce is trained once with everybody; nothing is sent
again for any figure here. What the model's card expects, from validation rows, stands beside what test rows give.

Usage: python -m studies.absent_parties [--quick] [--out FOLDER] [--only DATA]
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from laconic import Equal, Federation, FedOnce, Method, Solo, deal, load, load_model, save_model, simulate, train
from laconic.inference import Abstain, AnyAbsent, Model, Refit, SoloModel, Store, Zeros, parts_of, reach_parts
from laconic.inference.predict import collect
from laconic.learn import Sgd
from laconic.tables import headline, metrics
from laconic.threads import limit_threads
from laconic.values import Array
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, run_jobs, some_rows, write_whole

_DATA = ("phishing", "credit_default")
_WAYS: tuple[AnyAbsent, ...] = (Zeros(), Refit(), SoloModel())
_PARTIES = 4
_COLUMNS = ("all", "zeros", "refit", "solo")


def main() -> None:
    """Run every job that is not done yet, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/absent_parties")
    seeds = (0,) if chosen.quick else (0, 1, 2)
    jobs = [_job(name, seed, chosen.quick) for name in _DATA for seed in seeds]
    records = run_jobs(only_on(jobs, chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", _tables(records))
    print((chosen.out / "table.md").read_text())


def _job(name: str, seed: int, quick: bool) -> Job:
    return Job({"data": name, "seed": seed, "quick": quick}, lambda: _measure(name, seed, quick))


def _measure(name: str, seed: int, quick: bool) -> Record:
    dataset = load(name)
    if quick:
        dataset = some_rows(dataset, 1500)
    federation = deal(dataset, Equal(parties=_PARTIES), seed=seed, test=0.2)
    epochs = 10 if quick else 60
    trained = train(FedOnce(trainer=Sgd(epochs=epochs, patience=5)), federation, seed=seed)
    alone: Method = Solo(trainer=Sgd(epochs=epochs, patience=5))
    with TemporaryDirectory() as folder:
        card = save_model(trained, folder, ways=_WAYS)
        model = load_model(folder)
        expected = {_name(one.present, one.answer): one.value for one in card.expected}
        store = _test_rows(model, federation, Path(folder))
        found = _scores(model, store, federation.labels("test"))
        seconds = _refit_seconds(model)
    solo = simulate(alone, federation, seed=seed).score
    return {
        "metric": solo.metric,
        "expected": expected,
        "test": found,
        "solo": solo.value,
        "refit_seconds": seconds,
        "rows": len(federation.labels("train")),
        "peers": list(federation.peers),
    }


def _test_rows(model: Model, federation: Federation, folder: Path) -> Store:
    """Everybody's answers about the test rows, asked for once."""
    tables = {name: table.as_new("test") for name, table in federation.tables.items()}
    own = tables[federation.hub]
    with limit_threads(1), reach_parts(model.part, parts_of(folder), tables) as carrier:
        hub = model.part.party(own)
        answers = collect(model.method, model.part.about.steps or (), hub, carrier, own.keys.tolist())
    return Store(own, np.empty(0), answers)


def _scores(model: Model, store: Store, labels: Array) -> dict[str, float]:
    ids, peers, found = store.own.keys.tolist(), model.part.about.peers, {}
    for size in range(len(peers) + 1):
        for present in combinations(peers, size):
            seen = store
            for name in set(peers) - set(present):
                seen = seen.as_if_absent(name)
            for way in (Abstain(),) if present == peers else _WAYS:
                predictions = model.predict_from(seen, ids, absent=way).predictions
                word = "all" if present == peers else way.word
                found[_name(present, word)] = headline(model.task, metrics(model.task, labels, predictions)).value
    return found


def _refit_seconds(model: Model) -> float:
    """How long one pattern's head takes to fit, from nothing."""
    fresh = Model(model.part, model.method, {})
    started = process_time()
    fresh.head_for(Refit(), model.part.about.peers[:-1])
    return round(process_time() - started, 2)


def _name(present: Sequence[str], way: str) -> str:
    return f"{'+'.join(present)}/{way}"


def _tables(records: list[Record]) -> str:
    parts = ["# Absent parties\n", _HEAD]
    for name in dict.fromkeys(record["key"]["data"] for record in records):
        same = [record for record in records if record["key"]["data"] == name]
        parts += [
            f"\n## {name}, {len(same)} seeds, {same[0]['rows']:,} training rows, {same[0]['metric']}\n\n",
            _table(same),
        ]
        off = [abs(one["expected"][key] - value) for one in same for key, value in one["test"].items()]
        slowest = max(one["refit_seconds"] for one in same)
        parts.append(
            f"\nThe label holder alone, trained on labels: {mean_spread([one['solo'] for one in same])} on test rows. "
            f"Expected and test figures differ by {np.mean(off):.4f} on average, {np.max(off):.4f} at most. "
            f"Refitting one head took {slowest:.2f} processor seconds at most.\n"
        )
    return "".join(parts)


_HEAD = """
FedOnce with four parties, trained once with everybody there; the label holder is always there. `zeros`: absent parties
count as zeros. `refit`: a head refitted for this pattern from stored answers. `solo`: the label holder's own columns
only, by a net distilled from the joint model. In each cell: test rows (expected from validation rows).
"""


def _table(records: list[Record]) -> str:
    peers: list[str] = records[0]["peers"]
    rows = []
    for size in range(len(peers), -1, -1):
        for present in combinations(peers, size):
            words = ["all"] if list(present) == peers else [way.word for way in _WAYS]
            cells: dict[str, Any] = {word: _cell(records, _name(present, word)) for word in words}
            rows.append([", ".join(present) or "nobody", *(cells.get(word, "") for word in _COLUMNS)])
    return markdown(("beside the label holder", "joint model", "zeros", "refit", "solo"), rows)


def _cell(records: list[Record], name: str) -> str:
    tested = mean_spread([record["test"][name] for record in records])
    expected = mean_spread([record["expected"][name] for record in records])
    return f"{tested} ({expected.partition(' ')[0]})"


if __name__ == "__main__":
    main()
