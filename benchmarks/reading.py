"""How much memory it takes to read a party's source, beside the size of the source.

Usage: python -m benchmarks.reading [--megabytes 500] [--columns 60] [--used 3]

Writes a CSV file of that size to a temporary folder, and reads some of its columns, in a process of its own.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from laconic.data.readers.source_table import read_own
from laconic.data.schema import OwnData


def main() -> None:
    """Write, read, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--used", type=int, default=3)
    parser.add_argument("--read", type=Path, help="only read this file")
    chosen = parser.parse_args()
    if chosen.read is not None:
        read(chosen.read, chosen.used)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write(path, chosen.megabytes, chosen.columns)
        command = [sys.executable, "-m", "benchmarks.reading", "--read", str(path), "--used", str(chosen.used)]
        subprocess.run(command, check=True)


def write(path: Path, megabytes: int, columns: int) -> None:
    """A block of random rows again and again, with new ids."""
    rng = np.random.default_rng(0)
    block = [",".join(f"{cell:.6f}" for cell in row) for row in rng.normal(size=(5000, columns))]
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(("id", *(f"c{number}" for number in range(columns)))) + "\n")
        start = 0
        while file.tell() < megabytes * 1e6:
            file.write("".join(f"{start + number},{row}\n" for number, row in enumerate(block)))
            start += len(block)


def read(path: Path, used: int) -> None:
    """Read the first columns, and print what that took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    began = perf_counter()
    own = read_own("bank", OwnData(source=str(path), key="id", columns={f"c{n}": "numeric" for n in range(used)}))
    seconds = perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        f"{path.stat().st_size / 1e6:,.0f} MB, {own.rows:,} rows, {used} columns used: "
        f"{seconds:.1f} s, {peak:,.0f} MB at the most ({before:,.0f} MB before reading)"
    )


if __name__ == "__main__":
    main()
