"""Small federations and parties for tests of methods, on data sets of scikit-learn and drawn times; and a bad party.

A bad party sends something else than it should, to see what becomes of a run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import Script
from laconic.core.traffic import WireLog
from laconic.core.wire import Blob, decode, encode
from laconic.data.datasets import Dataset, load
from laconic.data.federation import Federation
from laconic.data.partition.columns import Equal, deal
from laconic.data.partition.rows import Dirichlet, Iid, deal_rows
from laconic.deploy.transports import Runtime, open_runtime
from laconic.deploy.transports.inprocess import open_calls
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Table
from laconic.tables.task import Task, signed_times
from laconic.values import Array

_SETS: dict[str, str] = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}


def small_federation(kind: str) -> Federation:
    """Three parties on a small data set of a kind of task."""
    return deal(_small_set(kind), Equal(parties=3), seed=3, test=0.3)


def small_horizontal(kind: str) -> Federation:
    """Three parties and a server on a small data set of a kind of task, rows dealt with a slight label skew."""
    way = Dirichlet(parties=3, beta=2.0) if kind in ("binary", "multiclass") else Iid(parties=3)
    return deal_rows(_small_set(kind), way, seed=3)


def rows_held_out(
    parties: Mapping[str, tuple[Array, Array]], test: tuple[Array, Array], columns: Sequence[str], task: Task
) -> Federation:
    """Parties with rows of numbers and labels, and at a server those to score on: for splits that others have fixed."""
    known = tuple(Column(name) for name in columns)
    recipe = Recipe(columns=known)  # As parties with files, these still have to agree on how columns are prepared.
    tables = {
        name: Table(x, known, y=y, task=task, cuts={cut: np.arange(len(y))}, party=name, recipe=recipe)
        for name, cut, (x, y) in [("server", "test", test), *((name, "train", rows) for name, rows in parties.items())]
    }
    return Federation(name="rows", tables=tables, hub="server", aligned=False, kind="horizontal")


def drawn_times(rows: int = 400, columns: int = 6, seed: int = 5) -> Dataset:
    """Drawn rows whose hazard is the exponential of a linear map of their columns; about a third are censored."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    risk = np.exp(x @ np.linspace(1.0, -0.5, columns))
    came, left = rng.exponential(1 / risk), rng.exponential(2.0, rows)
    # Whole days, so that some times are tied.
    times = np.ceil(100 * np.minimum(came, left))
    return Dataset(
        name="drawn times",
        raw=x,
        columns=tuple(Column(f"column{i}") for i in range(columns)),
        y=signed_times(times, came <= left),
        task=Task(kind="survival", label="days", event="died"),
    )


def _small_set(kind: str) -> Dataset:
    return load(_SETS[kind]) if kind in _SETS else drawn_times()


def small_overlap() -> Federation:
    """Three parties that share sixty rows and have others alone; the label holder has labels and no columns."""
    return deal(load("breast_cancer"), Equal(parties=3), hub=None, overlap=60, seed=3, test=0.3, valid=0.03)


def bare_party(name: str = "bank", *, secret: bytes | None = None) -> Party:
    """A party without rows, for tests of what a step does with its payload."""
    return Party(name, Table.without_rows(name), seed=0, secret=secret)


@contextmanager
def open_peers(
    script: Script,
    hub: Party,
    others: Iterable[Party],
    runtime: AnyRuntime | Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[Peers]:
    """The other parties as the hub's peers for as long as the block lasts, for tests of a script's parts."""
    with open_runtime(tuple(others), runtime) as carrier:
        yield Peers(script, hub, carrier, WireLog(), carrier.names)


Badness = Literal["constant", "scaled", "noisy", "shuffled", "not a number"]


@dataclass(frozen=True)
class BadParty:
    """A runtime in which one party's answers are altered on their way, while fitting and while predicting.

    Attributes:
        name: the bad party.
        how: what it does to every array of numbers that it sends. `constant`: all numbers are 1. `scaled`: a thousand
            times as large, with the other sign. `noisy`: noise of the same mean and spread instead. `shuffled`: the
            right numbers for the wrong rows. `not a number`: some are none.
        seed: of noise and order.
    """

    name: str
    how: Badness
    seed: int = 0

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator[Carrier]:
        """Reach these parties in this process."""
        with open_calls(parties) as carrier:
            yield _Altered(carrier, self)

    def alter(self, value: Any) -> Any:
        """The same value with every array of numbers in it made bad."""
        if isinstance(value, dict):
            return {key: self.alter(inner) for key, inner in value.items()}
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            return self._bad(value).astype(value.dtype)
        return value

    def _bad(self, values: Array) -> Array:
        rng = np.random.default_rng([self.seed, *values.shape])
        match self.how:
            case "constant":
                return np.ones_like(values)
            case "scaled":
                return np.clip(-1000.0 * values.astype(np.float64), -6e4, 6e4)
            case "noisy":
                return rng.normal(values.mean(axis=0), values.std(axis=0) + 1e-6, values.shape)
            case "shuffled":
                return rng.permutation(values, axis=0)
        return np.where(rng.random(values.shape) < 0.1, np.nan, values)


class _Altered:
    def __init__(self, carrier: Carrier, bad: BadParty) -> None:
        self._carrier, self._bad = carrier, bad

    @property
    def names(self) -> tuple[str, ...]:
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, blob in self._carrier.carry(script, blobs, deadline):
            yield name, encode(self._bad.alter(decode(blob))) if name == self._bad.name else blob

    def ledgers(self) -> dict[str, Ledger]:
        return self._carrier.ledgers()


def flip_labels(federation: Federation, party: str) -> Federation:
    """The same rows, but one party's training labels are all wrong: each class is called the next one."""
    table = federation.tables[party]
    if table.y is None:
        raise ValueError(f"{party} has no labels to flip; those of parties with other rows can be flipped")
    flipped = table.y.copy()
    rows = table.cut("train")
    flipped[rows] = (flipped[rows] + 1) % max(2, len(federation.task.classes))
    wrong = Table(
        table.raw,
        table.columns,
        ids=table.ids,
        y=flipped,
        task=table.task,
        cuts=table.cuts,
        party=party,
        recipe=table.recipe,
    )
    return replace(federation, tables=federation.tables | {party: wrong})


def leave_out(federation: Federation, party: str) -> Federation:
    """The same federation without a party: what leaving it out by hand gives."""
    tables = {name: table for name, table in federation.tables.items() if name != party}
    return replace(federation, tables=tables)
