"""How much memory it takes to read a party's source, beside the size of the source.

Usage: python -m benchmarks.reading [--megabytes 500] [--columns 60] [--used 3] [--batches]

Writes a CSV file of that size to a temporary folder, and reads some of its columns, in a process of its own. With
`--batches` it compares our batches of the file with those of `pyarrow.dataset`, as text and without making a table.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow
from pyarrow import csv, dataset

from laconic.data import OwnData, read_own
from laconic.data.readers.batches import read_batches


def main() -> None:
    """Write, read, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--used", type=int, default=3)
    parser.add_argument("--batches", action="store_true", help="compare readers of batches")
    parser.add_argument("--read", type=Path, help="only read this file")
    parser.add_argument("--by", choices=("table", "ours", "dataset"), default="table", help="what to read it by")
    chosen = parser.parse_args()
    if chosen.read is not None:
        (read if chosen.by == "table" else read_in_batches)(chosen.read, chosen.used, chosen.by)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write(path, chosen.megabytes, chosen.columns)
        command = [sys.executable, "-m", "benchmarks.reading", "--read", str(path), "--used", str(chosen.used)]
        for way in ("ours", "dataset") if chosen.batches else ("table",):
            subprocess.run([*command, "--by", way], check=True)


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


def read_in_batches(path: Path, used: int, way: str) -> None:
    """Read the first columns as frames of text, and print what that took."""
    names = ["id", *(f"c{number}" for number in range(used))]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    began = process_time()
    if way == "ours":
        rows = sum(len(frame) for frame in read_batches("bank", OwnData(source=str(path), key="id"), names))
    else:
        form = dataset.CsvFileFormat(
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string())),
        )
        source = dataset.dataset(str(path), format=form)
        rows = sum(len(batch.to_pandas()) for batch in source.to_batches(columns=names, batch_size=100_000))
    seconds = process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"{way}: {rows:,} rows, {seconds:.2f} s of processor time, {peak:,.0f} MB at the most ({before:,.0f} before)")


def read(path: Path, used: int, _way: str) -> None:
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
