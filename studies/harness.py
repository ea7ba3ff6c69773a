"""What every study shares: jobs that resume where they stopped, and tables with mean and spread."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One thing to measure.

    Attributes:
        key: what it is: plain values that name it, such as data, method and seed. A job with the same key is not run
            again.
        measure: does the work and returns plain values to keep.
    """

    key: Record
    measure: Callable[[], Record]


def arguments(about: str, default_out: str) -> argparse.Namespace:
    """The options of every study: `--quick` and `--out`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="small sizes and one seed, in two minutes at most")
    parser.add_argument("--out", type=Path, default=None, help=f"folder for results (default: {default_out})")
    parser.add_argument("--only", default=None, help="run the jobs on this data set only; the table shows what is done")
    chosen = parser.parse_args()
    chosen.out = chosen.out or Path(default_out + ("-quick" if chosen.quick else ""))
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def run_jobs(jobs: Iterable[Job], results: Path) -> list[Record]:
    """Run every job not yet in the file `results`, adding a line as each finishes; all jobs' records, in order."""
    done = {_name(record["key"]): record for record in read_records(results)}
    records = []
    for job in jobs:
        name = _name(job.key)
        if name not in done:
            started = time.perf_counter()
            measured = job.measure()
            done[name] = {"key": job.key, "seconds": round(time.perf_counter() - started, 2), **measured}
            with results.open("a") as lines:
                lines.write(json.dumps(done[name]) + "\n")
            numbers = {key: value for key, value in measured.items() if isinstance(value, int | float)}
            print(name, numbers, file=sys.stderr)
        records.append(done[name])
    return records


def only_on(jobs: Iterable[Job], name: str | None) -> list[Job]:
    """The jobs on one data set, or all of them."""
    return [job for job in jobs if name is None or job.key.get("data") == name]


def read_records(results: Path) -> list[Record]:
    """All whole lines of a results file; a line cut off by a stop is left out."""
    if not results.exists():
        return []
    records = []
    for line in results.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


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


def _name(key: Record) -> str:
    return json.dumps(key, sort_keys=True)
