"""A party's memory on its own disk, one folder a run: it survives a crash, and no question is answered twice.

Memory, ledger and the answer just given are written together, before the answer leaves. So a party that is asked the
same question again, because the hub or the line failed, gives the same answer and spends nothing again.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from laconic.core.errors import JournalError, StepError, WireError
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.script import Script, answer
from laconic.core.table import Table
from laconic.core.wire import Limits, decode, encode, read_heading
from laconic.runtime.naming import question_id
from laconic.runtime.whole import Slots, checksum, read_seal, read_whole, write_whole

OWN = Limits(bytes=2**40, items=10_000_000, depth=64)
"""Limits for what this machine itself wrote."""

_KEPT = 4
"""So many answers are kept: the hub may ask again what it was asking when it failed, and nothing older."""
_LARGE = 1 << 20
"""Answers above this have a file of their own, so that memory can be written without them."""


class Gate(Protocol):
    """A party's own rules: what it lets in and out. Raises an error that the hub shows."""

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question before anything is done for it."""
        ...

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer to a question before it leaves; `party.ledger` has it already."""
        ...


class _State(msgspec.Struct, kw_only=True):
    """What is written at once.

    Attributes:
        seed: as text, since one that a party drew itself is longer than the numbers that can be written; a number in
            folders of earlier versions.
        table: which of the table files holds its rows now.
        answered: the last round answered, by phase.
        replies: the last answers by question; None for one in a file of its own.
    """

    name: str
    seed: str | int
    memory: dict[str, Any]
    ledger: list[Any]
    table: int = 0
    answered: dict[str, int] = {}
    replies: dict[str, bytes | None] = {}


class PartyFolder:
    """One party in one run, on disk.

    Args:
        folder: where; made if it is not there.
        durable: survive a crash and a loss of power, and answer each question once; False for a trial that begins
            afresh anyway.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self._durable = durable
        self._slots = Slots(folder / "memory", durable=durable)
        self._loaded: tuple[_State, Party] | None = None

    @property
    def begun(self) -> bool:
        """Whether the party has been here before."""
        return self._slots.exists

    def begin(self, party: Party) -> None:
        """Write a party down at the beginning of a run; one that is there already stays as it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if self.begun:
                self._refuse_another(party)
            else:
                state = _State(name=party.name, seed=str(party.seed), memory={}, ledger=[])
                self._write_table(0, party.data)
                self._save(state, party)

    def load(self) -> Party:
        """The party as it was after its last answer; even while it is at work on the next."""
        loaded = self._loaded
        if loaded is not None and not self._slots.stale:
            return loaded[1]
        return self._read(Slots(self.folder / "memory"))[1]

    def bring_back(self, party: Party) -> None:
        """Let a party be what it is here after its last answer."""
        state, kept = self._read(Slots(self.folder / "memory"))
        party.memory, party.ledger = kept.memory, kept.ledger
        if state.table:
            party.data = kept.data

    def part(self, question: str, at: int, count: int) -> bytes:
        """Some bytes of a kept answer, without reading the rest."""
        with self._locked():
            reply = self._kept(question)
            if reply is not None:
                return reply[at : at + count]
            with self._reply(question).open("rb") as stream:
                stream.seek(at)
                return stream.read(min(count, max(0, self.measure(question)[0] - at)))

    def measure(self, question: str) -> tuple[int, bytes]:
        """The size and checksum of a kept answer, without reading it."""
        reply = self._kept(question)
        return read_seal(self._reply(question)) if reply is None else (len(reply), checksum([reply]))

    def answer(self, script: Script, blob: bytes, gate: Gate | None = None, *, expected: str | None = None) -> bytes:
        """Answer a question, once: asked again, the party says what it said before.

        Args:
            script: whose step is asked.
            blob: the question.
            gate: the party's own rules; None lets everything through.
            expected: the name that whoever asks gives the question; None if they did not say.
        """
        heading = read_heading(blob)
        with self._locked():
            state, party = self._load()
            question = question_id(script, party.name, blob)
            if expected is not None and question != expected:
                raise WireError(
                    f"the question to {party.name} is {question}, not {expected}; it was changed on its way"
                )
            if self._durable and question in state.replies:
                return self._again(state, question)
            last = state.answered.get(heading.phase, 0)
            if self._durable and heading.round <= last:
                raise StepError(
                    f"{party.name} has answered round {last} of {heading.phase} in this run, "
                    f"and is asked `{heading.step}` of round {heading.round} now; the hub's journal is older than the "
                    "run: put back the newer one, or start a new run"
                )
            self._loaded = None  # A step that fails half way leaves no trace: memory is read again from the disk.
            table = party.data
            if gate is not None:
                gate.admit(script, party, blob)
            reply = answer(script, party, blob)
            if gate is not None:
                gate.release(script, party, blob, reply)
            if party.data is not table:
                state.table += 1
                self._write_table(state.table, party.data)
            state.answered[heading.phase] = heading.round
            self._keep(state, question, reply)
            self._save(state, party)
            self._tidy(state)
        return reply

    def _refuse_another(self, party: Party) -> None:
        there = self.load()
        if (there.name, there.seed) != (party.name, party.seed):
            # No seed is shown: a party's own must not reach the hub with the words of an error.
            raise JournalError(
                f"{self.folder} is the memory of {there.name}, not of {party.name} with this seed; start the run in an "
                "empty folder"
            )

    def _load(self) -> tuple[_State, Party]:
        if self._loaded is None or self._slots.stale:
            self._loaded = self._read(self._slots)
        return self._loaded

    def _read(self, slots: Slots) -> tuple[_State, Party]:
        state = msgspec.convert(decode(slots.read(), OWN), _State)
        table = Table.from_plain(decode(read_whole(self._table(state.table)), OWN))
        ledger = Ledger(tuple(msgspec.convert(state.ledger, list[Entry])))
        return state, Party(state.name, table, int(state.seed), state.memory, ledger)

    def _save(self, state: _State, party: Party) -> None:
        state.memory = party.memory
        state.ledger = list(msgspec.to_builtins(party.ledger.entries))
        self._slots.write(encode(msgspec.structs.asdict(state)))
        self._loaded = state, party

    def _keep(self, state: _State, question: str, reply: bytes) -> None:
        if len(reply) > _LARGE:
            write_whole(self._reply(question), reply, durable=self._durable)
        kept = [*state.replies.items()][-(_KEPT - 1) :]
        state.replies = dict(kept) | {question: None if len(reply) > _LARGE else reply}

    def _again(self, state: _State, question: str) -> bytes:
        reply = state.replies[question]
        return read_whole(self._reply(question)) if reply is None else reply

    def _kept(self, question: str) -> bytes | None:
        """A kept answer; None if it is in a file of its own."""
        state = self._load()[0]
        if question not in state.replies:
            raise StepError(f"{state.name} has no answer to the question {question} any more; ask it again")
        return state.replies[question]

    def _tidy(self, state: _State) -> None:
        """Drop the files that the state just written no longer names."""
        kept = {self._table(state.table), *(self._reply(one) for one, reply in state.replies.items() if reply is None)}
        for pattern in ("table.*", "reply.*"):
            for path in self.folder.glob(pattern):
                if path not in kept:
                    path.unlink()

    def _table(self, number: int) -> Path:
        return self.folder / f"table.{number}"

    def _reply(self, question: str) -> Path:
        return self.folder / f"reply.{question}"

    def _write_table(self, number: int, table: Table) -> None:
        write_whole(self._table(number), encode(table.to_plain()), durable=self._durable)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time: after a crash, the old one may still be at work when the new one is asked."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
