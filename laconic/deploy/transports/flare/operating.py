"""Start and stop sites, host runs, and see how they stand; what dies is started again, and goes on from the journal."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec

from laconic.atomic_files import hold, make_private_folder, read_sealed
from laconic.deploy.growth import read_growth
from laconic.deploy.party_files import PartySite
from laconic.deploy.result import Result
from laconic.deploy.session import online_session
from laconic.deploy.transports.flare import system as engine
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
    site.ring  # noqa: B018 (whether the keys are there is better said now than when the hub calls)
    with _ended_by_signals():
        engine.stop(
            site.kit
        )  # A command that was killed leaves its engine behind, and two would be in each other's way.
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


def host(
    site: PartySite,
    plan: Path,
    tell: Tell,
    *,
    wait: float,
    deadline: float,
    afresh: bool = False,
    begun: Callable[[Path], None] = lambda _: None,
) -> Result:
    """Host a run of a plan; one that was cut off goes on.

    Args:
        wait: seconds to wait for parties; then it begins without those who are missing.
        deadline: seconds that a question may take; 0 for no limit.
        afresh: begin a new run even if one was cut off.
        begun: called with the folder of the run, once it is known.

    Raises:
        RunFailed: in the words of whoever ended it.
    """
    refuse_no_hub(site)
    text = plan.read_text(encoding="utf-8")
    with _ended_by_signals(), _alone(site), _engine(site):
        run = begin_run(site, text, afresh)
        begun(site.run(run))
        return _host(site, run, tell, wait, deadline)


def host_change(site: PartySite, run: str, tell: Tell, *, wait: float, deadline: float) -> Result:
    """Host a run that changes a model, whose folder has what it begins with; one that was cut off goes on.

    Who joins must be there; of the others, those who are get the new model.
    """
    with _ended_by_signals(), _alone(site), _engine(site):
        return _host(site, run, tell, wait, deadline)


def refuse_no_hub(site: PartySite) -> None:
    """Refuse to host anywhere but at the hub."""
    if not site.is_hub:
        raise PlanError(f"{site.name} is not the hub; start it with `laconic join {site.folder}`")


def _host(site: PartySite, run: str, tell: Tell, wait: float, deadline: float) -> Result:
    """Hand a run over until it has ended, or cannot."""
    tell(f"run {run}, in {site.run(run)}")
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
    folder = site.run(run)
    asked, joins = _parties(site, folder)
    for name in ("error", "absent"):
        (folder / name).unlink(missing_ok=True)
    try:
        with _session(site) as opened:
            there = engine.wait_for(opened, asked, wait)
            missing = [name for name in asked if name not in there]
            needed = [name for name in joins if name in missing]
            if needed:
                raise RunFailed(
                    f"{' and '.join(needed)} did not join within {wait:.0f} s; start it with `laconic join`, and give "
                    "the command again"
                )
            if missing:
                tell(f"beginning without {' and '.join(missing)}, who did not join within {wait:.0f} s")
            if not there:
                raise RunFailed(f"nobody joined within {wait:.0f} s; start the parties with `laconic join`")
            job = engine.submit(opened, {"runs": [run], "deadline": deadline}, there)
            return _watch(opened, job, folder)
    except engine.EngineError as problem:
        tell(str(problem))
        return None


def _parties(site: PartySite, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which sites beside the hub a run asks, and which of them join the model that it begins with."""
    session = online_session(read_plan((folder / "plan.toml").read_text(encoding="utf-8")), site.consortium)
    growing = read_growth(folder)
    joins, without = (growing.growth.joins, growing.growth.without) if growing else ((), ())
    named = {*session.sites.values()} - {site.name, *without}
    return tuple(name for name in site.consortium.parties if name in named), joins


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
def _alone(site: PartySite) -> Iterator[None]:
    """Refuse a second command that hosts from the same site: the first to end would stop the engine of the other."""
    with hold(site.folder / "hosting") as held:
        if not held:
            raise PlanError(
                f"another `laconic host` is running from {site.folder}; wait until it ends, which `laconic status "
                f"{site.folder}` shows, and give the command again"
            )
        yield


@contextmanager
def _engine(site: PartySite) -> Iterator[None]:
    """The hub's engine, started if it is not running, and stopped at the end if it was started here."""
    if engine.is_running(site.kit):
        yield
        return
    _start_hub(site)
    try:
        yield
    finally:
        engine.stop(site.kit)


def _start_hub(site: PartySite) -> None:
    """Start the hub's engine; whose key was taken out is not let in."""
    engine.shut_out(site.kit, site.ring.revoked)
    engine.start(site.kit, None)


@contextmanager
def _session(site: PartySite) -> Iterator[Any]:
    """A session with the hub's engine; one that died is started again first."""
    if not engine.is_running(site.kit):
        _start_hub(site)
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
