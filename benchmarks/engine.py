"""What FLARE on loopback costs: seconds a round, and seconds from start to result, against the same run in one process.

    python -m benchmarks.engine [--port 8461]

A hub and three parties as real processes with mutual TLS. The cost of a round is the median, over the rounds of a run,
of the time between two answers used by the hub, less the same in process; for this the hub's journal is read with the
time at which each reply was written. One job runs all methods in turn, so that starting a job is measured once, with
FedOnce, which is first.
"""

import argparse
import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from laconic import DataPlan, FedOnce, Plan, Result, SplitNN, VimAdmm, write_plan
from laconic.atomic_files import read_sealed
from laconic.core import WireLog
from laconic.deploy import Consortium, HubAddress, Journal, PartySite, open_site, provision
from laconic.deploy.execute import execute
from laconic.deploy.transports.flare import system as engine
from laconic.learn import Sgd

DATA = DataPlan(name="breast_cancer", parties=4)
PLANS = {
    "fedonce": Plan(method=FedOnce(trainer=Sgd(epochs=100, patience=10)), data=DATA),
    "vimadmm": Plan(method=VimAdmm(epochs=13), data=DATA),
    "splitnn": Plan(method=SplitNN(trainer=Sgd(epochs=50, batch=100, patience=None)), data=DATA),
}
PARTIES = ("shop", "insurer", "telecom")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8461)
    port = parser.parse_args().port
    print(f"Load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        sites = _make_sites(Path(folder), port)
        try:
            started = _start(sites, port)
            _report(sites["bank"], started)
        finally:
            for site in sites.values():
                engine.stop(site.kit)


def _make_sites(folder: Path, port: int) -> dict[str, PartySite]:
    circle = Consortium(project="speed", hub=HubAddress(name="bank", address="localhost", port=port), parties=PARTIES)
    provision(circle, folder)
    methods = ", ".join(f'"{type(plan.method).__name__}"' for plan in PLANS.values())
    for name in ("bank", *PARTIES):
        (folder / name / "party.toml").write_text(f'name = "{name}"\n[allow]\nmethods = [{methods}]\n')
        for run, plan in PLANS.items():
            (folder / name / "plans" / f"{run}.toml").write_text(write_plan(plan))
    for run, plan in PLANS.items():
        (folder / "bank" / "runs" / run).mkdir()
        (folder / "bank" / "runs" / run / "plan.toml").write_text(write_plan(plan))
    return {name: open_site(folder / name) for name in ("bank", *PARTIES)}


def _start(sites: dict[str, PartySite], port: int) -> float:
    """Start everyone and hand over the job; returns when that was, and waits until the last run is done."""
    hub = sites["bank"]
    engine.start(hub.kit, None)
    engine.wait_until_listening(hub.kit, "localhost", port)
    for name in PARTIES:
        engine.start(sites[name].kit, name)
    with engine.session(hub.folder / "admin") as opened:
        engine.wait_for(opened, PARTIES, 120)
        handed_over = time.time()
        engine.submit(opened, {"runs": list(PLANS)}, list(PARTIES))
        last = hub.run(list(PLANS)[-1])
        while not (last / "result").exists() and not (last / "error").exists():
            time.sleep(0.2)
    return handed_over


def _report(hub: PartySite, handed_over: float) -> None:
    for run, plan in PLANS.items():
        folder = hub.run(run)
        if (folder / "error").exists():
            raise SystemExit(read_sealed(folder / "error").decode())
        found: Result = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
        with _clocked() as rounds:
            started = time.monotonic()
            together = execute(plan)
            alone = time.monotonic() - started
        if found.predictions != together.predictions:
            raise SystemExit(f"{run} differs from the run in process")
        apart, near = statistics.median(_steps(_written(folder / "journal"))), statistics.median(_steps(rounds))
        print(f"{run}: {found.fit.rounds} rounds; a round takes {apart:.3f} s, in process {near:.3f} s, ", end="")
        print(f"{apart - near:.3f} s more")
        if run == "fedonce":
            whole = (folder / "result").stat().st_mtime - handed_over
            print(f"{run}: {whole:.1f} s from handing over to the result, in process {alone:.1f} s, ", end="")
            print(f"{whole - alone:.1f} s more")


class _clocked:  # noqa: N801 (used as a function)
    """Note when each crossing is written in the log, for as long as the block lasts."""

    def __enter__(self) -> list[tuple[int, float]]:
        self._book = WireLog.book
        noted: list[tuple[int, float]] = []
        book = self._book

        def note(log: WireLog, *words: Any, **sizes: Any) -> None:
            book(log, *words, **sizes)
            if log.phase == "fit":
                noted.append((log.crossings[-1].round, time.monotonic()))

        WireLog.book = note  # type: ignore[method-assign,assignment]
        return noted

    def __exit__(self, *_: object) -> None:
        WireLog.book = self._book  # type: ignore[method-assign]


def _steps(noted: list[tuple[int, float]]) -> list[float]:
    """Seconds from the last answer of each round to that of the next."""
    ends = dict(noted)
    times = [ends[number] for number in sorted(ends)]
    return [after - before for before, after in pairwise(times)] or [0.0]


def _written(path: Path) -> list[tuple[int, float]]:
    with Journal(path) as journal:
        return [(note.round, note.at) for note in journal.notes() if note.phase == "fit"]


if __name__ == "__main__":
    main()
