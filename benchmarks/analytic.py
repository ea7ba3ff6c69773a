"""How long Analytic takes: the sums of a party's features, and the server's solution, on one core.

Beside the sums stands what the linear algebra library alone takes for the same products, in one call for all rows: its
limit. Peak memory is that of all arrays that numpy holds, the features themselves left out.

Usage: python -m benchmarks.analytic [--rows 60000] [--widths 2048 4096]
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from laconic.learn.models.least_squares import Sums, solve, sum_up
from laconic.threads import limit_threads
from laconic.values import Array


def main() -> None:
    """Print a table: seconds, the least of three, and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--widths", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--times", type=int, default=3)
    chosen = parser.parse_args()
    print(f"| {chosen.rows:,} rows, ten classes, one core | seconds | peak MB |")
    print("|---|---|---|")
    for width in chosen.widths:
        for line, work in _tasks(chosen.rows, width).items():
            seconds, peak = _clock(work, chosen.times)
            print(f"| {width:,} features: {line} | {seconds:.2f} | {peak / 1e6:.0f} |", flush=True)


def _tasks(rows: int, width: int) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rows, width), dtype=np.float32)
    targets = np.eye(10)[rng.integers(10, size=rows)]
    sums = _few_sums(features, targets)
    return {
        "sums": lambda: sum_up(features, targets),
        "the same products by the library alone": lambda: _product(features),
        "sums in float64": lambda: sum_up(features, targets, exact=True),
        "solution with the penalty chosen": lambda: solve(sums),
    }


def _few_sums(features: Array, targets: Array) -> Sums:
    """Sums of some of the rows: the solution takes as long."""
    return sum_up(features[:8192], targets[:8192])


def _product(features: Array) -> Array:
    return np.asarray(features.T @ features)


def _clock(work: Callable[[], object], times: int) -> tuple[float, int]:
    seconds = []
    with limit_threads(1):
        for _ in range(times):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return min(seconds), peak


if __name__ == "__main__":
    main()
