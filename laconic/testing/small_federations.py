"""Small federations and parties for tests of methods, on data sets that come with scikit-learn."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Script
from laconic.core.traffic import WireLog
from laconic.data.datasets import load
from laconic.data.federation import Federation
from laconic.data.partition.columns import Equal, deal
from laconic.data.partition.rows import Dirichlet, Iid, deal_rows
from laconic.deploy.transports import Runtime, open_runtime
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.tables.table import Table

_SETS = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}


def small_federation(kind: str) -> Federation:
    """Three parties on a small data set of a kind of task."""
    return deal(load(_SETS[kind]), Equal(parties=3), seed=3, test=0.3)


def small_horizontal(kind: str) -> Federation:
    """Three parties and a server on a small data set of a kind of task, rows dealt with a slight label skew."""
    way = Iid(parties=3) if kind == "regression" else Dirichlet(parties=3, beta=2.0)
    return deal_rows(load(_SETS[kind]), way, seed=3)


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
