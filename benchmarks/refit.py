"""How long it takes to refit a head for one pattern of presence, from stored answers.

Usage: python -m benchmarks.refit [--rows 10000] [--numbers 16]
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np

from laconic.inference import Refit, Store
from laconic.inference.absent import Answers, Case
from laconic.tables import Column, Table, Task, fit_recipe
from laconic.threads import limit_threads
from laconic.values import Array


def main() -> None:
    """Print wall and processor seconds, the least of three, for each kind of task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--numbers", type=int, default=16)
    chosen = parser.parse_args()
    print(f"| {chosen.rows:,} training rows, 3 parties x {chosen.numbers} numbers | seconds | processor seconds |")
    print("|---|---|---|")
    tasks = {
        "two classes": Task(kind="binary", classes=("no", "yes")),
        "ten classes": Task(kind="multiclass", classes=tuple("abcdefghij")),
        "numbers": Task(kind="regression"),
    }
    for name, task in tasks.items():
        store = _store(chosen.rows, chosen.numbers, task)
        wall, processor = _clock(task, store)
        print(f"| refit, {name} | {wall:.2f} | {processor:.2f} |", flush=True)


def _clock(task: Task, store: Store) -> tuple[float, float]:
    times = []
    with limit_threads(1):
        for seed in range(3):
            wall, processor = time.perf_counter(), time.process_time()
            Refit(seed=seed).fit(Case(task, store, ("shop", "insurer"), _nobody))
            times.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(one for one, _ in times), min(one for _, one in times)


def _nobody(_stored: Store, _ids: Sequence[str], _zeros: frozenset[str], _gaps: frozenset[str], /) -> Array:
    raise RuntimeError("a refitted head asks nothing of the joint model")


def _store(rows: int, numbers: int, task: Task) -> Store:
    rng = np.random.default_rng(0)
    count = rows + rows // 9
    raw = rng.standard_normal((count, numbers))
    sent = {name: rng.standard_normal((count, numbers)).astype(np.float32) for name in ("shop", "insurer", "telecom")}
    signal = raw.sum(axis=1) + sum(one.sum(axis=1) for one in sent.values()) + rng.standard_normal(count)
    classes = len(task.classes)
    ranks = np.argsort(np.argsort(signal)) * max(classes, 1) // count
    columns = tuple(Column(f"column {number}") for number in range(numbers))
    own = Table(
        raw,
        columns,
        ids=np.arange(count),
        task=task,
        cuts={"train": np.arange(rows), "valid": np.arange(rows, count)},
        party="bank",
        recipe=fit_recipe(raw, columns, np.arange(rows)),
    )
    ids = tuple(str(one) for one in range(count))
    answers = {name: Answers(ids, {"represent": one}) for name, one in sent.items()}
    return Store(own, ranks if classes else signal, answers)


if __name__ == "__main__":
    main()
