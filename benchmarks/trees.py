"""Boosted trees over three parties' columns against XGBoost on all: time, bytes, and how far predictions differ.

    python -m benchmarks.trees [--rows 30000] [--columns 24] [--trees 50] [--encrypted-trees 1]

XGBoost's own federated mode is timed too where it is at hand (see `laconic.learn.trees.xgboost_mode`), as is
encryption, for fewer trees, where TenSEAL is.
"""

import argparse
import time
from importlib.util import find_spec

import numpy as np

from laconic import Equal, Federation, Result, VerticalXgboost, deal, simulate, train
from laconic.data import Dataset
from laconic.deploy import Processes
from laconic.learn import Boosted
from laconic.learn.trees.xgboost_mode import has_mode
from laconic.methods import Socket
from laconic.privacy import Encrypted
from laconic.tables import Column, Task
from laconic.values import Array

PARTIES = 3


def main() -> None:
    """Print a table: one line for each way to grow the same trees."""
    chosen = _arguments()
    federation = made_up(chosen.rows, chosen.columns)
    trees = Boosted(trees=chosen.trees)
    for table in federation.tables.values():
        _ = table.x  # Prepared beforehand for all.
    expected, seconds, processor = pooled(federation, trees)
    print("| way | trees | seconds | processor s | bytes up | bytes down | rounds | greatest difference |")
    print("|---|---|---|---|---|---|---|---|")
    print(f"| XGBoost on all columns | {trees.trees} | {seconds:.1f} | {processor:.1f} | | | | |", flush=True)
    for sends in ("histograms", "best splits"):
        started, used = time.perf_counter(), time.process_time()
        trained = train(VerticalXgboost(trees=trees, sends=sends), federation)
        seconds, processor = time.perf_counter() - started, time.process_time() - used
        apart = float(np.abs(trained.predict("test") - expected).max())
        _print(sends, trees, seconds, processor, trained.result, f"{apart:.1e}")
    if has_mode():
        _time("XGBoost's own mode, sockets", VerticalXgboost(trees=trees, socket=Socket()), federation, Processes())
    if find_spec("tenseal") is not None and chosen.encrypted_trees:
        few = Boosted(trees=chosen.encrypted_trees)
        _time("histograms", VerticalXgboost(trees=few), federation)
        _time("encrypted, packed", VerticalXgboost(trees=few, cipher=Encrypted()), federation)


def made_up(rows: int, columns: int) -> Federation:
    """Numbers with a label that depends on all columns and on products of some."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    score = x @ rng.standard_normal(columns) + x[:, 0] * x[:, columns // 2] + rng.standard_normal(rows)
    named = tuple(Column(f"column {place}") for place in range(columns))
    task = Task(kind="binary", classes=("no", "yes"))
    dataset = Dataset(name="made up", raw=x, columns=named, y=(score > 0).astype(np.int64), task=task)
    return deal(dataset, Equal(parties=PARTIES), seed=0, test=0.1, valid=0.001)


def pooled(federation: Federation, trees: Boosted) -> tuple[Array, float, float]:
    """What XGBoost predicts for test rows from all columns together, and the time it takes to learn."""
    x = {rows: np.hstack([one.part(rows)[0] for one in federation.tables.values()]) for rows in ("train", "test")}
    started, used = time.perf_counter(), time.process_time()
    weights = trees.fit(federation.task, x["train"], federation.labels("train"), np.random.default_rng(0))
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    return trees.predict(federation.task, weights, x["test"]), seconds, processor


def _time(way: str, method: VerticalXgboost, federation: Federation, runtime: Processes | None = None) -> None:
    started, used = time.perf_counter(), time.process_time()
    result = simulate(method, federation, runtime=runtime) if runtime is not None else simulate(method, federation)
    # The processor time of other processes is not seen from here.
    processor = None if runtime is not None else time.process_time() - used
    _print(way, method.trees, time.perf_counter() - started, processor, result, "")
    for part in result.wire:
        if "," in part.step:
            up, down = f"{part.bytes_up:,}", f"{part.bytes_down:,}"
            print(f"| {part.party}: {part.step.partition(', ')[2]} | | | | {up} | {down} | | |", flush=True)


def _print(way: str, trees: Boosted, seconds: float, processor: float | None, result: Result, apart: str) -> None:
    used = "" if processor is None else f"{processor:.1f}"
    fit = result.fit
    print(
        f"| {way} | {trees.trees} | {seconds:.1f} | {used} | {fit.bytes_up:,} | {fit.bytes_down:,} | {fit.rounds} | "
        f"{apart} |",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--encrypted-trees", type=int, default=1, help="how many trees to grow encrypted; 0 for none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
