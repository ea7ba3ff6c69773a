"""Parties shared out among a few forked workers: for many small parties on one machine with several cores.

A worker begins as a copy of this process, so it starts at once and shares the rows. It stays from question to question;
what its parties gave away comes back with each answer, and all that they remember in the end. Numbers are the same as
in one process. Workers learn on the processor: a GPU cannot be used after a fork.
"""

import fcntl
import os
import select
import selectors
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.core.wire import decode, encode
from laconic.deploy.party_memory import respond
from laconic.deploy.store import OWN
from laconic.deploy.transports.processes import Noting, read_frame, take_note, write_frame
from laconic.errors import LaconicError, PlanError, StepError
from laconic.learn.device import device_asked, on_device
from laconic.plan.runtime import Forked
from laconic.threads import fork_quietly, limit_threads
from laconic.values import heard, listening

_Answer: TypeAlias = dict[str, Any]
"""What a worker sends for one party: its name, its reply or an error, and what it remembers if that was asked."""

_ROOM = 1 << 20
"""Bytes that a worker's answers may take up before they are read."""

_READY = b"ready"
_PATIENCE = (10.0, 20.0, 60.0)
"""Seconds that a worker may take until it is ready, before another is forked in its place."""


@contextmanager
def open_workers(parties: tuple[Party, ...], settings: Forked) -> Iterator["_Workers"]:
    """Reach these parties for as long as the block lasts.

    Raises:
        PlanError: a GPU is asked for, which a forked process cannot use.
    """
    if device_asked() not in ("auto", "cpu"):
        raise PlanError(
            f'device = "{device_asked()}" cannot be used by forked workers; set device to "cpu", or take another '
            "runtime, such as InProcess"
        )
    workers = _Workers(parties, settings.workers)
    try:
        yield workers
        workers.bring_back()
    finally:
        workers.end()


class _Worker(NamedTuple):
    """A forked process, who is in it, and the streams of its questions and answers."""

    process: int
    names: tuple[str, ...]
    questions: IO[bytes]
    answers: IO[bytes]

    def end(self) -> None:
        """Stop it and leave nothing of it behind."""
        self.hang_up()
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def hang_up(self) -> None:
        """Close this process's ends of its streams."""
        self.questions.close()
        self.answers.close()


class _Workers:
    """Workers, for as long as the script stays the same and none is late."""

    def __init__(self, parties: tuple[Party, ...], workers: int) -> None:
        self._parties = {party.name: party for party in parties}
        names = sorted(self._parties, key=lambda name: -self._parties[name].data.rows)
        # Dealt out by size, so that every worker has large parties and small ones.
        self._shares = [share for i in range(workers) if (share := tuple(names[i::workers]))]
        self._workers: list[_Worker] = []
        self._unread: Iterator[_Answer] = iter(())
        self._script: Script | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        if script != self._script:
            self.bring_back()
            self.end()
            self._script = script
        if deadline is not None:
            self.bring_back()  # And with each answer too, as a worker with a late party is ended.
        at_work = {worker.names for worker in self._workers}
        for names in self._shares:
            if names not in at_work:
                self._workers.append(self._start(script, names))
        ends = None if deadline is None else monotonic() + deadline
        waiting, found, hears = list(blobs), dict[str, _Answer](), heard()
        for answered in self._ask(blobs, ends, remember=deadline is not None):
            found[answered["name"]] = answered
            if hears is not None and len(blobs) > len(self._workers):
                hears("parties", len(blobs) - len(waiting) + len(found), len(blobs))
            # In the order of the questions, whoever is quickest, so that numbers are those of one process.
            while waiting and waiting[0] in found:
                yield _replied(found.pop(waiting.pop(0)))
        yield from (_replied(found[name]) for name in waiting if name in found)

    def ledgers(self) -> dict[str, Ledger]:
        self.bring_back()
        return {name: party.ledger for name, party in self._parties.items()}

    def bring_back(self) -> None:
        """Have parties here remember what they do in their workers."""
        for _ in self._ask({name: None for worker in self._workers for name in worker.names}, None, remember=True):
            pass

    def end(self) -> None:
        """End every worker."""
        self._unread = iter(())
        while self._workers:
            self._workers.pop().end()

    def _ask(self, blobs: Mapping[str, bytes | None], ends: float | None, *, remember: bool) -> Iterator[_Answer]:
        """What parties answer to these questions, as it comes; who is late is left out."""
        for _ in self._unread:  # Answers to the question before that nobody waited for.
            pass
        asked = []
        for worker in self._workers:
            # A question that several parties are asked crosses once.
            questions: dict[bytes | None, list[str]] = {}
            for name in worker.names:
                if name in blobs:
                    questions.setdefault(blobs[name], []).append(name)
            if questions:
                asked.append(worker)
                with suppress(BrokenPipeError):  # It died, as reading its answers will tell.
                    write_frame(worker.questions, encode({"questions": [*questions.items()], "remember": remember}))
        self._unread = self._collect(asked, set(blobs), ends)
        return self._unread

    def _collect(self, workers: list[_Worker], wanted: set[str], ends: float | None) -> Iterator[_Answer]:
        """What parties answer, until all have or the time is up; workers of those who are late are ended."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.answers, selectors.EVENT_READ, worker.answers)
            while wanted:
                ready = selector.select(None if ends is None else max(0.0, ends - monotonic()))
                if not ready:
                    for worker in [one for one in workers if wanted.intersection(one.names)]:
                        self._workers.remove(worker)
                        worker.end()
                    return
                for key, _ in ready:
                    written = read_frame(key.data)
                    if written is None:
                        raise StepError(
                            "a worker ended before it had answered; it may have run out of memory: use fewer workers"
                        )
                    answered = decode(written, OWN)
                    if answered.get("brought") is not None:
                        take_note(self._parties[answered["name"]], answered["brought"])
                    if "memory" in answered:
                        _take(self._parties[answered["name"]], answered)
                    wanted.remove(answered["name"])
                    yield answered

    def _start(self, script: Script, names: tuple[str, ...]) -> _Worker:
        for seconds in _PATIENCE:
            worker = self._fork(script, names)
            if select.select([worker.answers], [], [], seconds)[0] and read_frame(worker.answers) == _READY:
                return worker
            worker.end()
        raise StepError(
            "forked workers do not begin on this machine, which another library's threads can cause; take "
            "runtime = InProcess(workers=1) (--set runtime.type=InProcess --set runtime.workers=1)"
        )

    def _fork(self, script: Script, names: tuple[str, ...]) -> _Worker:
        (asking, asked), (answering, answered) = os.pipe(), _roomy_pipe()
        child = fork_quietly()
        if child:
            os.close(asking)
            os.close(answered)
            return _Worker(child, names, os.fdopen(asked, "wb", buffering=0), os.fdopen(answering, "rb", buffering=0))
        try:
            os.close(asked)
            os.close(answering)
            for other in self._workers:
                other.hang_up()
            with (
                os.fdopen(asking, "rb", buffering=0) as questions,
                os.fdopen(answered, "wb", buffering=0) as answers,
                on_device("cpu"),  # A GPU that this process may have used is lost to its forks.
                listening(lambda *_: None),  # Whoever shows progress does so in the other process.
            ):
                _multiply()
                write_frame(answers, _READY)
                _serve(script, {name: self._parties[name] for name in names}, questions, answers)
        finally:
            os._exit(0)  # Whatever happens here, the caller's own lines must not run twice.


def _multiply() -> None:
    """A product by every library that has locks of its own: a fork that has inherited a held one stays in here."""
    import numpy as np
    import torch

    with limit_threads():
        square = np.ones((64, 64), np.float32)
        _ = square @ square, square.astype(np.float64) @ square.astype(np.float64)
        _ = torch.ones(64, 64, device="cpu") @ torch.ones(64, 64, device="cpu")


def _roomy_pipe() -> tuple[int, int]:
    """A pipe that takes a few answers, so that a worker goes on to its next party before they are read."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # As much is not everybody's to have; a small pipe does too.
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _ROOM)
    return reading, writing


def _replied(answered: _Answer) -> tuple[str, bytes]:
    if "error" in answered:
        raise StepError(f"a step failed at {answered['name']}: {answered['error']}")
    return answered["name"], answered["reply"]


def _take(party: Party, answered: _Answer) -> None:
    """Let a party here be what it is in its worker."""
    party.memory = answered["memory"]
    party.ledger = Ledger(tuple(msgspec.convert(answered["ledger"], list[Entry])))
    if answered["data"] is not None:
        party.data = type(party.data).from_plain(answered["data"])


def _serve(script: Script, parties: dict[str, Party], questions: IO[bytes], answers: IO[bytes]) -> None:
    """What a worker does: answer each question as soon as it can, until there are no more."""
    tables = {name: party.data for name, party in parties.items()}
    for party in parties.values():
        party.secret = os.urandom(32)  # Of two workers forked one after the other, neither draws what the other drew.
    while (asked := read_frame(questions)) is not None:
        request = decode(asked, OWN)
        for name, blob in [(name, blob) for blob, names in request["questions"] for name in names]:
            party = parties[name]
            found = {"name": name} | ({} if blob is None else _answer(script, party, blob))
            if request["remember"]:
                rows = None if party.data is tables[name] else party.data.to_plain()
                entries = list(msgspec.to_builtins(party.ledger.entries))
                found |= {"memory": party.memory, "ledger": entries, "data": rows}
            write_frame(answers, encode(found))


def _answer(script: Script, party: Party, blob: bytes) -> _Answer:
    noting = Noting()
    try:
        return {"reply": respond(script, party, blob, noting), "brought": noting.brought}
    # Whatever a step raises must reach the hub as words; a worker has nobody else to tell.
    except Exception as problem:
        own = "" if isinstance(problem, LaconicError) else f"{type(problem).__name__}: "
        return {"error": f"{own}{problem}"}
