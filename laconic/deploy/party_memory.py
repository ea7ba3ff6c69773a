"""A party's memory on its own disk, one folder per run: it survives a crash, and no question is answered twice.

Memory, ledger and the answer just given are written together, before the answer leaves. So a party that is asked the
same question again, because the hub or the line failed, gives the same answer and spends nothing again.
"""

import secrets
from pathlib import Path
from typing import Any, Protocol

import msgspec

from laconic.atomic_files import read_sealed
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.step import Script, answer
from laconic.core.wire import Heading, decode, encode, read_heading
from laconic.deploy.store import OWN, Record, Store, read_slots, slots_of
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import JournalError, Refused, StepError, TornFile, WireError
from laconic.tables.table import Table

_PATIENCE = 86400.0
"""Seconds to wait for another process that answers here: after a crash, the old one may still be at work."""
_MEMORY, _TABLE, _REPLY = "memory", "table", "reply"


class Rules(Protocol):
    """A party's own rules: what it lets in and out. Raises an error that the hub shows."""

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question before anything is done for it."""
        ...

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer to a question before it leaves; `party.ledger` has it already."""
        ...


def respond(script: Script, party: Party, blob: bytes, rules: Rules | None) -> bytes:
    """Answer a question under a party's rules: the one way in which an answer leaves, whoever asks and however.

    Online, by envelope, from a process of its own and from a served model, answers come from here. Only a simulation in
    one process, whose parties have nobody to hide from, does without.
    """
    if rules is not None:
        rules.admit(script, party, blob)
    reply = answer(script, party, blob)
    if rules is not None:
        rules.release(script, party, blob, reply)
    return reply


class _State(msgspec.Struct, kw_only=True):
    """What is written at once.

    Attributes:
        seed: as text, since one that a party drew itself is longer than the numbers that can be written; a number in
            folders of earlier versions.
        table: how often its rows have changed.
        run: what the party calls this run in its account, drawn by itself; empty in folders of earlier versions.
        answered: the last round answered, by phase.
        ended: whether nothing new is answered any more.
    """

    name: str
    seed: str | int
    memory: dict[str, Any]
    ledger: list[Any]
    table: int = 0
    run: str = ""
    answered: dict[str, int] = {}
    ended: bool = False


class PartyFolder:
    """One party in one run, on disk.

    Args:
        folder: where; made if it is not there.
        durable: survive a crash and a loss of power, and answer each question once; False for a trial that begins
            afresh anyway.
        keeps: how many answers stay, as the hub may ask again what it was asking when it failed; None for all.
    """

    def __init__(self, folder: Path, *, durable: bool = True, keeps: int | None = 4) -> None:
        self.folder = folder
        self._durable, self._keeps = durable, keeps
        self._store = Store(folder / "memory", durable=durable, patience=_PATIENCE, adopt=self._adopt)
        self._loaded: tuple[bytes, _State, Party] | None = None

    @property
    def begun(self) -> bool:
        """Whether the party has been here before."""
        there = self._store.path.exists() or bool(slots_of(self.folder / "memory"))
        return there and self._store.find(_MEMORY, "") is not None

    def begin(self, party: Party, run: str = "") -> None:
        """Write a party down at the beginning of a run, called so; one that is there already stays as it is."""
        with self._store.writing():
            if self._store.find(_MEMORY, "") is not None:
                self._refuse_another(party)
            else:
                self._store.put(_TABLE, "", encode(party.data.to_plain()))
                run = run or secrets.token_hex(16)
                self._save(_State(name=party.name, seed=str(party.seed), memory={}, ledger=[], run=run), party)

    @property
    def run(self) -> str:
        """What the party calls this run; no name that the hub gives, which could be used again for another."""
        return self._load()[0].run

    def load(self) -> Party:
        """The party as it was after its last answer; even while it is at work on the next."""
        return self._load()[1]

    def bring_back(self, party: Party) -> None:
        """Let a party be what it is here after its last answer."""
        _, state, kept = self._read()
        party.memory, party.ledger = kept.memory, kept.ledger
        if state.table:
            party.data = kept.data

    def part(self, question: str, at: int, count: int) -> bytes:
        """Some bytes of a kept answer, without reading the rest."""
        return self._store.part(self._kept(question), at, count)

    def measure(self, question: str) -> tuple[int, bytes]:
        """The size and checksum of a kept answer, without reading it."""
        kept = self._kept(question)
        return kept.size, kept.digest

    def reply(self, question: str) -> bytes:
        """A kept answer."""
        return self._store.content(self._kept(question))

    def answer(self, script: Script, blob: bytes, rules: Rules | None = None) -> bytes:
        """Answer a question, once: asked again, the party says what it said before."""
        question, reply = self._answer(script, blob, rules, None)
        return self.reply(question) if reply is None else reply

    def keep_answer(self, script: Script, blob: bytes, rules: Rules | None, expected: str | None = None) -> str:
        """As `answer`, but leave the answer on the disk; returns the question's name, by which it is found there.

        A question that was changed on its way has another name than the `expected` one, and is refused.
        """
        return self._answer(script, blob, rules, expected)[0]

    @property
    def ended(self) -> bool:
        """Whether nothing new is answered any more."""
        return self._load()[0].ended

    def end(self) -> Party:
        """Answer nothing new from now on; returns the party as it stays."""
        with self._store.writing():
            state, party = self._load()
            if not state.ended:
                state.ended = True
                self._save(state, party)
            return party

    def adopt_answers(self, folder: Path) -> None:
        """Take over answers that an earlier version kept as files in a folder of their own."""
        files = sorted(folder.glob("*"))
        if files:
            with self._store.writing():
                for path in files:
                    self._store.put(_REPLY, path.name, read_sealed(path))
        for path in files:
            path.unlink()

    def _answer(
        self, script: Script, blob: bytes, rules: Rules | None, expected: str | None
    ) -> tuple[str, bytes | None]:
        """A question's name and its answer; None for one that is kept already."""
        heading = read_heading(blob)
        with self._store.writing():
            state, party = self._load()
            question = question_id(script, party.name, blob)
            if expected is not None and question != expected:
                raise WireError(
                    f"the question to {party.name} is {question}, not {expected}; it was changed on its way"
                )
            if self._durable and self._store.find(_REPLY, question) is not None:
                return question, None
            self._refuse_old(state, heading)
            self._loaded = None  # A step that fails half way leaves no trace: memory is read again from the disk.
            table = party.data
            reply = respond(script, party, blob, rules)
            if party.data is not table:
                state.table += 1
                self._store.put(_TABLE, "", encode(party.data.to_plain()))
            state.answered[heading.phase] = heading.round
            if self._durable:
                self._store.put(_REPLY, question, reply)
                old = self._store.records(_REPLY)[: -self._keeps] if self._keeps else []
                for record in old:
                    self._store.drop(record)
            self._save(state, party)
        return question, reply

    def _refuse_old(self, state: _State, heading: Heading) -> None:
        if state.ended:
            raise Refused(
                f"{state.name} has signed all that it gave away in this run, and answers nothing new in it; begin "
                "another run"
            )
        last = state.answered.get(heading.phase, 0)
        if self._durable and heading.round <= last:
            raise StepError(
                f"{state.name} has answered round {last} of {heading.phase} in this run, "
                f"and is asked `{heading.step}` of round {heading.round} now; the hub's journal is older than the "
                "run. Put back the newer one, or start a new run"
            )

    def _refuse_another(self, party: Party) -> None:
        there = self.load()
        if (there.name, there.seed) != (party.name, party.seed):
            # No seed is shown: a party's own must not reach the hub with the words of an error.
            raise JournalError(
                f"{self.folder} is the memory of {there.name}, not of {party.name} with this seed; start the run in an "
                "empty folder"
            )

    def _load(self) -> tuple[_State, Party]:
        loaded = self._loaded
        if loaded is None or loaded[0] != self._memory().digest:
            loaded = self._loaded = self._read()
        return loaded[1:]

    def _read(self) -> tuple[bytes, _State, Party]:
        """Memory and rows of the same answer; read again if another one was given meanwhile."""
        while True:
            memory = self._memory()
            try:
                found = self._decode(memory)
            except TornFile:
                if self._memory().digest == memory.digest:
                    raise
            else:
                if self._memory().digest == memory.digest:
                    return (memory.digest, *found)

    def _memory(self) -> Record:
        found = self._store.find(_MEMORY, "")
        if found is None:
            raise JournalError(f"there is no party in {self.folder}; begin the run first")
        return found

    def _decode(self, memory: Record) -> tuple[_State, Party]:
        state = msgspec.convert(decode(self._store.content(memory), OWN), _State)
        table = self._store.find(_TABLE, "")
        if table is None:
            raise JournalError(f"there are no rows in {self.folder}; start the run afresh in an empty folder")
        rows = Table.from_plain(decode(self._store.content(table), OWN))
        ledger = Ledger(tuple(msgspec.convert(state.ledger, list[Entry])))
        return state, Party(state.name, rows, int(state.seed), state.memory, ledger)

    def _save(self, state: _State, party: Party) -> None:
        state.memory = party.memory
        state.ledger = list(msgspec.to_builtins(party.ledger.entries))
        saved = self._store.put(_MEMORY, "", encode(msgspec.structs.asdict(state)))
        self._loaded = saved.digest, state, party

    def _kept(self, question: str) -> Record:
        found = self._store.find(_REPLY, question)
        if found is None:
            raise StepError(f"{self.load().name} has no answer to the question {question} any more; ask it again")
        return found

    def _adopt(self, store: Store) -> list[Path]:
        """Take over what an earlier version kept: a memory in two files, a table, and large answers beside them."""
        slots = slots_of(self.folder / "memory")
        if not slots:
            return []
        state: dict[str, Any] = decode(read_slots(self.folder / "memory"), OWN)
        store.put(_TABLE, "", read_sealed(self.folder / f"table.{state['table']}"))
        for question, reply in state.pop("replies").items():
            store.put(_REPLY, question, read_sealed(self.folder / f"reply.{question}") if reply is None else reply)
        store.put(_MEMORY, "", encode(state))
        return [*slots, *self.folder.glob("table.*"), *self.folder.glob("reply.*"), self.folder / "lock"]
