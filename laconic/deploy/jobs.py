"""Work that is kept as JSON lines as it is done: what is in the file stays done, whoever stopped it and when."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laconic.atomic_files import note_written, unbroken

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One thing to measure.

    Attributes:
        key: what it is: plain values that name it, such as data, method and seed. A job with the same key is not run
            again.
        measure: does the work and returns plain values to keep.
        code: a digest of the code that does it (see `code_digest`), kept in the record; empty for none.
    """

    key: Record
    measure: Callable[[], Record]
    code: str = ""


def run_jobs(
    jobs: Iterable[Job],
    results: Path,
    on_done: Callable[[Job, Record], object] = lambda _, __: None,
    *,
    renew: bool = False,
) -> list[Record]:
    """Run every job not yet in the file `results`, adding a line as each finishes; all jobs' records, in order.

    Args:
        results: a file of JSON lines; it may hold other jobs too. Of several records with one key, the last counts.
        on_done: called with each job that was run now, and its record.
        renew: run a job again whose record was made by other code.
    """
    done = {name_of(record["key"]): record for record in read_records(results)}
    records = []
    for job in jobs:
        name = name_of(job.key)
        if name not in done or (renew and done[name].get("code", "") != job.code):
            started = time.perf_counter()
            measured = job.measure()
            made_by = {"code": job.code} if job.code else {}
            done[name] = {"key": job.key, "seconds": round(time.perf_counter() - started, 2), **made_by, **measured}
            add_record(done[name], results)
            on_done(job, done[name])
        records.append(done[name])
    return records


def read_records(results: Path) -> list[Record]:
    """All whole lines of a results file; a line cut off by a stop is left out."""
    if not results.exists():
        return []
    records = []
    for line in results.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def add_record(record: Record, results: Path) -> None:
    """Add a line; after one that a stop cut off, on a line of its own, so that only the broken one is lost."""
    line = json.dumps(record) + "\n"
    with unbroken(), results.open("a+b") as lines:
        if lines.tell() > 0:
            lines.seek(-1, 2)
            if lines.read(1) != b"\n":
                line = "\n" + line
        lines.write(line.encode())
    note_written(results)


def name_of(key: Record) -> str:
    """A key as one text, the same for equal keys."""
    return json.dumps(key, sort_keys=True)
