"""A party's desk: every frame that reaches a party ends here, and nothing that happens here can end the party."""

import re
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Protocol

import msgspec

from laconic.core.align import Align, fingerprint
from laconic.core.errors import LaconicError, Refused, WireError
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.values import Array
from laconic.online.seat import Seating, seat, sit_down
from laconic.online.site import Site
from laconic.plan.allowances import Gatekeeper, read_allowances
from laconic.plan.spending import Spending
from laconic.runtime import frames
from laconic.runtime.memory import PartyFolder

_WAIT = 15.0
"""Seconds to work on a question before saying that it takes longer."""

_VERSION = version("laconic")
_QUESTION = re.compile(r"[0-9a-f]{32}")
_LONGEST = 2**31
"""The most bytes of a question: what one blob may have."""


class Scripts(Protocol):
    """Which scripts a party may be asked in a run."""

    @property
    def align(self) -> Align | None:
        """How rows are matched; None if they correspond already."""
        ...

    def method(self, shared: int | None, table: Table) -> Script:
        """The method, for so many shared rows."""
        ...


@dataclass
class OpenRun:
    """A run that the hub has greeted for.

    Attributes:
        seating: what the plan settles. name: whom the party plays in it.
        folder: where the run is kept, and `kept` the party's memory in it.
        gate: the party's rules.
        answers: what is being worked on, by question.
    """

    seating: Scripts
    name: str
    folder: Path
    kept: PartyFolder
    gate: Gatekeeper
    answers: dict[str, "Future[tuple[int, bytes]]"] = field(default_factory=dict)


class Desk:
    """Where a party answers.

    Args:
        site: the party's folder.
        wait: seconds to work on a question before saying that it takes longer.

    Attributes:
        runs: those that the hub has greeted for, by name.
    """

    def __init__(self, site: Site, wait: float = _WAIT) -> None:
        self.site = site
        self._wait = wait
        self.runs: dict[str, OpenRun] = {}
        self._lock = Lock()
        # One at a time: a party's memory is one thing.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answering", initializer=_use_one_processor)

    def hear(self, blob: bytes) -> bytes:
        """Answer one frame; whatever goes wrong is said in the answer."""
        try:
            return frames.write(self._hear(frames.read_asked(blob)))
        except LaconicError as problem:
            return frames.write(frames.No(str(problem)))
        # Whatever a step raises must reach the hub as words, and must not end this party.
        except Exception as problem:
            return frames.write(frames.No(f"{type(problem).__name__}: {problem}", fault=True))

    def _hear(self, frame: frames.Frame) -> frames.Said:
        if isinstance(frame, frames.Greet):
            with self._lock:
                return self._greet(frame)
        if isinstance(frame, frames.Ask):
            return self._ask(self._open(frame.run), frame)
        if isinstance(frame, frames.Part):
            return self._take(self._open(frame.run), frame)
        if isinstance(frame, frames.More):
            return self._more(self._open(frame.run), frame)
        ledger = self._open(frame.run).kept.load().ledger
        return frames.Entries(list(msgspec.to_builtins(ledger.entries)))

    def _greet(self, greeting: frames.Greet) -> frames.Said:
        own, plans = _VERSION, self.site.plans()
        if greeting.version != own:
            raise Refused(
                f"{self.site.name} has laconic {own}, the hub {greeting.version}; install the same version everywhere"
            )
        plan = plans.get(greeting.plan)
        if plan is None:
            here = ", ".join(one[:8] for one in plans) or "none"
            raise Refused(
                f"{self.site.name} has not agreed to the hub's plan {greeting.plan[:8]}; the plans in its folder "
                f"`plans` are {here}: compare the files, and put the same one there"
            )
        seating = seat(plan, self.site.circle)
        if (greeting.hub, greeting.peers) != (seating.hub, seating.peers):
            raise Refused(
                f"{self.site.name} knows the hub {seating.hub} and the parties {', '.join(seating.peers)}, the hub "
                f"says {greeting.hub} and {', '.join(greeting.peers)}; compare parties.toml"
            )
        opened = self._begin(greeting.run, seating)
        party = opened.kept.load()
        aligned = fingerprint(party.data) if "train" in party.data.cuts and plan.method.kind == "vertical" else ""
        return frames.Welcome(party.name, greeting.plan, own, aligned)

    def _begin(self, run: str, seating: Seating) -> OpenRun:
        if run not in self.runs:
            name = next(name for name, site in seating.sites.items() if site == self.site.name)
            folder = self.site.run(run)
            folder.mkdir(parents=True, exist_ok=True)
            kept = PartyFolder(folder / "memory")
            if not kept.begun:
                kept.begin(sit_down(seating, self.site, name))
            file = self.site.party_file
            allowed = read_allowances(file.allow, file.path)
            guests = tuple(one for one in seating.names if one != seating.holder)
            gate = Gatekeeper(allowed, Spending(self.site.spent), run, seating.holder, guests)
            self.runs[run] = OpenRun(seating, name, folder, kept, gate)
        opened = self.runs[run]
        party = opened.kept.load()
        if "train" in party.data.cuts:
            opened.gate.begin(seating.method(_shared(party.data.cuts), party.data), party)
        return opened

    def _open(self, run: str) -> OpenRun:
        if run not in self.runs:
            raise Refused(f"{self.site.name} knows no run {run!r}; the hub must greet first")
        return self.runs[run]

    def _ask(self, opened: OpenRun, ask: frames.Ask) -> frames.Said:
        question = _checked(ask.question)
        with self._lock:
            work = opened.answers.get(question)
            if work is None:
                opened.answers = {old: one for old, one in opened.answers.items() if not one.done()}
                work = opened.answers[question] = self._worker.submit(self._work, opened, ask)
        try:
            size, digest = work.result(self._wait)
        except NotYet:
            return frames.Working()
        except BaseException:
            opened.answers.pop(question, None)  # Asked again, it is tried again.
            raise
        return frames.Answer(size, digest, opened.kept.part(question, 0, frames.PART))

    def _work(self, opened: OpenRun, ask: frames.Ask) -> tuple[int, bytes]:
        path = opened.folder / f"asked.{ask.question}"
        if ask.blob is None and not path.exists():
            raise WireError(f"the parts of the question {ask.question} have not come; send them first")
        blob = path.read_bytes() if ask.blob is None else ask.blob
        opened.kept.answer(self._script(opened, ask), blob, opened.gate, expected=ask.question)
        path.unlink(missing_ok=True)
        return opened.kept.measure(ask.question)

    def _script(self, opened: OpenRun, ask: frames.Ask) -> Script:
        if ask.script == "method":
            return opened.seating.method(ask.shared, opened.kept.load().data)
        if ask.script != "align" or opened.seating.align is None:
            raise Refused(f"{self.site.name} is asked for a script {ask.script!r} that its plan does not have")
        return opened.seating.align

    def _take(self, opened: OpenRun, part: frames.Part) -> frames.Said:
        """Put a part of a question where the others are, if it is the next one; say how much is there."""
        path = opened.folder / f"asked.{_checked(part.question)}"
        if not 0 < part.size <= _LONGEST:
            raise WireError(f"a question of {part.size:,} bytes is over the limit of {_LONGEST:,}")
        with self._lock:
            there = path.stat().st_size if path.exists() else 0
            if part.data and part.at == there and there + len(part.data) <= part.size:
                for other in opened.folder.glob("asked.*"):
                    if other != path:
                        other.unlink()
                with path.open("ab") as stream:
                    there += stream.write(part.data)
        return frames.Have(there)

    def _more(self, opened: OpenRun, more: frames.More) -> frames.Said:
        if more.at < 0:
            raise WireError(f"there is no byte {more.at} of an answer")
        return frames.Have(more.at, opened.kept.part(_checked(more.question), more.at, frames.PART))


def _use_one_processor() -> None:
    """As on every runtime: small nets are fastest so, and sums come out the same to the bit."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    threadpool_limits(1)


def _shared(cuts: dict[str, Array]) -> int | None:
    return len(cuts["shared"]) if "shared" in cuts else None


def _checked(question: str) -> str:
    if not _QUESTION.fullmatch(question):
        raise WireError(f"{question[:40]!r} is not the name of a question")
    return question
