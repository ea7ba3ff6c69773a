"""What every study shares: jobs that resume where they stopped, and tables with mean and spread."""

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import laconic.deploy.result
from laconic.data import Dataset
from laconic.deploy.result import Job, Record, name_of, read_records

__all__ = [
    "Job",
    "Record",
    "arguments",
    "markdown",
    "mean_spread",
    "only_on",
    "read_records",
    "run_jobs",
    "some_rows",
    "write_whole",
]


def arguments(about: str, default_out: str, *, renews: bool = False, parts: Sequence[str] = ()) -> argparse.Namespace:
    """The options of every study, `--quick`, `--out` and `--only`; `--renew` and `--part` for those that have them."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes and one seed, in two minutes at most")
    parser.add_argument("--out", type=Path, default=None, help=f"folder for results (default: {default_out})")
    parser.add_argument("--only", default=None, help="run the jobs on this data set only; the table shows what is done")
    if renews:
        parser.add_argument("--renew", action="store_true", help="run again what other code has measured")
    if parts:
        parser.add_argument("--part", choices=parts, help="run this part of the study only")
    chosen = parser.parse_args()
    chosen.out = chosen.out or Path(default_out + ("-quick" if chosen.quick else ""))
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def run_jobs(jobs: Iterable[Job], results: Path, renew: bool = False) -> list[Record]:
    """Run every job not yet in the file `results`, saying what each found; all jobs' records, in order.

    With `renew`, also those whose record was made by other code: of two records with one key, the last counts.
    """

    def tell(job: Job, record: Record) -> None:
        numbers = {key: value for key, value in record.items() if isinstance(value, int | float)}
        print(name_of(job.key), numbers, file=sys.stderr)

    return laconic.deploy.result.run_jobs(jobs, results, tell, renew=renew)


def only_on(jobs: Iterable[Job], name: str | None, part: str | None = None) -> list[Job]:
    """The jobs on one data set and of one part, its `table`; or all of them."""
    wanted = {"data": name, "table": part}
    return [job for job in jobs if all(value in (None, job.key.get(which)) for which, value in wanted.items())]


def some_rows(dataset: Dataset, rows: int, seed: int = 0) -> Dataset:
    """A data set with at most so many of its rows, drawn by a seed."""
    kept = np.sort(np.random.default_rng(seed).permutation(dataset.rows)[:rows])
    ids = None if dataset.ids is None else dataset.ids[kept]
    return replace(dataset, raw=dataset.raw[kept], y=dataset.y[kept], ids=ids, test=None)


def mean_spread(values: Sequence[float], digits: int = 4) -> str:
    """`mean ± standard deviation`, or the value alone if there is one."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text)
    part.replace(path)
