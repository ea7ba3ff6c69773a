"""How long private matching takes, whether that is linear in the number of ids, and how much memory it needs.

    python -m benchmarks.psi                          # 25,000, 50,000 and 100,000 ids a side
    python -m benchmarks.psi --ids 1000000            # a million a side

Both parties run in one process, so that time and memory are those of the two together; half of each side's ids are
shared. Each size has a process of its own, whose greatest resident memory is shown.
"""

import argparse
import resource
import subprocess
import sys
from time import perf_counter, process_time

import numpy as np

from laconic.align import PrivateMatch
from laconic.align.psi import hide_ids, multiply, new_secret
from laconic.core import Party, Peers, WireLog
from laconic.deploy import open_calls
from laconic.tables import Column, Table
from laconic.values import listening


def main() -> None:
    """Measure each size in a fresh process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ids", type=int, nargs="+", default=[25_000, 50_000, 100_000], help="ids a side")
    parser.add_argument("--alone", action="store_true", help="measure in this process")
    options = parser.parse_args()
    if options.alone:
        measure(options.ids[0])
        return
    print(f"one point: {cost_of_point():.0f} us of one processor to multiply")
    print(f"{'ids a side':>12} {'seconds':>9} {'processor s':>12} {'us an id':>9} {'MB crossed':>11} {'peak MB':>8}")
    for ids in options.ids:
        subprocess.run([sys.executable, "-m", "benchmarks.psi", "--alone", "--ids", str(ids)], check=True)


def measure(ids: int) -> None:
    """Match two parties and print one line of the table."""
    bank, shop = party("bank", 0, ids), party("shop", ids // 2, ids)
    align, log = PrivateMatch(), WireLog()
    log.phase = "align"
    began, worked = perf_counter(), process_time()
    with open_calls((shop,)) as carrier, listening(show):
        found = align.match(bank, Peers(align, bank, carrier, log, carrier.names))
    seconds, worked = perf_counter() - began, process_time() - worked
    if found["shared"] != ids - ids // 2:
        raise SystemExit(f"found {found['shared']} shared ids instead of {ids - ids // 2}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    crossed = log.bytes["align"] / 1e6
    line = f"{ids:>12,} {seconds:>9.1f} {worked:>12.1f} {seconds / ids * 1e6:>9.0f} {crossed:>11.1f} {peak:>8.0f}"
    print(f"\r{line}", flush=True)


def party(name: str, start: int, ids: int) -> Party:
    """A party with one column and ids that overlap another's by half, in an order of its own."""
    rng = np.random.default_rng(start)
    order = rng.permutation(ids) + start
    table = Table(rng.normal(size=(ids, 1)), [Column("x")], ids=np.char.add("id", order.astype(str)), party=name)
    return Party(name, table, 0)


def cost_of_point() -> float:
    """Microseconds of one processor for one multiplication."""
    points = hide_ids([str(number) for number in range(2000)], new_secret())
    began = process_time()
    multiply(points, new_secret(), threads=1)
    return (process_time() - began) / len(points) * 1e6


def show(what: str, done: int, of: int | None) -> None:
    """Progress on standard error, where a table on standard output is not disturbed."""
    sys.stderr.write(f"\r{what}: {done} of {of}    ")
    if done == of:
        sys.stderr.write("\n")


if __name__ == "__main__":
    main()
