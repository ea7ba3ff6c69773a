"""How long the label holder's chooser takes: `Best()` as it comes, on tables of 40 numbers, of which 16 are its own.

Asked for: at most 60 s on two cores for 100,000 rows, and less than 20 s for 10,000. Run on a quiet machine:
`python -m benchmarks.chooser`. It prints the load that it found: the clock of a busy machine says little. As it uses
one thread, how much the processor worked is what the clock of a quiet machine shows, and what is held against these.
"""

import os
import time

import numpy as np

from laconic.learn import Best
from laconic.learn.models.best import tried_of
from laconic.tables import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng

COLUMNS, OWN = 40, 16
ASKED = {10_000: 20.0, 100_000: 60.0}
TASKS = (
    Task(kind="binary", classes=("no", "yes")),
    Task(kind="regression"),
    Task(kind="multiclass", classes=tuple("abcdefg")),
)


def main() -> None:
    """Print what each table took, and what was tried and taken."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    for rows, most in ASKED.items():
        for task in TASKS:
            print(_line(task, rows, most), flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _line(task: Task, rows: int, most: float) -> str:
    rng = np.random.default_rng(0)
    x, y = draw(task, rows, rng)
    clock, worked = time.perf_counter(), time.process_time()
    with limit_threads(1):
        tried = tried_of(Best().fit_all(task, x, y, rng, own=OWN))
    clock, worked = time.perf_counter() - clock, time.process_time() - worked
    taken = ", ".join(one.model for one in tried if one.share > 0 and "stack" not in one.model)
    return (
        f"{rows:,} x {COLUMNS} ({OWN} own), {task.kind}: {clock:.1f} s by the clock, {worked:.1f} s of the processor's "
        f"work ({most:g} s asked for: {'kept' if worked <= most else 'NOT KEPT'}); {len(tried)} tried, taken: {taken}"
    )


def draw(task: Task, rows: int, rng: Rng) -> tuple[Array, Array]:
    """Rows of which some numbers matter, alone and in pairs, and labels with noise."""
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    weights = rng.normal(size=(10, max(task.outputs, 1)))
    signal = x[:, :10] @ weights + np.abs(x[:, 10:20]) @ weights + (x[:, 20:30] * x[:, 30:40]) @ weights
    noisy = signal + rng.normal(scale=2.0, size=signal.shape)
    if task.kind == "regression":
        return x, noisy[:, 0]
    return x, (noisy[:, 0] > np.median(noisy[:, 0])).astype(int) if task.kind == "binary" else noisy.argmax(axis=1)


if __name__ == "__main__":
    main()
