"""Whose boosted trees the label holder should try: those of XGBoost, scikit-learn or LightGBM.

Each library grows trees of depth 6 and of depth 3 with settings as equal as it has them, on the label holder's
columns and what guests of FedOnce send, and is judged by its lower cross-validated loss on training rows: log loss,
or squared error in units of the labels' variance. All stop after as many trees as lose least over the folds. Test and
validation rows are not looked at. LightGBM is no part of this project: it is left out where it is not installed.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from typing import Any

import numpy as np

from laconic import FedOnce
from laconic.deploy import code_digest
from laconic.learn import Best, BestEncoder
from laconic.learn.models.candidates import BINS, Folds, TreesCandidate, loss
from laconic.tables import Task
from laconic.threads import limit_threads
from laconic.values import Array
from studies.encoder_choice import MOST_NUMBERS, federation_of
from studies.harness import Job, Record, arguments, markdown, only_on, read_records, run_jobs, write_whole

SEEDS = range(3)
DATA = ("phishing", "credit_default", "superconduct", "california_housing", "adult", "nycflights13", "covtype")
DEPTHS, TREES, RATE = (6, 3), 400, 0.1


def main() -> None:
    """Run what has not been run yet, and write the table, also when stopped."""
    chosen = arguments(__doc__ or "", "studies/results/tree_libraries", renews=True)
    results = chosen.out / "results.jsonl"
    names, seeds, trees = (("phishing",), range(1), 5) if chosen.quick else (DATA, SEEDS, TREES)
    try:
        run_jobs(only_on(_jobs(names, seeds, trees), chosen.only), results, chosen.renew)
    finally:
        write_whole(chosen.out / "table.md", report(read_records(results)))


def _jobs(names: Sequence[str], seeds: Sequence[int], trees: int) -> Iterator[Job]:
    arms = [arm for arm in ARMS if arm != "LightGBM" or find_spec("lightgbm") is not None]
    for seed in seeds:
        for name in names:
            for arm in arms:
                key = {"data": name, "seed": seed, "trees": trees, "arm": arm}
                yield Job(key, partial(measure, name, seed, arm, trees), _CODE)


_CODE = code_digest(FedOnce())


@limit_threads()
def measure(name: str, seed: int, arm: str, trees: int) -> Record:
    """The lower loss of both depths, and the processor time of both."""
    task, x, y = _rows(name, seed)
    order = np.random.default_rng(seed).permutation(len(y))
    folds = Folds(task, x, y, [np.sort(order[place::5]) for place in range(5)])
    started = time.process_time()
    losses = {depth: loss(task, folds.truth, ARMS[arm](folds, depth, trees, seed)) for depth in DEPTHS}
    took = time.process_time() - started
    return {"loss": min(losses.values()), "cpu": round(took, 2), "allowance": {"trials": len(DEPTHS), "trees": trees}}


def _rows(name: str, seed: int) -> tuple[Task, Array, Array]:
    """What the label holder has after one exchange: its columns beside the guests' numbers."""
    federation, encoder = federation_of(name, seed), BestEncoder()
    own, y = federation.tables[federation.hub].part("train")
    numbers = [own]
    for place, guest in enumerate(federation.peers):
        x, rng = federation.tables[guest].part("train")[0], np.random.default_rng([seed, place])
        numbers.append(encoder.encode(encoder.sized(x, MOST_NUMBERS).fit(x, rng), x))
    return federation.task, np.concatenate(numbers, axis=1).astype(np.float32), np.asarray(y)


def _xgboost(folds: Folds, depth: int, trees: int, seed: int) -> Array:
    ours = [one for one in Best(kinds=("trees",), seconds=1e9).candidates(1_000, 10, 1) if _depth(one) == depth]
    wanted: Any = ours[0]
    grown = type(wanted.trees)(**{**_settings(wanted), "trees": trees})
    return TreesCandidate(trees=grown).try_out(folds, np.random.default_rng(seed)).predictions


def _depth(candidate: Any) -> int:
    return int(candidate.trees.depth)


def _settings(candidate: Any) -> dict[str, Any]:
    return {name: getattr(candidate.trees, name) for name in candidate.trees.__struct_fields__}


def _scikit_learn(folds: Folds, depth: int, trees: int, seed: int) -> Array:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    shared: dict[str, Any] = {"learning_rate": RATE, "max_iter": trees, "max_depth": depth, "max_leaf_nodes": None}
    shared |= {"max_bins": BINS, "max_features": _columns(depth), "l2_regularization": 1.0, "early_stopping": False}
    said = []
    for used, held in zip(folds.used, folds.held, strict=True):
        if folds.task.kind == "regression":
            fitted = HistGradientBoostingRegressor(**shared, random_state=seed).fit(folds.x[used], folds.y[used])
            said.append(list(fitted.staged_predict(folds.x[held])))
        else:
            model = HistGradientBoostingClassifier(**shared, random_state=seed).fit(folds.x[used], folds.y[used])
            said.append(
                [_as_task(folds.task, one, model.classes_) for one in model.staged_predict_proba(folds.x[held])]
            )
    return _at_best(folds, said)


def _light_gbm(folds: Folds, depth: int, trees: int, seed: int) -> Array:
    lightgbm = import_module("lightgbm")
    kind = {"regression": "regression", "binary": "binary", "multiclass": "multiclass"}[folds.task.kind]
    wanted: dict[str, Any] = {"objective": kind, "learning_rate": RATE, "max_depth": depth, "num_leaves": 2**depth}
    wanted |= {"max_bin": BINS, "feature_fraction": _columns(depth), "bagging_fraction": 0.8, "bagging_freq": 1}
    wanted |= {"lambda_l2": 1.0, "num_threads": 1, "seed": seed, "verbosity": -1, "deterministic": True}
    if kind == "multiclass":
        wanted["num_class"] = folds.task.outputs
    said = []
    for used, held in zip(folds.used, folds.held, strict=True):
        rows = lightgbm.Dataset(folds.x[used], folds.y[used])
        grown = lightgbm.train(wanted, rows, num_boost_round=trees)
        said.append([grown.predict(folds.x[held], num_iteration=count) for count in _looked_at(trees)])
    return _at_best(folds, said)


def _looked_at(trees: int) -> range:
    """After how many trees LightGBM is looked at: each look predicts anew, so that not every tree has one."""
    return range(min(5, trees), trees + 1, 5)


def _columns(depth: int) -> float:
    """The share of columns that each tree may ask about, as in `Best`."""
    return 0.8 if depth == 6 else 0.6


def _as_task(task: Task, found: Array, classes: Array) -> Array:
    """Probabilities in the order of the task's classes, of which a fold may lack some."""
    whole = np.zeros((len(found), max(task.outputs, 2)))
    whole[:, np.asarray(classes, dtype=np.int64)] = found
    return whole[:, 1] if task.kind == "binary" else whole


def _at_best(folds: Folds, said: Sequence[Sequence[Array]]) -> Array:
    """The predictions after as many trees as lose least over all folds."""
    by_count = [folds.predictions(list(one)) for one in zip(*said, strict=True)]
    return min(by_count, key=lambda found: loss(folds.task, folds.truth, found))


ARMS: dict[str, Callable[[Folds, int, int, int], Array]] = {
    "XGBoost": _xgboost,
    "scikit-learn": _scikit_learn,
    "LightGBM": _light_gbm,
}


def report(records: Sequence[Record]) -> str:
    """The table, as Markdown: losses, and how they change against XGBoost; of equal keys, the last record counts."""
    rows = []
    for name in DATA:
        arms = {arm: {one["key"]["seed"]: one for one in records if _is(one, name, arm)} for arm in ARMS}
        arms = {arm: found for arm, found in arms.items() if found}
        seeds = sorted(set.intersection(*(set(found) for found in arms.values()))) if "XGBoost" in arms else []
        if seeds:
            rows.append([name, len(seeds), *(_cell(arms, arm, seeds) for arm in ARMS), _seconds(arms, seeds)])
    head = ["data", "seeds", *ARMS, "processor seconds, in this order"]
    return (
        "The label holder's loss by cross-validation on training rows (lower is better), means over seeds, by whose "
        "boosted trees it tries; in brackets the change against XGBoost in per cent, seed by seed, with its standard "
        "error. Seconds are of this study and no comparison of speed: XGBoost stops early, scikit-learn grows all, "
        "and LightGBM predicts anew at every look.\n\n" + markdown(head, rows)
    )


def _is(record: Record, name: str, arm: str) -> bool:
    return bool(record["key"]["data"] == name and record["key"]["arm"] == arm)


def _cell(arms: dict[str, dict[int, Record]], arm: str, seeds: Sequence[int]) -> str:
    if arm not in arms:
        return "not run"
    mean = f"{statistics.fmean(arms[arm][seed]['loss'] for seed in seeds):.4f}"
    changes = [100 * (arms[arm][seed]["loss"] / arms["XGBoost"][seed]["loss"] - 1) for seed in seeds]
    if arm == "XGBoost" or len(changes) < 2:
        return mean
    return f"{mean} ({statistics.fmean(changes):+.2f} ± {statistics.stdev(changes) / sqrt(len(changes)):.2f})"


def _seconds(arms: dict[str, dict[int, Record]], seeds: Sequence[int]) -> str:
    return ", ".join(f"{statistics.fmean(found[seed]['cpu'] for seed in seeds):.1f}" for found in arms.values())


if __name__ == "__main__":
    main()
