"""Whether new people get the score that a model's card expects: every pattern of presence, every way to make up for it.

Three parties of which one holds the label, on four tables. FedOnce learns as it comes, with the label holder's labels
outside the overlap; the card is measured on validation rows when the model is saved. New people are test rows that the
model is asked about afterwards. The standard error of a difference is from resamples of both sets of people. What
chance alone does is measured on trees that learnt from other rows: how often two drawn sets of people, as many as
validation rows and new people, differ by more than two standard errors.

Usage: python -m studies.card_scores [--quick] [--out FOLDER] [--only DATA]
"""

from collections.abc import Iterator, Sequence
from math import hypot
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import binom, norm, rankdata

from laconic import Equal, FedOnce, deal, load, load_model, save_model, train
from laconic.deploy import code_digest
from laconic.inference import AnyAbsent, Model, Store, parts_of, reach_parts
from laconic.inference.absent import Measured
from laconic.learn import Boosted
from laconic.tables import Task
from laconic.threads import limit_threads
from laconic.values import Array
from studies.harness import Job, Record, arguments, markdown, only_on, run_jobs, some_rows, write_whole

_DATA = ("phishing", "adult", "credit_default", "california_housing")
_ROWS = 4000
_RESAMPLES = 200
_PEOPLE, _DRAWS = (280, 1200), 150


def main() -> None:
    """Run every job that is not done yet, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/card_scores")
    seeds = (0,) if chosen.quick else range(10)
    jobs = [_job(name, seed, chosen.quick) for name in _DATA for seed in seeds] + [_chance(name) for name in _DATA]
    records = run_jobs(only_on(jobs, chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", tables(records))
    print((chosen.out / "table.md").read_text())


def _job(name: str, seed: int, quick: bool) -> Job:
    return Job({"data": name, "seed": seed, "quick": quick}, lambda: measure(name, seed, quick), code_digest(FedOnce()))


def measure(name: str, seed: int, quick: bool) -> Record:
    """Train, save, and ask about new people, for one table and one seed."""
    dataset = some_rows(load(name), 800 if quick else _ROWS, seed)
    federation = deal(dataset, Equal(parties=3), seed=seed, test=0.3, overlap=0.5, own_labels=True)
    with TemporaryDirectory() as folder:
        save_model(train(FedOnce(), federation, seed=seed), folder)
        model = load_model(folder)
        fresh = {party: table.as_new("test") for party, table in federation.tables.items()}
        own = fresh[federation.hub]
        with limit_threads(1), reach_parts(model.part, parts_of(Path(folder)), fresh) as carrier:
            asked = model.store_of(own, carrier, own.keys.tolist())
        found = [_compared(model, asked, federation.labels("test"), *pattern) for pattern in _patterns(model)]
    return {"metric": headline_of(model.task), "valid": len(model.store.ids_of("valid")), "patterns": found}


def _chance(name: str) -> Job:
    return Job({"data": name, "chance": _DRAWS}, lambda: by_chance(name))


def by_chance(name: str) -> Record:
    """How often two sets of people differ by more than two standard errors, for one model and no choice."""
    dataset, rng = load(name), np.random.default_rng(0)
    x = np.nan_to_num(np.asarray(dataset.raw, dtype=np.float32))
    first, rest = np.array_split(rng.permutation(len(x)), 2)
    trees = Boosted(trees=60, depth=4, lr=0.2)
    said = trees.predict(dataset.task, trees.fit(dataset.task, x[first], dataset.y[first], rng), x[rest])
    found = []
    for _ in range(_DRAWS):
        drawn = rng.permutation(len(rest))[: sum(_PEOPLE)]
        sides = [(dataset.y[rest[rows]], said[rows]) for rows in (drawn[: _PEOPLE[0]], drawn[_PEOPLE[0] :])]
        one, other = (score(dataset.task, *side) for side in sides)
        found.append((one - other) / hypot(*(_spread(dataset.task, *side) for side in sides)))
    return {"misses": int(sum(abs(one) > 2 for one in found)), "mean": fmean(found)}


def headline_of(task: Task) -> str:
    """The metric of a task."""
    return "rmse" if task.kind == "regression" else "auc"


def _patterns(model: Model) -> Iterator[tuple[tuple[str, ...], str, AnyAbsent]]:
    """Every pattern and way that the card has a score for, and the way that `--absent best` takes."""
    ways = {way.word: way for way in model.ways}
    card = model.part.card
    for one in card.expected if card else ():
        if one.value is not None:
            yield one.present, one.answer, ways.get(one.answer, Measured())


def _compared(
    model: Model, asked: Store, labels: Array, present: tuple[str, ...], answer: str, way: AnyAbsent
) -> dict[str, object]:
    """What validation rows and new people get, and the standard error of the difference."""
    store = model.store
    sides = (store, store.ids_of("valid"), store.labels_of("valid")), (asked, asked.own.keys.tolist(), labels)
    values, errors = [], []
    for side, ids, y in sides:
        seen = side
        for name in set(model.part.about.peers) - set(present):
            seen = seen.as_if_absent(name)
        predictions = model.predict_from(seen, ids, absent=way).predictions
        values.append(score(model.task, y, predictions))
        errors.append(_spread(model.task, y, predictions))
    expected, found = values
    if answer == Measured.word and (card := model.part.card):
        # On the rows that chose the way, the best one's own score would promise too much; the card knows better.
        honest = [one.value for one in card.expected if (one.present, one.answer) == (present, answer)]
        expected = honest[0] or expected
    return {
        "present": list(present),
        "answer": answer,
        "expected": expected,
        "found": found,
        "error": hypot(*errors),
        "better": (expected - found) * (-1 if headline_of(model.task) == "rmse" else 1),
    }


def _spread(task: Task, y: Array, predictions: Array) -> float:
    """The standard error of the headline figure, from resamples of the people."""
    rng, found = np.random.default_rng(0), list[float]()
    while len(found) < _RESAMPLES:
        rows = rng.integers(0, len(y), len(y))
        if task.kind == "regression" or len(np.unique(y[rows])) > 1:
            found.append(score(task, y[rows], predictions[rows]))
    return float(np.std(found, ddof=1))


def score(task: Task, y: Array, predictions: Array) -> float:
    """RMSE, or AUC by ranks: quicker than all metrics of a task, which resamples would take again and again."""
    if task.kind == "regression":
        return float(np.sqrt(np.mean((predictions - y) ** 2)))
    ranks, positive = rankdata(predictions), y == 1
    above = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(above / (positive.sum() * (~positive).sum()))


def tables(records: Sequence[Record]) -> str:
    """Expected beside found, for each table and pattern."""
    parts = ["# What the card expects, and what new people get\n\n", _HEAD]
    drawn = [record for record in records if "misses" in record]
    runs = [record for record in records if "patterns" in record]
    every = [one for record in runs for one in record["patterns"]]
    for name in dict.fromkeys(record["key"]["data"] for record in runs):
        same = [record for record in runs if record["key"]["data"] == name]
        parts.append(f"\n## {name}, {len(same)} seeds, {same[0]['valid']:,} validation rows, {same[0]['metric']}\n\n")
        parts.append(_table([one for record in same for one in record["patterns"]]))
    parts.append("\n## All tables\n\n")
    words = {answer: [one for one in every if one["answer"] == answer] for answer in _WORDS}
    rows = [(answer, *_summary(some)) for answer, some in words.items() if some]
    heads = ("answered by", "cards", "within 2 standard errors", "p of so many misses", "promised too much, in errors")
    parts.append(markdown(heads, rows))
    older = sum(record.get("code") != code_digest(FedOnce()) for record in runs)
    parts.append(f"\n{_EXACT} Runs of earlier code: {older} of {len(runs)}.\n")
    if drawn:
        parts.append("\n## By chance: one model, no choice\n\n")
        lines = [
            (one["key"]["data"], _DRAWS, f"{_DRAWS - one['misses']} of {_DRAWS}", f"{one['mean']:.2f}") for one in drawn
        ]
        parts.append(markdown(("table", "draws", "within 2 standard errors", "mean difference, in errors"), lines))
    return "".join(parts)


_WORDS = ("all", "zeros", "gaps", "refit", "solo", "best")
_HEAD = (
    "FedOnce as it comes, three parties, half of the rows in the overlap; `python -m studies.card_scores`. Expected: "
    "on validation rows, as the card says. Found: on new people. A difference above 0 means that the card promised too "
    "much; ± is its standard error over seeds. The error is that of a single card and its people. Best: the way that "
    "the card found best, by a score of rows that did not choose it.\n"
)


_EXACT = (
    "p: how often cards that are right miss as often or more, by the binomial distribution with 4.55 % each. Ways and "
    "patterns of one seed share their people, so that misses come together, and many are likelier than p says; `all` "
    "has one card per seed."
)


def _table(found: Sequence[Record]) -> str:
    keys = dict.fromkeys((tuple(one["present"]), one["answer"]) for one in found)
    rows = []
    for present, answer in keys:
        some = [one for one in found if (tuple(one["present"]), one["answer"]) == (present, answer)]
        means = [fmean(one[name] for one in some) for name in ("expected", "found", "better", "error")]
        kept = sum(abs(one["better"]) <= 2 * one["error"] for one in some)
        digits = 1 if max(means[:2]) > 100 else 4
        cells = [f"{value:.{digits}f}" for value in means]
        if len(some) > 1:
            cells[2] += f" ± {stdev(one['better'] for one in some) / len(some) ** 0.5:.{digits}f}"
        rows.append((" ".join(present) or "nobody", answer, *cells, f"{kept} of {len(some)}"))
    heading = (
        "beside the label holder",
        "answered by",
        "expected",
        "found",
        "difference",
        "error of one",
        "within 2",
    )
    return markdown(heading, rows)


def _summary(some: Sequence[Record]) -> tuple[str, str, str, str]:
    kept = sum(abs(one["better"]) <= 2 * one["error"] for one in some)
    p = float(binom.sf(len(some) - kept - 1, len(some), 2 * norm.sf(2)))
    return (
        str(len(some)),
        f"{kept} of {len(some)}",
        f"{p:.2f}",
        f"{fmean(one['better'] / one['error'] for one in some):.2f}",
    )


if __name__ == "__main__":
    main()
