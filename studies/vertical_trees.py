"""Boosted trees over parted columns, and trees at the label holder, next to FedOnce, SplitNN and RAP.

Four parties, the first of which has the labels. Settings of trees and of the nets beside them are chosen by the score
on validation rows of seed 0; every method is then scored on test rows with three seeds. At most 10,000 rows of a data
set are used, drawn once, so that the whole takes some minutes of one core.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from time import process_time

import numpy as np

from laconic import Equal, Federation, FedOnce, Method, Rap, SplitNN, VerticalXgboost, deal, load, simulate
from laconic.data import Dataset
from laconic.errors import BudgetSpent
from laconic.learn import Boosted, Joint, Mlp, NetModel, Sgd, TreeModel
from laconic.privacy import Encrypted
from studies.harness import Job, Record, arguments, only_on, read_records, run_jobs, write_whole
from studies.vertical_trees_report import best_label, tables

METRIC = {"phishing": "accuracy", "credit_default": "auc", "covtype": "accuracy", "superconduct": "rmse"}
METRIC |= {"ujiindoorloc": "rmse", "breast_cancer": "auc"}
MOST_ROWS = 10_000
DATA = ("phishing", "credit_default", "covtype", "superconduct", "ujiindoorloc")
SEEDS = (0, 1, 2)

GROWN = {
    "30 x 6, 0.3": Boosted(trees=30, depth=6, lr=0.3),
    "30 x 6, 0.2": Boosted(trees=30, depth=6, lr=0.2),
    "30 x 4, 0.4": Boosted(trees=30, depth=4, lr=0.4),
}
"""What VerticalXgboost may choose from; every tree costs bytes."""

SMALL = {"10 x 3, 0.3": Boosted(trees=10, depth=3)}
"""For the quick form."""

TOPS = {"50 x 6, 0.3": Boosted(trees=50, lr=0.3)}
TOPS |= {"150 x 6, 0.1": Boosted(trees=150, lr=0.1), "150 x 4, 0.1": Boosted(trees=150, depth=4, lr=0.1)}
"""What a label holder's own trees may choose from; they cost no bytes."""

STOPPING = Sgd(epochs=60, patience=8)
NETS = {
    "64": (Mlp(hidden=(64,)), STOPPING),
    "128-64": (Mlp(hidden=(128, 64)), STOPPING),
    "128-64, lr 3e-3": (Mlp(hidden=(128, 64)), Sgd(epochs=60, patience=8, lr=3e-3)),
}
"""What a label holder's, or RAP's server's, net may choose from: hidden layers and training."""


def main() -> None:
    """Choose settings, run what has not been run yet, then write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/vertical_trees")
    results = chosen.out / "results.jsonl"
    data, seeds = (("breast_cancer",), (0,)) if chosen.quick else (DATA, SEEDS)
    run_jobs(only_on([job for name in data for job in _choices(name, quick=chosen.quick)], chosen.only), results)
    picked = read_records(results)
    names = [name for name in data if chosen.only in (None, name)]
    run_jobs([job for seed in seeds for name in names for job in _scores(name, seed, picked)], results)
    run_jobs(only_on(_costs("breast_cancer" if chosen.quick else "credit_default"), chosen.only), results)
    write_whole(chosen.out / "table.md", tables(read_records(results), METRIC))
    print((chosen.out / "table.md").read_text())


def _choices(name: str, *, quick: bool) -> Iterator[Job]:
    """Every setting of every method that has a choice, scored on validation rows of seed 0."""
    few = 1 if quick else None
    for label in ("10 x 3, 0.3",) if quick else list(GROWN):
        yield Job(_key("choice", name, 0, "VerticalXgboost", label), _pooled(name, (GROWN | SMALL)[label]))
    for label in list(TOPS)[:few]:
        yield Job(
            _key("choice", name, 0, "FedOnce, trees", label), _run(_method("FedOnce, trees", label), name, 0, "valid")
        )
        yield Job(_key("choice", name, 0, "Rap, trees", label), _run(_method("Rap, trees", label), name, 0, "valid"))
    for label in list(NETS)[:few]:
        yield Job(
            _key("choice", name, 0, "FedOnce, net", label), _run(_method("FedOnce, net", label), name, 0, "valid")
        )
        yield Job(_key("choice", name, 0, "Rap, net", label), _run(_method("Rap, net", label), name, 0, "valid"))


def _scores(name: str, seed: int, picked: list[Record]) -> Iterator[Job]:
    """Every method with its chosen settings, scored on test rows."""
    for method in ("FedOnce, net", "FedOnce, trees", "Rap, net", "Rap, trees", "SplitNN", "VerticalXgboost"):
        label = "" if method == "SplitNN" else best_label(picked, name, method, METRIC[name])
        looks = 5 if method == "VerticalXgboost" and seed == 0 else None
        yield Job(_key("score", name, seed, method, label), _run(_method(method, label), name, seed, look_every=looks))
    label = best_label(picked, name, "VerticalXgboost", METRIC[name])
    if seed == 0:
        key = _key("score", name, seed, "VerticalXgboost, histograms", label)
        yield Job(key, _run(_method("VerticalXgboost, histograms", label), name, seed))
    key = _key("score", name, seed, "VerticalXgboost at FedOnce's bytes", label)
    yield Job(key, _at_fedonce_bytes(_method("VerticalXgboost", label), name, seed))


def _costs(name: str) -> Iterator[Job]:
    """The same few trees without and with encryption."""
    few = Boosted(trees=1 if name == "breast_cancer" else 2, depth=3, bins=32)
    ways = {"best splits": VerticalXgboost(trees=few, sends="best splits"), "histograms": VerticalXgboost(trees=few)}
    ways |= {"encrypted, packed": VerticalXgboost(trees=few, cipher=Encrypted())}
    if name != "breast_cancer":  # The quick form does without.
        ways |= {"encrypted, apart": VerticalXgboost(trees=few, cipher=Encrypted(packed=False))}
    for label, method in ways.items():
        yield Job(_key("cost", name, 0, "VerticalXgboost", label), _run(method, name, 0))


def _method(method: str, label: str) -> Method:
    if method.startswith("VerticalXgboost"):
        trees = (GROWN | SMALL)[label]
        whole = method.endswith("histograms")
        return VerticalXgboost(trees=trees) if whole else VerticalXgboost(trees=trees, sends="best splits")
    if method == "SplitNN":
        return SplitNN(trainer=Sgd(epochs=10, patience=3))
    if method.endswith("trees"):
        top = TOPS[label]
        return FedOnce(head=top) if method.startswith("FedOnce") else Rap(learner=TreeModel(trees=top))
    net, trainer = NETS[label]
    if method.startswith("FedOnce"):
        return FedOnce(head=Joint(head=net), trainer=trainer)
    return Rap(learner=NetModel(net=net, trainer=trainer))


def _key(what: str, name: str, seed: int, method: str, label: str) -> Record:
    return {"what": what, "data": name, "seed": seed, "method": method, "settings": label}


def _run(
    method: Method, name: str, seed: int, rows: str = "test", look_every: int | None = None
) -> Callable[[], Record]:
    def measure() -> Record:
        started = process_time()
        result = simulate(method, federation(name, seed), seed=seed, rows=rows, look_every=look_every)
        curve = [[look.bytes, look.metrics[METRIC[name]]] for look in result.curve]
        wire = {"bytes": result.fit.bytes, "bytes_up": result.fit.bytes_up, "rounds": result.fit.rounds}
        used = {"processor_seconds": round(process_time() - started, 2), "curve": curve}
        return {"value": result.metrics[METRIC[name]]} | wire | used

    return measure


def _pooled(name: str, trees: Boosted) -> Callable[[], Record]:
    """The score of XGBoost on all columns, which is that of VerticalXgboost."""

    def measure() -> Record:
        from laconic.tables import metrics

        given = federation(name, 0)
        x = {rows: np.hstack([one.part(rows)[0] for one in given.tables.values()]) for rows in ("train", "valid")}
        weights = trees.fit(given.task, x["train"], given.labels("train"), np.random.default_rng(0))
        found = trees.predict(given.task, weights, x["valid"])
        return {"value": metrics(given.task, given.labels("valid"), found)[METRIC[name]]}

    return measure


def _at_fedonce_bytes(method: Method, name: str, seed: int) -> Callable[[], Record]:
    """Stopped before more has crossed than FedOnce sends in its one exchange; no score if one tree is more."""

    def measure() -> Record:
        given = federation(name, seed)
        budget = simulate(FedOnce(head=Boosted(trees=1)), given, seed=seed).fit.bytes
        try:
            result = simulate(method, given, seed=seed, max_bytes=budget)
        except BudgetSpent:
            return {"value": None, "bytes": budget, "rounds": 0, "curve": []}
        return {
            "value": result.metrics[METRIC[name]],
            "bytes": result.fit.bytes,
            "rounds": result.fit.rounds,
            "curve": [],
        }

    return measure


@lru_cache(maxsize=1)
def federation(name: str, seed: int) -> Federation:
    """Columns in four equal shares, the labels with the first."""
    return deal(_dataset(name), Equal(parties=4), hub=0, seed=seed, test=0.1, valid=0.1)


@lru_cache(maxsize=1)
def _dataset(name: str) -> Dataset:
    whole = load(name)
    if whole.rows <= MOST_ROWS:
        return whole
    some = np.sort(np.random.default_rng(0).permutation(whole.rows)[:MOST_ROWS])
    return Dataset(name=name, raw=whole.raw[some], columns=whole.columns, y=whole.y[some], task=whole.task)


if __name__ == "__main__":
    main()
