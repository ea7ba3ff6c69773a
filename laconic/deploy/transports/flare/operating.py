"""Start and stop sites, host runs, and see how they stand; what dies is started again, and goes on from the journal."""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec

from laconic.atomic_files import keep_from_others, make_private_folder, read_sealed
from laconic.core.result import Result
from laconic.deploy.consortium import Consortium, PartySite, write_consortium
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.system import make_kits
from laconic.errors import LaconicError, PlanError
from laconic.plan.text import plan_fingerprint, read_plan

Tell = Callable[[str], None]
_BACK = 120.0
_TRIES = 5
"""A job that ends without a result is handed over again so often."""


class RunFailed(LaconicError):
    """A run ended with an error, at the hub or at a party; in its words."""


def join(site: PartySite, tell: Tell) -> None:
    """Be a party until stopped; an engine that dies is started again."""
    if site.is_hub:
        raise PlanError(f"{site.name} is the hub; start it with `laconic host PLAN.toml --site {site.folder}`")
    with _ended_by_signals():
        process = engine.start(site.kit, site.name)
        tell(f"{site.name} is ready for {site.consortium.hub.address}:{site.consortium.hub.port}; Ctrl-C stops it")
        try:
            while True:
                sleep(0.5)
                code = process.poll()
                if code is not None:
                    if not (site.kit / "pid").exists():
                        return  # `laconic stop` took it away.
                    tell(f"the engine ended with code {code}; starting it again (log: {site.kit / 'engine.log'})")
                    sleep(2.0)
                    process = engine.start(site.kit, site.name)
        finally:
            engine.stop(site.kit)


def host(site: PartySite, plan: Path, tell: Tell, *, wait: float, deadline: float, afresh: bool = False) -> Result:
    """Host a run of a plan; one that was cut off goes on.

    Args:
        wait: seconds to wait for parties; then it begins without those who are missing.
        deadline: seconds that a question may take; 0 for no limit.
        afresh: begin a new run even if one was cut off.

    Raises:
        RunFailed: in the words of whoever ended it.
    """
    if not site.is_hub:
        raise PlanError(f"{site.name} is not the hub; start it with `laconic join {site.folder}`")
    run = begin_run(site, plan.read_text(encoding="utf-8"), afresh)
    tell(f"run {run}, in {site.run(run)}")
    with _ended_by_signals(), _engine(site):
        for attempt in range(_TRIES):
            if attempt:
                tell(f"{_standing(site.run(run))}; going on from the journal")
            # Those who were there before need time to find the way back.
            result = _attempt(site, run, tell, max(wait, _BACK) if attempt else wait, deadline)
            if result is not None:
                return result
            if _standing(site.run(run)).startswith("ended: ") and attempt:
                break
    raise RunFailed(f"{_standing(site.run(run))}; the run can be taken up by the same command")


def begin_run(site: PartySite, text: str, afresh: bool) -> str:
    """The name of the run: the one that was cut off, or a new one."""
    plan = read_plan(text)
    stem = f"{type(plan.method).__name__.lower()}-{plan_fingerprint(plan)[:8]}"
    make_private_folder(site.folder / "runs")
    taken = [
        int(found[1]) for one in (site.folder / "runs").iterdir() if (found := re.fullmatch(rf"{stem}-(\d+)", one.name))
    ]
    last = max(taken, default=0)
    if last and not afresh and not (site.run(f"{stem}-{last}") / "result").exists():
        return f"{stem}-{last}"
    run = f"{stem}-{last + 1}"
    make_private_folder(site.run(run))
    (site.run(run) / "plan.toml").write_text(text, encoding="utf-8")
    return run


def _attempt(site: PartySite, run: str, tell: Tell, wait: float, deadline: float) -> Result | None:
    """Hand over the run once; None if it ended without a result."""
    folder, parties = site.run(run), site.consortium.parties
    for name in ("error", "absent"):
        (folder / name).unlink(missing_ok=True)
    try:
        with _session(site) as opened:
            there = engine.wait_for(opened, parties, wait)
            missing = [name for name in parties if name not in there]
            if missing:
                tell(f"beginning without {' and '.join(missing)}, who did not join within {wait:.0f} s")
            if not there:
                raise RunFailed(f"nobody joined within {wait:.0f} s; start the parties with `laconic join`")
            job = engine.submit(opened, {"runs": [run], "deadline": deadline}, there)
            return _watch(opened, job, folder)
    except engine.EngineError as problem:
        tell(str(problem))
        return None


def _watch(opened: Any, job: str, folder: Path) -> Result | None:
    looked = monotonic()
    while True:
        for name in ("result", "error", "absent"):
            if (folder / name).exists():
                content = read_sealed(folder / name)
                _let_end(opened, job)
                if name == "error":
                    raise RunFailed(content.decode())
                return msgspec.json.decode(content, type=Result) if name == "result" else None
        sleep(0.1)
        if monotonic() - looked > 1.0:
            looked = monotonic()
            if engine.state_of(opened, job).startswith("FINISHED"):
                return None


def _let_end(opened: Any, job: str) -> None:
    """Give the job time to end at the parties, so that nothing is left behind there."""
    ends = monotonic() + 30.0
    with suppress(engine.EngineError):
        while not engine.state_of(opened, job).startswith("FINISHED") and monotonic() < ends:
            sleep(0.3)


def show_status(site: PartySite) -> Iterator[tuple[str, str]]:
    """How a site stands: its engine, who has joined, and its runs."""
    running = engine.is_running(site.kit)
    yield "engine", "running" if running else "not running"
    if site.is_hub and running:
        with _session(site) as opened:
            there = engine.connected(opened)
        for name in site.consortium.parties:
            yield name, "joined" if name in there else "not there"
    if site.log.exists():
        yield "errors", f"details in {site.log}"
    runs = site.folder / "runs"
    for folder in sorted(runs.iterdir(), key=lambda one: one.stat().st_mtime) if runs.is_dir() else ():
        yield folder.name, _standing(folder)


def _standing(folder: Path) -> str:
    if (folder / "result").exists():
        result = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
        return f"finished, {result.score.metric} {result.score.value:.4f}"
    for name in ("error", "absent"):
        if (folder / name).exists():
            return f"ended: {read_sealed(folder / name).decode().strip().splitlines()[-1]}"
    if (folder / "progress").exists():
        return (folder / "progress").read_text(encoding="utf-8")
    return "begun" if (folder / "plan.toml").exists() else "taking part"


@contextmanager
def _engine(site: PartySite) -> Iterator[None]:
    """The hub's engine, started if it is not running, and stopped at the end if it was started here."""
    if engine.is_running(site.kit):
        yield
        return
    engine.start(site.kit, None)
    try:
        yield
    finally:
        engine.stop(site.kit)


@contextmanager
def _session(site: PartySite) -> Iterator[Any]:
    """A session with the hub's engine; one that died is started again first."""
    if not engine.is_running(site.kit):
        engine.start(site.kit, None)
    engine.wait_until_listening(site.kit, site.consortium.hub.address, site.consortium.hub.port)
    with engine.session(site.folder / "admin") as opened:
        yield opened


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a polite signal to end do what Ctrl-C does, so that nothing is left running."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_PARTY = """\
# What {name} says of itself. Only {name} sees this file.
name = "{name}"

# Where its rows are; leave this out for a plan on a public data set.
# [data]
# source = "rows.csv"
# key = "customer"
{label}
# What may leave. Whatever is not named here is refused.
[allow]
methods = [{methods}]
# steps = ["learn_and_send", "represent"]
# max_rows = 100000
# max_bytes = 100000000
# min_noise = 1.0
# max_epsilon = 2.0
"""


def provision(consortium: Consortium, folder: Path, plan: Path | None = None) -> tuple[Path, ...]:
    """Make a site for everyone; nothing stays if something goes wrong.

    Args:
        consortium: who takes part.
        folder: where to; sites that are there already are not touched, and are an error.
        plan: the plan to put at everyone; None to leave that to each.

    Returns:
        The sites, the hub's first.
    """
    names = (consortium.hub.name, *consortium.parties)
    text = None if plan is None else plan.read_text(encoding="utf-8")
    method = "FedOnce" if text is None else type(read_plan(text).method).__name__
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise PlanError(f"{folder / there[0]} is there already; move it away, or make the sites in another folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        hub = consortium.hub
        make_kits(folder, consortium.project, hub.name, hub.address, hub.port, consortium.parties)
        for name in names:
            _furnish(folder / name, name, consortium, method, text)
    except BaseException:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
        raise
    return tuple(folder / name for name in names)


def _furnish(site: Path, name: str, consortium: Consortium, method: str, plan: str | None) -> None:
    for inner in ("plans", "runs"):
        make_private_folder(site / inner)
    label = '# label = "churned"\n' if name == consortium.hub.name else ""
    methods = ", ".join(f'"{one}"' for one in (method, "ExactMatch", "PrivateMatch"))
    (site / "party.toml").write_text(_PARTY.format(name=name, label=label, methods=methods), encoding="utf-8")
    (site / "parties.toml").write_text(write_consortium(consortium), encoding="utf-8")
    if plan is not None:
        (site / "plans" / "plan.toml").write_text(plan, encoding="utf-8")
    keep_from_others(site)  # The kit holds the site's private key.
