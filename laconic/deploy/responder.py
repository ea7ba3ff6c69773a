"""How a party answers the questions of a run: by one way, whether they come as frames online or in envelopes.

Memory, ledger and answers are on its disk before anything leaves. A question that comes again gets the answer that was
given before, and costs nothing again. What went wrong is for the party's own eyes: details go to a file of its own, and
others hear fixed words, as an error may quote cells, ids, paths or passwords.
"""

import re
import secrets
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from time import time

from laconic.atomic_files import append_private, make_private_folder, write_whole
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.deploy.party_account import open_account, run_before
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import Gatekeeper
from laconic.deploy.session import Session, online_session, read_rows
from laconic.deploy.statements import sign_ledger
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.secure_channel import ChannelAcceptor
from laconic.errors import DataError, Refused, WireError
from laconic.learn.device import Device, on_device
from laconic.plan.text import write_plan
from laconic.tables.table import digest, fingerprint

_MOST = 1 << 20
"""Bytes after which a log begins anew: whoever asks may cause any number of errors. The one before stays."""
_LONGEST_LOG = 1 << 16
"""The most characters of one error."""


class ErrorLog:
    """The log of one party.

    Args:
        path: where; made with the first error, and readable by its owner only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, problem: BaseException) -> str:
        """Write an error down; returns what others hear after its name: a reference, and nothing of the error."""
        reference = secrets.token_hex(8)
        trace = "".join(traceback.format_exception(problem))[-_LONGEST_LOG:]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):  # On a full disk, the words must leave all the same.
            if self.path.exists() and self.path.stat().st_size > _MOST:
                self.path.replace(self.path.with_suffix(".old.log"))
            with append_private(self.path) as log:
                log.write(f"{when} reference {reference}\n{trace}\n".encode(errors="backslashreplace"))
        return f"could not answer; its own log has the details under reference {reference}"


_WAIT = 15.0
"""Seconds to work on a question before saying that it takes longer."""
_DAY = 86_400.0
_QUESTION = re.compile(r"[0-9a-f]{32}")
_ENDING = "end"
"""What the work is called that ends a run, among those that questions are."""
_LONGEST = 2**31
"""The most bytes of a question: what one blob may have."""


@dataclass
class Responder:
    """One party in one run: every question is held to its rules, answered, recorded and kept here.

    Attributes:
        session: what the plan settles.
        folder: where the run is kept, and `kept` the party's memory in it.
        rules: the party's own; None for a label holder that is asked by its own server.
        device: where the party learns, as its file says.
        waiting: what is being worked on, by question.
        called: what the party calls this run in its account.
    """

    session: Session
    folder: Path
    kept: PartyFolder
    rules: Gatekeeper | None
    device: Device = "auto"
    waiting: dict[str, "Future[str]"] = field(default_factory=dict)
    called: str = ""

    def answer(self, script: Script, question: bytes, expected: str | None = None) -> str:
        """Answer a question, or find what was answered before; returns its name, by which `kept` has the answer."""
        with on_device(self.device):
            return self.kept.keep_answer(script, question, self.rules, expected)


def open_kept(folder: Path) -> PartyFolder:
    """The memory of a party that answers by envelope, in a run's folder: all its answers stay, to be sealed again."""
    kept = PartyFolder(folder / "party", keeps=None)
    kept.adopt_answers(folder / "answers")
    return kept


def note_rows(folder: Path, party: Party) -> None:
    """Remember the rows that a run begins with; other rows later are an error, as the run could not go on with them."""
    make_private_folder(folder)
    noted, now = folder / "rows", digest(party.data)
    if not noted.exists():
        write_whole(noted, now.encode(), private=True)
    elif noted.read_text(encoding="utf-8") != now:
        raise DataError(
            f"the rows of {party.name} changed since this run began; bring them back as they were, or begin a new run "
            f"by moving {folder} away"
        )


class OnlineResponder:
    """Where a party answers frames, in all runs that the hub has greeted for.

    Args:
        site: the party's folder.
        wait: seconds to work on a question before saying that it takes longer.
    """

    def __init__(self, site: PartySite, wait: float = _WAIT) -> None:
        self.site = site
        self._wait = wait
        self._acceptor = ChannelAcceptor(site.keys, site.name, site.consortium.hub.name)
        self.runs: dict[str, Responder] = {}
        self._greeted: tuple[Responder, Party] | None = None
        self._log = ErrorLog(site.log)
        self._lock = Lock()
        # One at a time: a party's memory is one thing.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="answering")

    def hear(self, blob: bytes) -> bytes:
        """Answer one frame on a channel of the hub's; anything else gets a fixed refusal, and changes nothing."""
        return self._acceptor.hear(blob, self.answer)

    def answer(self, run: str, blob: bytes) -> bytes:
        """Answer one frame of a run that is the hub's for certain.

        The hub hears the words of a rule that refuses. Of whatever else goes wrong, it hears a reference to the log.
        """
        try:
            return frames.write(self._hear(frames.read_asked(blob, run)))
        except Refused as problem:
            return frames.write(frames.Refusal(problem.words))
        # Whatever else is raised may quote rows, and must neither reach the hub nor end this party.
        except (Exception, SystemExit) as problem:
            return frames.write(frames.Refusal(self._log.note(problem), fault=True))

    def _hear(self, frame: frames.Frame) -> frames.Said:
        if isinstance(frame, frames.Greet):
            with self._lock:
                return self._greet(frame)
        run = self.runs.get(frame.run)
        if run is None:
            return frames.NotGreeted()
        if isinstance(frame, frames.Ask):
            return self._ask(run, frame)
        if isinstance(frame, frames.Part):
            return self._take(run, frame)
        if isinstance(frame, frames.More):
            if frame.at < 0:
                raise WireError(f"there is no byte {frame.at} of an answer")
            return frames.BytesReceived(frame.at, run.kept.part(_checked(frame.question), frame.at, frames.PART))
        return self._end(run)

    def _greet(self, greeting: frames.Greet) -> frames.Said:
        plans, name = self.site.plans(), self.site.name
        plan = plans.get(greeting.plan)
        if plan is None:
            here = ", ".join(one[:8] for one in plans) or "none"
            raise Refused(
                f"{name} has not agreed to the hub's plan {greeting.plan[:8]}; the plans in its folder `plans` are "
                f"{here}: compare the files, and put the same one there"
            )
        session = online_session(plan, self.site.consortium)
        if (greeting.hub, greeting.peers) != (session.hub, session.peers):
            raise Refused(
                f"{name} knows the hub {session.hub} and the parties {', '.join(session.peers)}, the hub "
                f"says {greeting.hub} and {', '.join(greeting.peers)}; compare parties.toml"
            )
        party = self._begin(greeting.run, session)
        aligned = fingerprint(party.data) if "train" in party.data.cuts and plan.method.kind == "vertical" else ""
        return frames.Welcome(party.name, greeting.plan, aligned)

    def _begin(self, run: str, session: Session) -> Party:
        """The party as it stands in a run, once its rules allow the run: before that, no row is read."""
        file, folder = self.site.party_file, self.site.run(run)
        kept = PartyFolder(folder / "memory")
        called = (kept.run or run_before(run, self.site.folder)) if kept.begun else secrets.token_hex(16)
        rules = session.rules(file, open_account(file), called)
        scripts = (session.method,) if session.align is None else (session.align, session.method)
        rules.allow_run(session.name_of(file.name), *scripts)
        if run not in self.runs:
            self.runs[run] = Responder(session, folder, kept, rules, file.device, called=called)
        opened = self.runs[run]
        party = self._party(opened)
        if opened.rules is not None and "train" in party.data.cuts:
            shared = party.data.cuts.get("shared")
            settled = session.settle_matched(None if shared is None else len(shared), party.data)
            opened.rules.begin(settled.method, party, reserve=opened.kept.begun)
        return party

    def _party(self, run: Responder) -> Party:
        """The party in a run; one that was only greeted is on no disk, and of all those one is in memory."""
        if run.kept.begun:
            return run.kept.load()
        greeted = self._greeted
        if greeted is None or greeted[0] is not run:
            file = self.site.party_file
            name = run.session.name_of(file.name)
            greeted = run, run.session.begin(name, read_rows(run.session.plan, name, file), file)
            self._greeted = greeted
        return greeted[1]

    def _make_folder(self, run: Responder) -> None:
        """Make the folder of a run when the first thing is to be kept there, unless too many began within a day."""
        if run.folder.exists():
            return
        most, runs = self.site.party_file.runs_per_day, run.folder.parent
        make_private_folder(runs)
        if sum(time() - one.stat().st_mtime < _DAY for one in runs.iterdir()) >= most:
            raise Refused(
                f"{self.site.name} begins at most {most} runs within a day; wait, or let it raise runs_per_day in its "
                "party.toml"
            )
        make_private_folder(run.folder)

    def _ask(self, run: Responder, ask: frames.Ask) -> frames.Said:
        question = _checked(ask.question)
        if not self._is_done(run, question, partial(self._work, run, ask)):
            return frames.Working()
        return frames.Answer(*run.kept.measure(question), run.kept.part(question, 0, frames.PART))

    def _end(self, run: Responder) -> frames.Said:
        """Answer nothing new in a run, and sign all that was given away in it."""
        if not self._is_done(run, _ENDING, partial(self._work_end, run)):
            return frames.Working()
        party, own = run.kept.load(), self.site.ring.own
        entries = party.ledger.entries
        plan = run.session.fingerprint
        return frames.Entries(
            entries, sign_ledger(own, party.name, plan, entries, run=run.folder.name, final=run.kept.ended)
        )

    def _work_end(self, run: Responder) -> str:
        self._open(run)
        run.kept.end()
        return _ENDING

    def _is_done(self, run: Responder, what: str, work: Callable[[], str]) -> bool:
        """Have the one worker do something once; False if it takes longer than a call may."""
        with self._lock:
            doing = run.waiting.get(what)
            if doing is None:
                run.waiting = {old: one for old, one in run.waiting.items() if not one.done()}
                doing = run.waiting[what] = self._worker.submit(work)
        try:
            doing.result(self._wait)
        except NotYet:
            return False
        except BaseException:
            run.waiting.pop(what, None)  # Asked again, it is tried again.
            raise
        return True

    def _open(self, run: Responder) -> None:
        """Have the party in its folder, where what it does is kept."""
        self._make_folder(run)
        if not run.kept.begun:
            run.kept.begin(self._party(run), run.called)
            self._greeted = None

    def _work(self, run: Responder, ask: frames.Ask) -> str:
        path = run.folder / f"asked.{ask.question}"
        if ask.blob is None and not path.exists():
            raise WireError(f"the parts of the question {ask.question} have not come; send them first")
        blob = path.read_bytes() if ask.blob is None else ask.blob
        self._open(run)
        session = run.session
        if ask.script == "method":
            session = session.settle_matched(ask.shared, run.kept.load().data)
        if ask.script == "home":
            write_whole(run.folder / "plan.toml", write_plan(session.plan).encode(), private=True)
        run.answer(session.script(ask.script), blob, ask.question)
        path.unlink(missing_ok=True)
        return ask.question

    def _take(self, run: Responder, part: frames.Part) -> frames.Said:
        """Put a part of a question where the others are, if it is the next one; say how much is there."""
        path = run.folder / f"asked.{_checked(part.question)}"
        if not 0 < part.size <= _LONGEST:
            raise WireError(f"a question of {part.size:,} bytes is over the limit of {_LONGEST:,}")
        with self._lock:
            self._make_folder(run)
            there = path.stat().st_size if path.exists() else 0
            if part.data and part.at == there and there + len(part.data) <= part.size:
                _make_room(path, part.size)
                with append_private(path) as stream:
                    there += stream.write(part.data)
        return frames.BytesReceived(there)


def _make_room(path: Path, size: int) -> None:
    """Forget what came of other questions of the run, and of other runs, the oldest first, if all are over the limit.

    Otherwise each run could leave as much as one question may have; who asks them still sends them again.
    """
    others = {one: one.stat() for one in path.parent.parent.glob("*/asked.*") if one != path}
    total = size + sum(stat.st_size for stat in others.values())
    for other, stat in sorted(others.items(), key=lambda one: one[1].st_mtime):
        if other.parent == path.parent or total > _LONGEST:
            other.unlink()
            total -= stat.st_size


def _checked(question: str) -> str:
    if not _QUESTION.fullmatch(question):
        raise WireError(f"{question[:40]!r} is not the name of a question")
    return question
