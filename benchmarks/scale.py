"""What FedOnce costs by rows and parties: time by part, peak memory, bytes, and how fast each of these grows.

    python -m benchmarks.scale [--rows 10000 100000 1000000] [--parties 3] [--ids number text] [--head trees net]
                               [--memory "6 GB"]

Parties hold ten columns of numbers each, in Parquet files, with ids in an order of their own; the first has a label of
two classes. Each point is a process of its own, so that its memory is its own too. With `--memory` tables are read with
that setting, and the operating system refuses the process more. `read` makes tables of the files, `align` matches ids
in the clear, `fit` is everything up to the label holder's model, `predict` are the test rows.

The processor's work is what a quiet machine's clock shows on one core; both stand side by side, with the load average
that was found. Lines are added to the file of `--out` as they come, and a point that is there is not run again.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from laconic import FedOnce, federation
from laconic.align import ExactMatch
from laconic.core import Method, Party, Peers, WireLog, task_of
from laconic.deploy import open_calls, roles
from laconic.learn import Boosted, Joint
from laconic.tables import headline, metrics
from laconic.tables.on_disk import bytes_of
from laconic.threads import limit_threads

COLUMNS = 10
PARTS = ("read", "align", "fit", "predict")
HEADS: dict[str, Method] = {
    "trees": FedOnce(head=Boosted(trees=200, lr=0.2)),
    "net": FedOnce(head=Joint()),
}

T = TypeVar("T")
Point = dict[str, Any]


def main() -> None:
    """Measure every point that is not in the file, and print a line for each, then the exponents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--parties", type=int, nargs="+", default=[3])
    parser.add_argument("--ids", choices=("number", "text"), nargs="+", default=["number"])
    parser.add_argument("--head", choices=tuple(HEADS), nargs="+", default=["trees"])
    parser.add_argument("--memory", help="the most that a point may use, such as '6 GB'")
    parser.add_argument("--out", type=Path, help="a file of JSON lines")
    parser.add_argument("--one", type=Path, help="measure the one point whose files are in this folder")
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(measure(chosen.one, HEADS[chosen.head[0]], chosen.memory)))
        return
    there = read_points(chosen.out)
    points: list[Point] = []
    for rows in chosen.rows:
        for parties in chosen.parties:
            for ids in chosen.ids:
                for head in chosen.head:
                    name = {"rows": rows, "parties": parties, "ids": ids, "head": head, "limit": chosen.memory}
                    known = [one for one in there if name.items() <= one.items()]
                    points.append(known[-1] if known else run_point(name, chosen.out))
                    print(line_of(points[-1]), flush=True)
    for line in exponents(points):
        print(line)


def read_points(out: Path | None) -> list[Point]:
    """The points measured before."""
    if out is None or not out.exists():
        return []
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def run_point(name: Point, out: Path | None) -> Point:
    """Write the files, measure in a process of its own, and keep what it found."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), name["rows"], name["parties"], name["ids"])
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", "--one", folder, "--head", name["head"]]
        command += [] if name["limit"] is None else ["--memory", name["limit"]]
        # Arrow's usual allocator reserves a gigabyte of addresses at once, and C's keeps what is freed in small pieces:
        # the system's limit counts both as data.
        allocator = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "1000000"}
        allocator = {} if name["limit"] is None else allocator
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | allocator)
    point: Point = name | json.loads(ended.stdout.splitlines()[-1])
    if out is not None:
        with out.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(point) + "\n")
    return point


def write_files(folder: Path, rows: int, parties: int, ids: str) -> None:
    """A Parquet file per party, each in an order of its own; half of the label comes from the others' columns."""
    rng = np.random.default_rng(0)
    people = np.arange(rows) + 10**9
    score = rng.normal(size=rows)
    for party in range(parties - 1, -1, -1):
        columns = rng.normal(size=(COLUMNS, rows))
        score += columns[0] + columns[1] * columns[2]
        order = rng.permutation(rows)
        keys = pa.array(people[order])
        table = {"id": keys.cast(pa.string()) if ids == "text" else keys}
        table |= {f"p{party}c{number}": pa.array(one[order]) for number, one in enumerate(columns)}
        if party == 0:
            table["label"] = pa.array((score > 0).astype(np.int64)[order])
        parquet.write_table(pa.table(table), folder / f"party{party}.parquet")


def measure(folder: Path, method: Method, memory: str | None = None) -> Point:
    """Read, match, fit and predict, each part with its seconds by the clock and of work, and the peak after it."""
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_of(memory),) * 2)
    load = os.getloadavg()[0]
    point: Point = {"load": round(load, 1), "memory": {"start": peak()}}
    paths = sorted(folder.glob("*.parquet"), key=lambda path: int(path.stem.removeprefix("party")))

    def timed(part: str, work: Callable[[], T]) -> T:
        clock, worked = time.perf_counter(), processor()
        with limit_threads(1):
            found = work()
        point[part] = [round(time.perf_counter() - clock, 2), round(processor() - worked, 2)]
        point["memory"][part] = peak()
        return found

    parties = timed(
        "read", lambda: federation({path.stem: path for path in paths}, id="id", label="label", memory=memory)
    )
    hub, _, others = roles(method, parties, 0)
    del parties  # Tables in the order of the files are gone once rows are matched, as in a run from the command line.
    with open_calls(others) as carrier:
        log, rows = WireLog(), ExactMatch()
        log.phase = "align"
        peers = Peers(method, hub, carrier, log, carrier.names)
        timed("align", lambda: align(rows, hub, peers.speaking(rows)))
        log.phase = "fit"
        hub.turn("fit", 0)
        timed("fit", lambda: [*method.fit(hub, peers)])
        log.phase = "final"
        hub.turn("final", 0)
        predicted = timed("predict", lambda: method.predict(hub, peers, "test"))
    y = hub.data.part("test")[1]
    task = task_of(hub)
    point["score"] = 0.0 if y is None else round(headline(task, metrics(task, y, predicted)).value, 4)
    point["bytes"] = dict(log.bytes)
    return point


def align(rows: ExactMatch, hub: Party, peers: Peers) -> None:
    """Match the ids, and see that all parties hold the same rows."""
    rows.match(hub, peers)
    rows.confirm(hub, peers)


def processor() -> float:
    """Seconds that processors worked for this process and those it waited for."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak() -> float:
    """The most memory that this process has had so far, in GB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3)


def line_of(point: Point) -> str:
    """A point in a line."""
    crossed = sum(point["bytes"].values()) / 1e6
    parts = ", ".join(f"{part} {point[part][0]:.2f} ({point[part][1]:.2f})" for part in PARTS)
    clock, worked = (sum(point[part][at] for part in PARTS) for at in (0, 1))
    return (
        f"{point['rows']:>10,} rows x {point['parties']} parties, {point['head']}, ids as {point['ids']}"
        f"{'' if point.get('limit') is None else ', limit of ' + point['limit']}: seconds by "
        f"the clock (of work): {parts}, all {clock:.2f} ({worked:.2f}); at most "
        f"{max(point['memory'].values()):.2f} GB; {crossed:,.1f} MB crossed; score {point['score']}; "
        f"load {point['load']}"
    )


def exponents(points: Sequence[Point]) -> list[str]:
    """By how many times each part grows: its work as a power of rows, from 100,000 on, where starting counts little."""
    lines = []
    for parties, ids, head in sorted({(one["parties"], one["ids"], one["head"]) for one in points}):
        alike = [one for one in points if (one["parties"], one["ids"], one["head"]) == (parties, ids, head)]
        alike = [one for one in alike if one["rows"] >= 100_000]
        if len({one["rows"] for one in alike}) < 2:
            continue
        sizes = np.log([one["rows"] for one in alike])
        grown = {
            part: np.polyfit(sizes, np.log([max(one[part][1], 0.01) for one in alike]), 1)[0].item() for part in PARTS
        }
        found = ", ".join(f"{part} {power:.2f}" for part, power in grown.items())
        lines.append(f"work as a power of rows, {parties} parties, {head}, ids as {ids}: {found}")
    return lines


if __name__ == "__main__":
    main()
