"""The journal: every reply is on the hub's disk before it is used, so that a run goes on where a crash ended it.

A run that is started again runs its script from the beginning. What was asked before is answered from the journal, in
the order in which the answers came; only the rest is asked. The same settings, seed and answers give the same
questions, so the finished run equals one that nothing disturbed.

An answer is looked at before it is written down, as a bad one in the journal would be bad for ever: one that cannot be
used is an error that names the party. What is found unfit only when it is used is forgotten again, so that with the
party mended the run goes on.

How a hub stops with questions open, and goes on later: its carrier yields the answers that are in, and raises `Waiting`
for those that are not. What it yielded is in the journal by then; when the run is started again, `carry` is called
with exactly the questions that are still open. `question_id` names a question the same way every time.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from laconic.atomic_files import make_private_folder
from laconic.core.ledger import Entry, Ledger, Noised
from laconic.core.party import Party
from laconic.core.peers import Carrier, read_answer
from laconic.core.step import Script, steps_of
from laconic.core.wire import Blob, decode_question, describe, read_heading
from laconic.deploy.store import Record, Store, read_records
from laconic.deploy.transports.processes import open_processes
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import BudgetSpent, JournalError, LaconicError, PartyAbsent, StepError
from laconic.plan.runtime import Journalled

_SHARED = ("train", "valid", "test")
"""The cuts that hold the same people at all parties, once rows are matched."""
_REMEDY = "it was not kept: ask that party to look into it, then start the run again, with it or without"


class AnswerCheck:
    """Refuses answers that cannot be used, with the party's name.

    An answer must hold no NaN, be of the type that the step declares to return, and have one row for each person of the
    cuts that it is about.

    Args:
        holder: a party with the matched rows of the run; None where parties hold different people.
    """

    def __init__(self, holder: Party | None = None) -> None:
        self._holder = holder

    def __call__(self, script: Script, party: str, question: bytes, reply: Blob) -> None:
        """Refuse a reply that cannot be used."""
        asked = decode_question(question)
        value = read_answer(party, asked.step, reply)
        faults = (
            _number_fault(value),
            _type_fault(script, asked.step, value),
            self._rows_fault(asked.payload, value) if steps_of(script)[asked.step].by_row else "",
        )
        for fault in faults:
            if fault:
                raise StepError(f"the answer of {party} to `{asked.step}` {fault}; {_REMEDY}")

    def _rows_fault(self, payload: Mapping[str, Any], value: Any) -> str:
        """What is wrong with how many rows an answer has."""
        parts = value if isinstance(value, dict) else {payload.get("rows"): value}
        cuts = {} if self._holder is None else self._holder.data.cuts
        for cut in _SHARED:
            part = parts.get(cut)
            if cut in cuts and part is not None and np.shape(part)[:1] != (len(cuts[cut]),):
                return f"is {describe(part)[:200]} for the {len(cuts[cut]):,} rows of cut {cut!r}"
        return ""


def _number_fault(value: Any) -> str:
    """Minus infinity may mean something, as for splits that cannot be made."""
    if not _has_bad_number(value):
        return ""
    return "holds numbers that are NaN or infinite (if learning diverges, try a smaller learning rate)"


def _has_bad_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_bad_number, value.values() if isinstance(value, dict) else value))
    if not isinstance(value, float | np.ndarray) or np.asarray(value).dtype.kind != "f":
        return False
    return bool((np.isnan(value) | np.isposinf(value)).any())


def _type_fault(script: Script, step: str, value: Any) -> str:
    """What is wrong with the type of an answer, by what the step says that it returns."""
    wanted = NoneType if steps_of(script)[step].gives is None else _returned(type(script), step)
    return "" if _fits(value, wanted) else f"is {describe(value)[:200]}, and not what that step returns"


@cache
def _returned(kind: type[Script], step: str) -> Any:
    """What a step says that it returns; anything where only a type checker could tell."""
    try:
        return get_type_hints(getattr(kind, step)).get("return", Any)
    except NameError:
        return Any


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value that crossed is of a type; what cannot be decided fits."""
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Noised:
        return _fits(value, inner[0])
    if origin is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if origin is float:
        return isinstance(value, float | int)
    return isinstance(value, origin) if origin in (np.ndarray, NoneType, None, str, int, bool) else True


_SECRET = ("", 0, "")
_KIND = "answer"
_NO_FAULT = (BudgetSpent, JournalError, PartyAbsent)
"""Errors that say nothing against the answers that came."""


class Note(msgspec.Struct, frozen=True, array_like=True):
    """What a record is about: the hub's secret, the reply to a question, that the hub went on without one, or a reply
    that was of no use.

    Attributes:
        at: when it was written, in seconds since 1970.
    """

    kind: Literal["secret", "reply", "absent", "unfit"]
    party: str
    phase: str
    round: int
    step: str
    gives: str | None
    question: str
    at: float = 0.0


@contextmanager
def open_journalled(parties: tuple[Party, ...], settings: Journalled) -> Iterator[Carrier]:
    """Reach these parties, as they were when the run was cut off."""
    folder = Path(settings.folder)
    make_private_folder(folder)
    kept = msgspec.structs.replace(settings.within, folder=str(folder / "parties"))
    with Journal(folder / "journal") as journal, open_processes(parties, kept) as carrier:
        yield journal.around(carrier)


class Journal:
    """One run's replies on disk, and a carrier that looks there first.

    Use it in a `with` block; only one process can have it open.

    Attributes:
        replayed: how many answers came from the disk in this run.
        secret: where the hub's secret randomness comes from: a run that is taken up again draws the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replayed = 0
        self._without: list[Note] = []
        self._round: dict[str, Note] = {}
        self._outside: BaseException | None = None
        self._check = AnswerCheck()
        self._store = Store(path, alone=True, grows=True, adopt=self._adopt)
        self._notes: dict[tuple[str, int, str], tuple[Note, Record]] = {}
        for record in self._store.records(_KIND):
            self._remember(msgspec.msgpack.decode(record.note, type=Note), record)
        if _SECRET not in self._notes:
            self._write(Note("secret", "", "", 0, "", None, ""), os.urandom(32))
        self.secret = self._store.content(self._notes[_SECRET][1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        try:
            names = [] if problem is None or problem is self._outside else self.forget_last(problem)
        finally:
            self._store.close()
        if names and not isinstance(problem, LaconicError):
            raise StepError(
                f"what {' and '.join(names)} answered to `{self._round[names[0]].step}` could not be used: {problem}; "
                "it was not kept: ask them to look into it, then give the same command again; if it ends here again, "
                "begin a new run"
            ) from problem

    def around(self, carrier: Carrier, check: AnswerCheck | None = None) -> "Journal":
        """The same parties as a carrier that asks only what the journal cannot answer; `check` sees each answer."""
        self._carrier, self._check = carrier, check or self._check
        return self

    def forget_last(self, problem: BaseException) -> list[str]:
        """Forget the answers of the last round if the script failed with them; returns whose they were."""
        if not isinstance(problem, Exception) or isinstance(problem, _NO_FAULT):
            return []
        for note in self._round.values():
            self._write(msgspec.structs.replace(note, kind="unfit"))
        return list(self._round)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties, in the order of the federation."""
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Yield what is known in the order in which it came, then ask for the rest and write it down."""
        self._settle()
        notes = {name: _note(script, name, blob) for name, blob in blobs.items()}
        known = {name: found for name, note in notes.items() if (found := self.find(note)) is not None}
        self._round = {}
        for name, (note, record) in sorted(known.items(), key=lambda one: one[1][1].id):
            if note.kind == "reply":
                self.replayed += 1
                self._round[name] = note
                yield name, self.reply(record)
        missing = {name: blob for name, blob in blobs.items() if name not in known}
        if missing:
            for name, reply in self._ask(script, dict(missing), deadline):
                if name in missing:  # A second answer to the same question is nothing new.
                    del missing[name]
                    self._write(notes[name], reply)
                    self._round[name] = notes[name]
                    yield name, reply
        self._without += [msgspec.structs.replace(notes[name], kind="absent") for name in missing]

    def _ask(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Answers that can be written down. What goes wrong here is not the fault of those that came before."""
        try:
            for name, reply in self._carrier.carry(script, blobs, deadline):
                self._check(script, name, blobs[name], reply)
                yield name, reply
        except Exception as problem:
            self._outside = problem
            raise

    def ledgers(self) -> dict[str, Ledger]:
        """Each party's own ledger, or what the hub saw of it; all answers have been used by then."""
        self._settle()
        self._round = {}
        own = self._carrier.ledgers()
        return {name: own[name] if name in own else self._given(name) for name in self.names}

    def reply(self, record: Record) -> bytes:
        """The reply in a record."""
        return self._store.content(record)

    def notes(self) -> tuple[Note, ...]:
        """Everything that is written, in order."""
        return tuple(note for note, _ in self._notes.values())

    def named(self, kind: str, *, phase: str | None = None, step: str | None = None) -> set[str]:
        """The parties that notes of a kind are about, of one phase or of one step."""
        return {
            note.party
            for note, _ in self._notes.values()
            if note.kind == kind and phase in (None, note.phase) and step in (None, note.step)
        }

    def _settle(self) -> None:
        """Write down whom the hub did without: it asks on, so it went on. Had it ended, they would be asked again."""
        for note in self._without:
            self._write(note)
        self._without = []

    def find(self, note: Note) -> tuple[Note, Record] | None:
        """What the journal has for the same round and party; None if nothing. Another question there is an error."""
        found = self._notes.get((note.phase, note.round, note.party))
        if found is not None and found[0].kind == "unfit":
            return None
        if found is not None and found[0].question != note.question:
            raise JournalError(
                f"{self.path} holds another run: round {note.round} of {note.phase} asked {note.party} "
                f"`{found[0].step}` as {found[0].question}, now `{note.step}` as {note.question}. The plan, the seed, "
                "the rows or the package changed, or the hub drew fresh keys; start the run in an empty folder"
            )
        return found

    def _write(self, note: Note, reply: Blob = b"") -> None:
        """Put what a note says on the disk; returns when it is there."""
        note = msgspec.structs.replace(note, at=time.time())
        with self._store.writing():
            self._remember(note, self._put(self._store, note, reply))

    def _given(self, party: str) -> Ledger:
        """What a party gave away as far as the hub saw it: for one that cannot be asked for its own ledger."""
        ledger = Ledger()
        for note, record in self._notes.values():
            if note.party == party and note.kind == "reply" and note.gives is not None:
                words = f"{note.gives} (its own ledger did not come)"
                entry = Entry(
                    phase=note.phase, step=note.step, words=words, form="", times=1, bytes=record.size, noise=None
                )
                ledger.write(entry)
        return ledger

    def _remember(self, note: Note, record: Record) -> None:
        self._notes[note.phase, note.round, note.party] = note, record

    def _put(self, store: Store, note: Note, reply: Blob) -> Record:
        key = msgspec.json.encode((note.phase, note.round, note.party)).decode()
        return store.put(_KIND, key, reply, note=msgspec.msgpack.encode(note))

    def _adopt(self, store: Store) -> list[Path]:
        if not self.path.exists():
            return []
        for note, body in read_records(self.path):
            self._put(store, msgspec.msgpack.decode(note, type=Note), body)
        return [self.path]


def _note(script: Script, party: str, blob: bytes) -> Note:
    heading = read_heading(blob)
    words = steps_of(script).get(heading.step)
    return Note(
        kind="reply",
        party=party,
        phase=heading.phase,
        round=heading.round,
        step=heading.step,
        gives=None if words is None else words.gives,
        question=question_id(script, party, blob),
    )
