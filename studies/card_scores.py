"""Whether new people get the score that a model's card expects: every pattern of presence, every way to make up for it.

Three parties of which one holds the label, on four tables. FedOnce learns as it comes, with the label holder's labels
outside the overlap; the card is measured on validation rows when the model is saved. New people are test rows that the
model is asked about afterwards. The standard error of a difference is from resamples of both sets of people.

Usage: python -m studies.card_scores [--quick] [--out FOLDER] [--only DATA]
"""

from collections.abc import Iterator, Sequence
from math import hypot
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import rankdata

from laconic import Equal, FedOnce, deal, load, load_model, save_model, train
from laconic.inference import AnyAbsent, Model, Store, parts_of, reach_parts
from laconic.inference.absent import Measured
from laconic.tables import Task
from laconic.threads import limit_threads
from laconic.values import Array
from studies.harness import Job, Record, arguments, markdown, only_on, run_jobs, some_rows, write_whole

_DATA = ("phishing", "adult", "credit_default", "california_housing")
_ROWS = 4000
_RESAMPLES = 200


def main() -> None:
    """Run every job that is not done yet, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/card_scores")
    seeds = (0,) if chosen.quick else (0, 1, 2)
    jobs = [_job(name, seed, chosen.quick) for name in _DATA for seed in seeds]
    records = run_jobs(only_on(jobs, chosen.only), chosen.out / "results.jsonl")
    write_whole(chosen.out / "table.md", tables(records))
    print((chosen.out / "table.md").read_text())


def _job(name: str, seed: int, quick: bool) -> Job:
    return Job({"data": name, "seed": seed, "quick": quick}, lambda: measure(name, seed, quick))


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
    for present in dict.fromkeys(one.present for one in (card.expected if card else ()) if one.answer != "all"):
        yield present, "best", Measured()


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
    every = [one for record in records for one in record["patterns"]]
    for name in dict.fromkeys(record["key"]["data"] for record in records):
        same = [record for record in records if record["key"]["data"] == name]
        parts.append(f"\n## {name}, {len(same)} seeds, {same[0]['valid']:,} validation rows, {same[0]['metric']}\n\n")
        parts.append(_table([one for record in same for one in record["patterns"]]))
    parts.append("\n## All tables\n\n")
    words = {answer: [one for one in every if one["answer"] == answer] for answer in _WORDS}
    rows = [(answer, *_summary(some)) for answer, some in words.items() if some]
    parts.append(markdown(("answered by", "cards", "within 2 standard errors", "promised too much, in errors"), rows))
    return "".join(parts)


_WORDS = ("all", "zeros", "refit", "solo", "best")
_HEAD = (
    "FedOnce as it comes, three parties, half of the rows in the overlap; `python -m studies.card_scores`. Expected: "
    "on validation rows, as the card says. Found: on new people. Above 0, the card promised too much.\n"
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
        rows.append((" ".join(present) or "nobody", answer, *cells, f"{kept} of {len(some)}"))
    heading = (
        "beside the label holder",
        "answered by",
        "expected",
        "found",
        "difference",
        "standard error",
        "within 2",
    )
    return markdown(heading, rows)


def _summary(some: Sequence[Record]) -> tuple[str, str, str]:
    kept = sum(abs(one["better"]) <= 2 * one["error"] for one in some)
    return str(len(some)), f"{kept} of {len(some)}", f"{fmean(one['better'] / one['error'] for one in some):.2f}"


if __name__ == "__main__":
    main()
