"""A party's desk: where it answers the questions of one run, in its own time, and keeps what it said.

Memory, ledger and answers are on its disk before anything is sealed. A question that comes again gets the answer that
was given before, and costs nothing again.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Lock
from typing import Protocol

import msgspec

from laconic.atomic_files import read_seal, read_sealed, write_sealed
from laconic.core.align import Align
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Limits, outline, read_heading
from laconic.deploy.consortium import PartySite
from laconic.deploy.epsilon_account import EpsilonAccount
from laconic.deploy.party_context import epsilon_words, ids_fingerprint
from laconic.deploy.party_memory import Gate, PartyFolder
from laconic.deploy.policy import Gatekeeper, read_policy
from laconic.deploy.question_forecast import PredictedQuestion
from laconic.deploy.session import Agreement, Seating, seat, sit_down
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.envelopes.cover import Asked, Blob, Content
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import DataError, LaconicError, Refused, TornFile, WireError
from laconic.learn.device import Device, on_device
from laconic.tables.table import Table, digest, fingerprint
from laconic.values import Array

NONE = "none"
"""The alignment of rows that are not matched yet."""

NEW = "new"
"""The cut of rows that came after training, to be predicted."""

_ANSWER = Limits(bytes=2**40)


@dataclass(frozen=True)
class Answered:
    """An answer, and what stands on the envelope about it; the answer itself stays on the disk."""

    blob: Blob
    kept: Path

    def pieces(self) -> Iterator[bytes]:
        """The answer, a megabyte at a time."""
        left, expected = read_seal(self.kept)
        found = blake2b(digest_size=16)
        with self.kept.open("rb") as file:
            while left and (piece := file.read(min(left, 1 << 20))):
                found.update(piece)
                left -= len(piece)
                yield piece
        if left or found.digest() != expected:
            raise TornFile(f"{self.kept} is torn: its checksum does not fit; begin the run afresh")


class EnvelopeResponder:
    """One party in one run.

    Args:
        agreement: what the plan settles.
        folder: where the run is kept.
        gate: the party's own rules.
    """

    def __init__(self, agreement: Agreement, folder: Path, gate: Gate | None) -> None:
        self.agreement = agreement
        self.folder = folder
        self._gate = gate
        self._party = PartyFolder(folder / "party")

    def begin(self, party: Party) -> None:
        """Sit down with these rows; if the run has begun already, they must be those it began with."""
        note_rows(self.folder, party)
        if not self._party.begun:
            self._party.begin(party)

    def load(self) -> Party:
        """The party as it is after its last answer."""
        return self._party.load()

    def answer(self, asked: PredictedQuestion) -> Answered:
        """Answer a question, or say again what was said."""
        script = self.agreement.script(asked.script)
        kept = self._keep(script, asked.blob)
        words = steps_of(script)[read_heading(asked.blob).step].gives
        size, _ = read_seal(kept)
        return Answered(_blob(asked, kept.name, words, _form(kept, size), size), kept)

    def reply(self, script: Script, question: bytes) -> bytes:
        """The answer's bytes alone."""
        return read_sealed(self._keep(script, question))

    def _keep(self, script: Script, question: bytes) -> Path:
        """Where the answer is; it is there by the time that this returns."""
        kept = self.folder / "answers" / question_id(script, self.load().name, question)
        if not kept.exists():
            reply = self._party.answer(script, question, self._gate)
            kept.parent.mkdir(exist_ok=True)
            write_sealed(kept, reply)
        return kept

    def ledger(self) -> Ledger:
        """What it gave away in this run."""
        return self.load().ledger

    def content(self, answers: Iterable[Answered]) -> Content:
        """What goes into an envelope with these answers."""
        party = self.load()
        entries = party.ledger.entries
        words = epsilon_words(party.name, entries, self.agreement.plan)
        blobs = tuple(one.blob for one in answers)
        return Content(rows=rows_of(party), epsilon=words, ledger=entries, blobs=blobs)

    @property
    def alignment(self) -> str:
        """The fingerprint of its rows."""
        return alignment_of(self.load())


def note_rows(folder: Path, party: Party) -> None:
    """Remember the rows that a run begins with; other rows later are an error, as the run could not go on with them."""
    folder.mkdir(parents=True, exist_ok=True)
    noted, now = folder / "rows", digest(party.data)
    if not noted.exists():
        noted.write_text(now, encoding="utf-8")
    elif noted.read_text(encoding="utf-8") != now:
        raise DataError(
            f"the rows of {party.name} changed since this run began; bring them back as they were, or begin a new run "
            f"by moving {folder} away"
        )


def alignment_of(party: Party) -> str:
    """The fingerprint of a party's rows once they are matched, or of the rows to predict."""
    if NEW in party.data.cuts:
        return ids_fingerprint(party.data.keys.tolist())
    return fingerprint(party.data) if "train" in party.data.cuts else NONE


def rows_of(party: Party) -> int:
    """How many rows a party has in a run: those that all share, or all before that is known."""
    shared = party.data.cuts.get("shared")
    return party.data.rows if shared is None else len(shared)


def _form(kept: Path, size: int) -> str:
    """The form of an answer on the disk, of which only what says so is read."""
    with (
        kept.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        view[:size] as reply,
    ):
        return outline(reply, _ANSWER)


def question_of(script: Asked, blob: bytes, question: str, words: str | None) -> Blob:
    """What stands on an envelope about a question."""
    return _blob(PredictedQuestion(script, blob), question, words, "question", len(blob))


def _blob(asked: PredictedQuestion, question: str, words: str | None, form: str, size: int) -> Blob:
    heading = read_heading(asked.blob)
    return Blob(
        script=asked.script,
        phase=heading.phase,
        round=heading.round,
        step=heading.step,
        question=question,
        words=words,
        form=form,
        size=size,
    )


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
        device: where the party learns, as its file says.
        answers: what is being worked on, by question.
    """

    seating: Scripts
    name: str
    folder: Path
    kept: PartyFolder
    gate: Gatekeeper
    device: Device = "auto"
    answers: dict[str, "Future[tuple[int, bytes]]"] = field(default_factory=dict)


class OnlineResponder:
    """Where a party answers.

    Args:
        site: the party's folder.
        wait: seconds to work on a question before saying that it takes longer.

    Attributes:
        runs: those that the hub has greeted for, by name.
    """

    def __init__(self, site: PartySite, wait: float = _WAIT) -> None:
        self.site = site
        self._wait = wait
        self.runs: dict[str, OpenRun] = {}
        self._lock = Lock()
        # One at a time: a party's memory is one thing.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answering")

    def hear(self, blob: bytes) -> bytes:
        """Answer one frame; whatever goes wrong is said in the answer."""
        try:
            return frames.write(self._hear(frames.read_asked(blob)))
        except LaconicError as problem:
            return frames.write(frames.Refusal(str(problem)))
        # Whatever a step raises must reach the hub as words, and must not end this party.
        except Exception as problem:
            return frames.write(frames.Refusal(f"{type(problem).__name__}: {problem}", fault=True))

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
            allowed = read_policy(file.allow, file.path)
            guests = tuple(one for one in seating.names if one != seating.holder)
            gate = Gatekeeper(allowed, EpsilonAccount(self.site.spent), run, seating.holder, guests)
            self.runs[run] = OpenRun(seating, name, folder, kept, gate, file.device)
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
        with on_device(opened.device):
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
        return frames.BytesReceived(there)

    def _more(self, opened: OpenRun, more: frames.More) -> frames.Said:
        if more.at < 0:
            raise WireError(f"there is no byte {more.at} of an answer")
        return frames.BytesReceived(more.at, opened.kept.part(_checked(more.question), more.at, frames.PART))


def _shared(cuts: dict[str, Array]) -> int | None:
    return len(cuts["shared"]) if "shared" in cuts else None


def _checked(question: str) -> str:
    if not _QUESTION.fullmatch(question):
        raise WireError(f"{question[:40]!r} is not the name of a question")
    return question
