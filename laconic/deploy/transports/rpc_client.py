"""How a hub asks parties over lines that may break: the carrier behind every engine, which only has to bring frames.

Every call is short: a party that needs longer says that it is still working and is asked again. So a party that is gone
is noticed soon, however long its work would have taken.
"""

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from time import monotonic
from typing import TypeAlias, TypeVar

from laconic.atomic_files import append_private, make_private_folder
from laconic.core.ledger import Ledger
from laconic.core.step import Script
from laconic.core.wire import Blob, Limits
from laconic.deploy.homecoming import script_kind
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import LaconicError, PartyAbsent, Refused, StepError, WireError

Line: TypeAlias = Callable[[str, bytes, float], bytes]
"""Brings a frame to the party named and its reply back, within so many seconds, or raises `ConnectionBroken`."""

_PATIENCE = 30.0
"""Seconds for one call: longer than a party takes to say that it is still working."""


_GREETING = 120.0
"""Seconds for a greeting: a party may have to read all its rows."""

_MOST = Limits().bytes
"""The most bytes of an answer: what the hub could read."""

T = TypeVar("T")


class ConnectionBroken(LaconicError):
    """A party cannot be reached."""


class RpcClient:
    """A carrier over lines.

    Args:
        line: brings frames.
        names: the parties, in the order of the federation.
        run: the run's name. spool: where long answers are put together.
        deadline: seconds that a question may take in all; None for no limit while the party is there.
        needs_all: whoever takes part must confirm that columns are the same, before learning and after; nobody who was
            greeted is left out of that.
    """

    def __init__(
        self,
        line: Line,
        names: tuple[str, ...],
        run: str,
        spool: Path,
        deadline: float | None = None,
        *,
        needs_all: bool = False,
    ) -> None:
        self._line, self.names, self._run, self._spool = line, names, run, spool
        self._deadline, self._needs_all = deadline, needs_all
        self._present = names
        self._greeting: frames.Greet | None = None
        self._welcomes: dict[str, frames.Welcome] = {}
        self._learnt: set[str] = set()
        self._lost: set[str] = set()
        self._home: set[str] = set()
        self.shared: int | None = None

    def take_up(self, learnt: set[str], lost: set[str], home: set[str]) -> None:
        """Go on with a run: who had taken part by then, who had dropped out, and who has the final model."""
        self._learnt, self._lost, self._home = set(learnt), set(lost), set(home)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Ask all at once; yield answers as they come, and leave out who cannot be reached or is late.

        Who was not there to be greeted is absent from this run, and is not waited for. The final model must reach all
        that took part to the end, also before the run was taken up again: it goes on when they are back.
        """
        deadline = self._deadline if deadline is None else deadline
        ends = None if deadline is None else monotonic() + deadline
        work = {
            name: partial(self._ask, script, name, blob, ends) for name, blob in blobs.items() if name in self._present
        }
        answered = set()
        for name, reply in _at_once(work):
            if reply is not None:
                answered.add(name)
                yield name, reply
        self._note(script_kind(script), set(blobs), answered)

    def _note(self, kind: str, asked: set[str], answered: set[str]) -> None:
        """Remember who dropped out while the method asked; who did not must get the model."""
        present = set(self._present)
        if kind == "method":
            self._learnt |= answered
            self._lost |= asked - answered
        if kind == "home":
            self._home |= answered
            self._refuse_lost(asked & (present | self._learnt) - self._lost - answered, "take_model")
        if kind == "align" and self._needs_all:
            self._refuse_lost(asked & (present | self._learnt) - self._lost - answered, "show_fingerprint")

    def _refuse_lost(self, names: set[str], step: str) -> None:
        if names:
            raise PartyAbsent(tuple(sorted(names)), step)

    def ledgers(self) -> dict[str, Ledger]:
        """The own ledger of each party that can be reached, signed by it; the run is over for them."""
        ends = None if self._deadline is None else monotonic() + self._deadline
        work = {name: partial(self._end, name, ends) for name in self._present}
        found = {name: Ledger(said.entries, said.statement) for name, said in _at_once(work) if said is not None}
        self._refuse_lost(self._home - set(found), "the end of the run")
        return found

    def greet(self, greeting: frames.Greet) -> dict[str, frames.Welcome]:
        """Greet all; who cannot be reached is left out, and who refuses ends the run with the party's own words."""
        self._greeting = greeting
        found = dict(_at_once({name: partial(self._greet, name, greeting) for name in self.names}))
        self._present = tuple(name for name in self.names if name in found)
        self._welcomes = {name: found[name] for name in self._present}
        return dict(self._welcomes)

    def _greet(self, name: str, greeting: frames.Greet) -> frames.Welcome:
        said = self._call(name, greeting, _GREETING)
        if not isinstance(said, frames.Welcome):
            raise WireError(f"{name} answered a greeting with {type(said).__name__}")
        return said

    def _end(self, name: str, ends: float | None) -> frames.Entries | None:
        said = self._call_until(name, frames.EndRun(self._run), ends)
        if said is not None and not isinstance(said, frames.Entries):
            raise WireError(f"{name} answered with {type(said).__name__} when it was asked for its ledger")
        return said

    def _ask(self, script: Script, name: str, blob: bytes, ends: float | None) -> Blob | None:
        question = question_id(script, name, blob)
        long = len(blob) > frames.PART
        if long:
            self._send_parts(name, question, blob, ends)
        ask = frames.Ask(self._run, script_kind(script), self.shared, question, None if long else blob)
        said = self._call_until(name, ask, ends)
        if said is None:
            return None
        if not isinstance(said, frames.Answer):
            raise WireError(f"{name} answered a question with {type(said).__name__}")
        return said.data if said.size == len(said.data) else self._fetch_parts(name, question, said, ends)

    def _send_parts(self, name: str, question: str, blob: bytes, ends: float | None) -> None:
        """Send what the party does not have yet."""
        at = self._had(name, frames.Part(self._run, question, 0, len(blob), b""), ends)
        while at < len(blob):
            data = bytes(blob[at : at + frames.PART])
            at = self._had(name, frames.Part(self._run, question, at, len(blob), data), ends)

    def _had(self, name: str, part: frames.Part, ends: float | None) -> int:
        said = self._call(name, part, _left(ends))
        if not isinstance(said, frames.BytesReceived):
            raise WireError(f"{name} answered a part of a question with {type(said).__name__}")
        return said.at

    def _fetch_parts(self, name: str, question: str, first: frames.Answer, ends: float | None) -> Blob:
        """Put a long answer together on disk, going on from what is there."""
        if not len(first.data) < first.size <= _MOST:
            raise WireError(f"{name} says that its answer has {first.size:,} bytes; one may have up to {_MOST:,}")
        make_private_folder(self._spool)
        path = self._spool / f"{name}.{question}"
        with append_private(path) as stream:
            if stream.tell() == 0:
                stream.write(first.data)
            while (at := stream.tell()) < first.size:
                said = self._call(name, frames.More(self._run, question, at), _left(ends))
                if not isinstance(said, frames.BytesReceived) or said.at != at or not said.data:
                    raise WireError(f"{name} sent no part of its answer from byte {at:,}")
                stream.write(said.data)
        with path.open("rb") as stream:
            whole = mmap(stream.fileno(), 0, access=ACCESS_READ)
        path.unlink()  # The map keeps the content until it is used up.
        if len(whole) != first.size or blake2b(whole, digest_size=16).digest() != first.digest:
            raise WireError(f"the answer of {name} came in parts that do not fit together; start the run again")
        return memoryview(whole)

    def _call_until(self, name: str, frame: frames.Frame, ends: float | None) -> frames.Said | None:
        """Say the same again while a party is at work; None if it is late."""
        said = self._call(name, frame, _left(ends))
        while isinstance(said, frames.Working):
            if ends is not None and monotonic() >= ends:
                return None
            said = self._call(name, frame, _left(ends))
        return said

    def _call(self, name: str, frame: frames.Frame, seconds: float) -> frames.Said:
        """What a party says to a frame; one that was started again in between is greeted again first."""
        said = self._say(name, frame, seconds)
        if isinstance(said, frames.NotGreeted) and self._greeting is not None and frame is not self._greeting:
            self._greet(name, self._greeting)
            said = self._say(name, frame, seconds)
        if isinstance(said, frames.NotGreeted):
            raise WireError(f"{name} does not remember that it was greeted; is it started twice from one site?")
        return said

    def _say(self, name: str, frame: frames.Frame, seconds: float) -> frames.Said:
        reply = self._line(name, frames.write(frame), seconds)
        try:
            said = frames.read_said(reply)
        except WireError as problem:
            raise WireError(f"what {name} says cannot be read: {problem}; ask that party to look into it") from problem
        if isinstance(said, frames.Refusal):
            raise StepError(f"{name} {said.words}") if said.fault else Refused(said.words)
        return said


def _at_once(work: Mapping[str, Callable[[], T]]) -> Iterator[tuple[str, T]]:
    """Do all this at once, each in a thread; yield what is done as it is. Who cannot be reached is left out."""
    done: queue.Queue[tuple[str, T | Exception]] = queue.Queue()

    def do(name: str) -> None:
        try:
            done.put((name, work[name]()))
        # Whatever goes wrong in a thread is the asker's to hear.
        except Exception as problem:
            done.put((name, problem))

    for name in work:
        # The engine knows whom a call is from by the context of the thread that makes it.
        threading.Thread(target=contextvars.copy_context().run, args=(do, name), daemon=True).start()
    for _ in work:
        name, found = done.get()
        if isinstance(found, ConnectionBroken):
            continue
        if isinstance(found, Exception):
            raise found
        yield name, found


def _left(ends: float | None) -> float:
    return _PATIENCE if ends is None else max(0.1, min(_PATIENCE, ends - monotonic()))
