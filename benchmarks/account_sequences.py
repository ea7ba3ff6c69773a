"""Is a party's account ever below what left? Random sequences of what a hostile hub, crashes and people do to it.

    python -m benchmarks.account_sequences [--count 10000] [--minutes 5]

Each sequence greets, asks, cuts rows, crashes, restarts, loses, puts back and makes anew, seals and serves, on one to
three processes of one party; `tests/attacks/account_sequences.py` counts what left. It stops at whichever limit comes
first, says how many ran, and ends with 1 if any account was below what had left or above its limit.
"""

import argparse
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run sequences, and say what ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first sequence")
    parser.add_argument("--minutes", type=float, default=5.0)
    given = parser.parse_args()
    run_sequence = import_module("tests.attacks.account_sequences").run_sequence
    began, ran, wrong = time.monotonic(), 0, 0
    for seed in range(given.first, given.first + given.count):
        if time.monotonic() - began > 60 * given.minutes:
            break
        with tempfile.TemporaryDirectory(prefix="laconic-") as folder:
            found = run_sequence(Path(folder), seed)
        ran += 1
        if found:
            wrong += 1
            print(f"sequence {seed}: {found}")
    print(f"{ran:,} sequences in {time.monotonic() - began:.0f} s, {wrong} with an account below what left")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
