"""Is a party's account ever below what left? Random sequences of what a hostile hub, crashes and people do to it.

    python -m benchmarks.account_sequences [--count 10000] [--minutes 8] [--record FILE]
    python -m benchmarks.account_sequences --teeth 500

Each sequence greets, asks, cuts rows, crashes, restarts, loses, puts back and makes anew, seals and serves, on one to
three processes of one party; `tests/attacks/account_sequences.py` counts what left. It stops at whichever limit comes
first; with a record, the same command goes on from there. It ends with 1 if after any act an account was below what had
left, below what it was before, or above its limit. `--teeth` counts instead how many of the first sequences find each
of the mends in `tests/attacks/account_mends.py` switched off.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

MEMORY = Path("/dev/shm")  # noqa: S108
"""A folder in memory, if there is one: what a loss of power does is not tried here, and disks are slow."""


def main() -> None:
    """Run sequences, and say what ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first sequence")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--record", type=Path, help="where to keep what ran, so that the next call goes on from there")
    parser.add_argument("--teeth", type=int, default=0, help="so many sequences for each mend switched off")
    given = parser.parse_args()
    if given.teeth:
        _show_teeth(given.teeth)
        return
    record = given.record.read_text().splitlines() if given.record and given.record.exists() else []
    parts = [json.loads(line) for line in record]
    first = given.first + sum(part["ran"] for part in parts)
    part = _run(first, given.first + given.count - first, given.minutes)
    parts.append(part)
    if given.record:
        with given.record.open("a") as stream:
            stream.write(json.dumps(part) + "\n")
    wrong = _show(parts)
    sys.exit(1 if wrong else 0)


def _run(first: int, count: int, minutes: float) -> dict[str, Any]:
    """Some sequences, and what they cost."""
    sequences = import_module("tests.attacks.account_sequences")
    began, used, ran, real, wrong = time.monotonic(), _processor_time(), 0, 0, {}
    for seed in range(first, first + count):
        if time.monotonic() - began > 60 * minutes:
            break
        found = _try(sequences.run_sequence, seed)
        ran, real = ran + 1, real + sequences.is_real(seed)
        if found:
            wrong[seed] = found
    cost = {"seconds": time.monotonic() - began, "processor": _processor_time() - used}
    return {"first": first, "ran": ran, "real": real, "wrong": wrong} | cost


def _try(run: Callable[[Path, int], str], seed: int) -> str:
    with tempfile.TemporaryDirectory(prefix="laconic-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return run(Path(folder), seed)


def _processor_time() -> float:
    """Seconds of this process and of those it has started."""
    return sum(os.times()[:4])


def _show(parts: list[dict[str, Any]]) -> int:
    """Say what ran in all parts; returns how many sequences found something."""
    ran, real = (sum(part[key] for part in parts) for key in ("ran", "real"))
    spent, processor = (sum(part[key] for part in parts) for key in ("seconds", "processor"))
    wrong = {seed: found for part in parts for seed, found in part["wrong"].items()}
    for seed, found in wrong.items():
        print(f"sequence {seed}: {found}")
    print(
        f"{ran:,} sequences, {real:,} of them with real processes and SIGKILL, in {len(parts)} parts: "
        f"{spent / 60:.1f} min, {processor / 60:.1f} min of one processor"
    )
    print(f"{len(wrong)} with an account below what left, below itself before, or above its limit")
    return len(wrong)


def _show_teeth(count: int) -> None:
    """How many sequences find each mend switched off."""
    run = import_module("tests.attacks.account_sequences").run_sequence
    mends = import_module("tests.attacks.account_mends")
    print(f"| switched off | found by, of {count} sequences | first |")
    print("|---|---|---|")
    for mend in mends.MENDS:
        found = []
        for seed in range(count):
            with mends.without(mend):
                found += [seed] if _try(run, seed) else []
        print(f"| {mend} | {len(found)} | {found[0] if found else '-'} |", flush=True)


if __name__ == "__main__":
    main()
