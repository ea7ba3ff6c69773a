"""Small federations and parties for tests of methods, on data sets of scikit-learn and on drawn times to an event."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Script
from laconic.core.traffic import WireLog
from laconic.data.datasets import load
from laconic.data.datasets.dataset import Dataset
from laconic.data.federation import Federation
from laconic.data.partition.columns import Equal, deal
from laconic.data.partition.rows import Dirichlet, Iid, deal_rows
from laconic.deploy.transports import Runtime, open_runtime
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.tables.columns import Column, Recipe
from laconic.tables.survival import signed_times
from laconic.tables.table import Table
from laconic.tables.task import Task
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
