"""Parties shared out among a few forked workers: for many small parties on one machine with several cores.

A worker begins as a copy of this process, so it starts at once and shares the rows; what its parties remember comes
back with their answers. Numbers are the same as in one process.
"""

import os
import selectors
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import IO, Any, NamedTuple

import msgspec

from laconic.core.errors import LaconicError, StepError
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.script import Script, answer
from laconic.core.values import Settings
from laconic.core.wire import Limits, decode, encode
from laconic.runtime.serve import read_frame, write_frame

_OWN = Limits(bytes=2**40, items=10_000_000, depth=64)
"""Limits for what this machine itself wrote."""


class Forked(Settings, frozen=True):
    """A runtime that answers questions in forked workers.

    Attributes:
        workers: how many; as many as there are cores is best.
    """

    workers: int = 2

    def __post_init__(self) -> None:
        """Refuse to work with nobody."""
        if self.workers < 1:
            raise ValueError(f"workers must be 1 or more, not {self.workers}")

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator["_Workers"]:
        """Reach these parties for as long as the block lasts."""
        yield _Workers(parties, self.workers)


class _Worker(NamedTuple):
    """A forked process and the stream of its answers."""

    process: int
    answers: IO[bytes]

    def end(self) -> None:
        """Stop it, if it has not ended yet, and leave nothing of it behind."""
        self.answers.close()
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


class _Workers:
    def __init__(self, parties: tuple[Party, ...], workers: int) -> None:
        self._parties = {party.name: party for party in parties}
        self._workers = workers

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def carry(
        self,
        script: Script,
        blobs: Mapping[str, bytes],
        deadline: float | None,
    ) -> Iterator[tuple[str, bytes]]:
        names = sorted(blobs, key=lambda name: -self._parties[name].data.rows)
        # Dealt out by size, so that every worker has large parties and small ones.
        shares = [names[i :: self._workers] for i in range(self._workers)]
        ends = None if deadline is None else monotonic() + deadline
        workers = [self._start(script, {name: blobs[name] for name in share}) for share in shares if share]
        try:
            states = _collect(workers, len(blobs), ends)
        finally:
            for worker in workers:
                worker.end()
        replies = {name: self._take(name, state) for name, state in states.items()}
        yield from ((name, replies[name]) for name in blobs if name in replies)

    def ledgers(self) -> dict[str, Ledger]:
        return {name: party.ledger for name, party in self._parties.items()}

    def _start(self, script: Script, blobs: dict[str, bytes]) -> _Worker:
        """A worker that answers these questions in turn, each as soon as it can."""
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            return _Worker(child, os.fdopen(reading, "rb", buffering=0))
        os.close(reading)
        with os.fdopen(writing, "wb", buffering=0) as stream:
            for name, blob in blobs.items():
                write_frame(stream, encode([name, self._answer(script, name, blob)]))
        os._exit(0)

    def _answer(self, script: Script, name: str, blob: bytes) -> dict[str, object]:
        party = self._parties[name]
        table = party.data
        try:
            reply = answer(script, party, blob)
        # Whatever a step raises must reach the hub as words; a worker has nobody else to tell.
        except Exception as problem:
            own = "" if isinstance(problem, LaconicError) else f"{type(problem).__name__}: "
            return {"error": f"{own}{problem}"}
        rows = None if party.data is table else party.data.to_plain()
        entries = list(msgspec.to_builtins(party.ledger.entries))
        return {"reply": reply, "memory": party.memory, "ledger": entries, "data": rows}

    def _take(self, name: str, state: dict[str, Any]) -> bytes:
        """A party's answer; what it remembers now is kept."""
        if "error" in state:
            raise StepError(f"a step failed at {name}: {state['error']}")
        party = self._parties[name]
        party.memory = state["memory"]
        party.ledger = Ledger(tuple(msgspec.convert(state["ledger"], list[Entry])))
        if state["data"] is not None:
            party.data = type(party.data).from_plain(state["data"])
        reply: bytes = state["reply"]
        return reply


def _collect(workers: list[_Worker], wanted: int, ends: float | None) -> dict[str, dict[str, Any]]:
    """What parties answered, by name, until all have or the time is up."""
    states: dict[str, dict[str, Any]] = {}
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.answers, selectors.EVENT_READ, worker.answers)
        while len(states) < wanted:
            ready = selector.select(None if ends is None else max(0.0, ends - monotonic()))
            if not ready:
                break
            for key, _ in ready:
                written = read_frame(key.data)
                if written is not None:
                    name, states[name] = decode(written, _OWN)
                    continue
                selector.unregister(key.data)
                if not selector.get_map() and len(states) < wanted:
                    raise StepError(
                        "a worker ended before it had answered; it may have run out of memory: use fewer workers"
                    )
    return states
