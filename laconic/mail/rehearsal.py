"""Which questions follow from the plan alone: the run is rehearsed on rows that mean nothing.

A party that answers by envelope must know the question before anybody asks. So it plays the whole run by itself, hub
and all, with made-up rows: twice, with other labels and other numbers of rows. A question that comes out the same both
times depends on nobody's rows, and the real hub will ask just that. The first that differs must be waited for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import msgspec
import numpy as np

from laconic.core.align import Align
from laconic.core.columns import Column
from laconic.core.errors import LaconicError
from laconic.core.ledger import Ledger
from laconic.core.log import WireLog
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.run import run
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array, Rng
from laconic.core.wire import Blob, read_heading
from laconic.data.splits import split
from laconic.envelope.content import Asked
from laconic.runtime.inprocess import InProcess
from laconic.simulation import on_threads

SERVER = "server"
"""What a hub without rows is called."""

_SIZES = (64, 97)
_FIRST = (1, 3)
"""So many questions are heard first: if they differ already, the rest need not be played."""
_CLASSES = {"binary": (2, 2), "multiclass": (3, 17), "regression": (0, 0)}
"""How many classes there are each time: far apart, so that whatever follows from their number comes out different."""


@dataclass(frozen=True)
class Foretold:
    """A question that a party can answer before it is asked.

    Attributes:
        script: whose step it is.
        blob: the question, as the hub will write it.
    """

    script: Asked
    blob: bytes


class Due(msgspec.Struct, frozen=True, array_like=True):
    """A question that will come; its blob is None if it depends on somebody's rows."""

    script: Asked
    step: str
    phase: str
    round: int
    blob: bytes | None


def following(timetable: tuple[Due, ...], question: bytes) -> tuple[Foretold, ...]:
    """The questions after a given one that can be answered with it, as they wait for nothing else."""
    heading = read_heading(question)
    asked = (heading.step, heading.phase, heading.round)
    places = [at for at, due in enumerate(timetable) if (due.step, due.phase, due.round) == asked]
    # How often rows are passed around until they are matched depends on how many there are.
    if not places or heading.phase == "align":
        return ()
    rest = timetable[places[0] + 1 :]
    known = takewhile(lambda due: due.blob is not None, rest)
    return tuple(Foretold(due.script, due.blob or b"") for due in known)


@dataclass(frozen=True)
class Rehearsal:
    """All that a rehearsal needs to know of a run.

    Attributes:
        method, align: the scripts; no align for rows that correspond already.
        names: all parties with rows, in their order.
        holder: which of them has the labels.
        seed: the run's.
        look_every: as in the plan.
        form: a table of the party that rehearses; made-up rows look like its own.
    """

    method: Method
    align: Align | None
    names: tuple[str, ...]
    holder: str
    seed: int
    form: Table
    look_every: int | None = None

    @property
    def hub(self) -> str:
        """Who asks: the label holder, or a server without rows."""
        return SERVER if self.method.server else self.holder

    def questions(self, name: str) -> tuple[Foretold, ...]:
        """What `name` will be asked by the whole run, up to the first question that depends on somebody's rows."""
        for most in _FIRST:
            heard = [self._play(name, number, most) for number in (0, 1)]
            same = _equal_starts(*heard)
            if len(same) < most:
                return same
        return _equal_starts(*(self._play(name, number) for number in (0, 1)))

    def timetable(self, name: str) -> tuple[Due, ...]:
        """All that `name` will be asked, as far as both times agree on what comes when."""
        one, other = (self._play(name, number) for number in (0, 1))
        due: list[Due] = []
        for first, second in zip(one, other, strict=False):
            heading = read_heading(first.blob)
            if heading != read_heading(second.blob):
                break
            known = first.blob if first == second else None
            due.append(Due(first.script, heading.step, heading.phase, heading.round, known))
        return tuple(due) if len(one) == len(other) else ()

    def predictions(self, name: str, phase: str, rows: str) -> tuple[Foretold, ...]:
        """What `name` will be asked when the fitted model predicts a cut, in a phase of its own."""
        return _equal_starts(*(self._play(name, number, predicts=(phase, rows)) for number in (0, 1)))

    def _play(
        self, name: str, number: int, most: int | None = None, predicts: tuple[str, str] | None = None
    ) -> list[Foretold]:
        tables = self._tables(number, None if predicts is None else predicts[1])
        parties = {one: Party(one, table, self.seed) for one, table in tables.items()}
        judge = parties[self.holder]
        hub = Party(SERVER, Table.without_rows(SERVER), self.seed) if self.method.server else judge
        others = tuple(party for party in parties.values() if party is not hub)
        with on_threads(1), InProcess().open(others) as carrier:
            listening = _Listening(carrier, name, most)
            peers = Peers(self.method, hub, listening, WireLog(), carrier.names)
            try:
                run(self.method, hub, peers, judge=judge, align=self.align, look_every=self.look_every)
                if predicts is not None:
                    listening.heard.clear()
                    peers.log.phase = predicts[0]
                    hub.turn(predicts[0], 0)
                    self.method.predict(hub, peers, predicts[1])
            # Made-up rows may be too few or too strange for a method; what was asked before then still stands.
            except (_Enough, LaconicError, ValueError):
                if predicts is not None and peers.log.phase != predicts[0]:
                    return []
        return listening.heard

    def _tables(self, number: int, extra: str | None) -> dict[str, Table]:
        rng = np.random.default_rng(number)
        kinds = [kind for kind in ("binary", "multiclass", "regression") if kind in self.method.tasks]
        kind = kinds[min(number, len(kinds) - 1)]
        classes = _CLASSES[kind][number]
        task = Task(kind=kind, classes=tuple(str(one) for one in range(classes)))
        rows = _SIZES[number]
        y = rng.permutation(np.arange(rows) % classes) if classes else rng.normal(size=rows)
        cuts = {} if self.align is not None else split(rows, rng)
        if extra is not None and cuts:
            cuts[extra] = cuts["test"]
        return {name: self._table(name, y, task, cuts, rng) for name in self.names}

    def _table(self, name: str, y: Array, task: Task, cuts: Mapping[str, Array], rng: Rng) -> Table:
        columns = self.form.columns or (Column("a"), Column("b"), Column("c"))
        holds = name == self.holder
        return Table(
            _cells(self.form, columns, len(y), rng),
            columns,
            ids=[f"{one:04d}" for one in range(len(y))],
            y=y if holds else None,
            task=task if holds else None,
            cuts=cuts,
            party=name,
        )


def _cells(form: Table, columns: tuple[Column, ...], rows: int, rng: Rng) -> Array:
    if form.raw.ndim == 4:
        return rng.integers(0, 256, size=(rows, *form.raw.shape[1:])).astype(np.uint8)
    cells = rng.normal(size=(rows, len(columns)))
    for at, column in enumerate(columns):
        if column.kind == "categorical":
            cells[:, at] = rng.integers(0, max(len(column.levels), 2), size=rows)
    return cells


def _equal_starts(one: list[Foretold], other: list[Foretold]) -> tuple[Foretold, ...]:
    same: list[Foretold] = []
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        same.append(first)
    return tuple(same)


class _Enough(Exception):
    """So many questions were heard as were wanted."""


class _Listening:
    """A carrier that writes down what one party is asked."""

    def __init__(self, within: Carrier, name: str, most: int | None) -> None:
        self._within, self._name, self._most = within, name, most
        self.heard: list[Foretold] = []

    @property
    def names(self) -> tuple[str, ...]:
        return self._within.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        if self._name in blobs:
            self.heard.append(Foretold("align" if isinstance(script, Align) else "method", blobs[self._name]))
        if len(self.heard) == self._most:
            raise _Enough
        yield from self._within.carry(script, blobs, deadline)

    def ledgers(self) -> dict[str, Ledger]:
        return self._within.ledgers()
