"""Take drawn messy federations through every method and verb, and count how they end.

    python -m benchmarks.messy_federations --count 2000 --jobs 2 [--out messy.jsonl]
    python -m benchmarks.messy_federations --seed 17        one federation, in full

For each seed a federation is drawn (`laconic.testing`), its files are read and compared with what was written, and it
goes through one method and one chain of verbs, so that all get their share. Every step gives a result, or one clear
error; `result due` is a clear error of a federation that owes a result: 50 rows, two classes, a usable column at every
party. Tracebacks and misreadings are printed with their seeds. Seeds that are in the file of --out are not tried again,
so that the same command goes on after Ctrl-C.
"""

import argparse
import multiprocessing
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from benchmarks.messy_verbs import CHAINS, Ended, Outcome, Tour, read, suited
from laconic.testing import draw
from laconic.threads import limit_threads

BAD: tuple[Ended, ...] = ("traceback", "misreading", "result due")


class Trip(msgspec.Struct, frozen=True):
    """What became of one seed."""

    seed: int
    kind: str
    rows: int
    method: str
    chain: str
    seconds: float
    outcomes: tuple[Outcome, ...]


def travel(seed: int, most_rows: int = 2000, plain: bool = False) -> Trip:
    """Take one federation through reading, a method and a chain of verbs."""
    started = time.perf_counter()
    federation = draw(seed, most_rows=most_rows)
    federation = federation.in_plain_files() if plain else federation
    methods = suited(federation)
    method = methods[seed % len(methods)]
    chain = list(CHAINS)[seed // 3 % len(CHAINS)]
    with tempfile.TemporaryDirectory(prefix=f"messy-{seed}-") as folder, warnings.catch_warnings(), limit_threads(1):
        warnings.simplefilter("ignore")
        tour = Tour(federation, Path(folder), method)
        read(tour)
        # A mistake of the chain itself is a find as well, and must not end the others.
        tour.step(f"chain {chain}", lambda: CHAINS[chain](tour))
    seconds = round(time.perf_counter() - started, 3)
    return Trip(seed, federation.kind, federation.rows, method.__name__, chain, seconds, tuple(tour.outcomes))


def trips(seeds: Iterable[int], jobs: int, most_rows: int, plain: bool) -> Iterator[Trip]:
    """All seeds, in processes that go on from one to the next."""
    work = [(seed, most_rows, plain) for seed in seeds]
    if jobs == 1:
        yield from (travel(*one) for one in work)
        return
    # Spawned, as threads of torch do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(jobs, _ignore_ctrl_c) as pool:
        yield from pool.imap_unordered(_travel, work)


def show(found: list[Trip]) -> bool:
    """Print counts by kind, and every find; whether there is none."""
    outcomes = [(trip, one) for trip in found for one in trip.outcomes]
    ended = Counter(one.ended for _, one in outcomes)
    total = sum(trip.seconds for trip in found)
    print(f"{len(found)} federations, {len(outcomes)} steps, {total / max(len(found), 1):.2f} s per federation")
    print(", ".join(f"{count} {word}" for word, count in ended.most_common()))
    for word in ("clear error", *BAD):
        kinds: dict[str, list[int]] = {}
        for trip, one in outcomes:
            if one.ended == word:
                kinds.setdefault(f"[{one.step}] {one.kind}" if word in BAD else one.kind, []).append(trip.seed)
        print(f"\n{word}: {sum(map(len, kinds.values()))}")
        for kind, seeds in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
            print(f"  {len(seeds):5d}  {kind}   seeds {', '.join(map(str, sorted(set(seeds))[:6]))}")
    bad = sum(ended[word] for word in BAD)
    if bad:
        print("\nOne of them in full: python -m benchmarks.messy_federations --seed SEED")
    return not bad


def _travel(work: tuple[int, int, bool]) -> Trip:
    return travel(*work)


def _ignore_ctrl_c() -> None:
    # The parent alone answers Ctrl-C, and ends its pool.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _done(path: Path | None) -> list[Trip]:
    if path is None or not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A last line without its end was cut off.
    return [msgspec.json.decode(line, type=Trip) for line in lines if line.endswith("\n")]


def main() -> int:
    """Try many federations, or one; 1 if there is a traceback, a misreading or a missing result."""
    words = argparse.ArgumentParser(description="Messy federations through every method and verb.")
    words.add_argument("--count", type=int, default=2000, help="how many seeds, from --first on [2000]")
    words.add_argument("--first", type=int, default=0, help="the first seed [0]")
    words.add_argument("--seed", type=int, help="one seed, in full")
    words.add_argument("--jobs", type=int, default=2, help="processes [2]")
    words.add_argument("--most-rows", type=int, default=2000, help="the most people of a federation [2000]")
    words.add_argument("--plain", action="store_true", help="the same rows in plain CSV files")
    words.add_argument("--out", type=Path, help="JSON lines of seeds that are done, to go on from")
    given = words.parse_args()
    if given.seed is not None:
        trip = travel(given.seed, given.most_rows, given.plain)
        print(f"seed {trip.seed}: {trip.kind}, {trip.rows} rows, {trip.method}, chain {trip.chain}, {trip.seconds} s")
        for one in trip.outcomes:
            print(f"  {one.step}: {one.ended} {one.words}")
        return 0 if not any(one.ended in BAD for one in trip.outcomes) else 1
    found = _done(given.out)
    there = {trip.seed for trip in found}
    seeds = [seed for seed in range(given.first, given.first + given.count) if seed not in there]
    try:
        for trip in trips(seeds, given.jobs, given.most_rows, given.plain):
            found.append(trip)
            if given.out is not None:
                with given.out.open("ab") as file:
                    file.write(msgspec.json.encode(trip) + b"\n")
            bad = sum(one.ended in BAD for trip in found for one in trip.outcomes)
            print(f"\r{len(found)} done, {bad} finds ", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("\nStopped; the same command with the same --out goes on from here.", file=sys.stderr)
    print(file=sys.stderr)
    return 0 if show(found) else 1


if __name__ == "__main__":
    sys.exit(main())
