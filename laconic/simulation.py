"""Run a method over a federation whose parties are all at hand: the way to try things out."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from laconic.align.columns import SameColumns
from laconic.align.exact import ExactMatch
from laconic.core.align import Align
from laconic.core.errors import DataError
from laconic.core.log import WireLog
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.values import Listener
from laconic.data.federation import Federation
from laconic.runtime.inprocess import InProcess
from laconic.runtime.journal import Remembering


class Runtime(Protocol):
    """A place for parties to be: in this process, in processes of their own, on other machines."""

    def open(self, parties: tuple[Party, ...]) -> AbstractContextManager[Carrier]:
        """Reach these parties for as long as the block lasts."""
        ...


def simulate(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    runtime: Runtime = InProcess(),  # noqa: B008 (frozen)
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    threads: int = 1,
    listener: Listener | None = None,
) -> Result:
    """Fit and score a method on a federation; the same seed gives the same run on every runtime.

    Args:
        align: how parties' rows are matched, or their columns agreed on, where that is still to be done; None as
            usual (`usual_align`).
        rows: the cut to score on; choose settings by `valid`, and look at `test` when they are chosen.
        max_bytes, look_every, listener: as for `laconic.core.run.run`.
        threads: processor threads; small networks are fastest on one.

    Example:
        >>> from laconic import Equal, FedOnce, deal, load, simulate
        >>> simulate(FedOnce(), deal(load("breast_cancer"), Equal(parties=3))).score
    """
    refuse_other_kind(method, federation)
    hub, judge, others = seats(method, federation, seed)
    with on_threads(threads), runtime.open(others) as carrier:
        if isinstance(carrier, Remembering):
            hub.keep_secret(carrier.secret)
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        return run(
            method,
            hub,
            peers,
            judge=judge,
            align=None if federation.aligned else align or usual_align(federation),
            max_bytes=max_bytes,
            look_every=look_every,
            rows=rows,
            data={"name": federation.name, "kind": federation.kind} | federation.facts,
            listener=listener,
        )


def seats(method: Method, federation: Federation, seed: int) -> tuple[Party, Party, tuple[Party, ...]]:
    """The party that runs the script, the one that has the labels, and all whom the first can ask."""
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    judge = parties[federation.hub]
    hub = Party("server", Table.without_rows("server"), seed) if method.server else judge
    return hub, judge, tuple(party for party in parties.values() if party is not hub)


def usual_align(federation: Federation) -> Align:
    """How parties come together if nothing else is said: by ids in the clear, or by columns where rows are apart."""
    return ExactMatch() if federation.kind == "vertical" else SameColumns()


def refuse_other_kind(method: Method, federation: Federation) -> None:
    """Refuse a vertical method on parties with other rows, the other way round, and one that lacks public rows.

    Raises:
        TypeError: `method` is a name or a class rather than settings, or `federation` is something else.
        ValueError: the two are of different kinds.
        DataError: a horizontal method needs public rows and there are none, or cannot predict numbers.
    """
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else method if isinstance(method, str) else "FedOnce"
        raise TypeError(f"the method must be its settings, such as {name}(), not {_shown(method)}")
    if not isinstance(federation, Federation):
        raise TypeError(
            "the federation must be what deal(...), deal_rows(...), from_frames(...) or rows_from_frames(...) gives, "
            f"not {_shown(federation)}"
        )
    if method.kind != federation.kind:
        raise ValueError(
            f"{type(method).__name__} is a {method.kind} method, but {federation.name} is dealt as a {federation.kind} "
            "federation; use deal(...) or from_frames(...) for parties with other columns, deal_rows(...) or "
            "rows_from_frames(...) for parties with other rows"
        )
    if method.kind == "horizontal":
        _refuse_unfit_rows(method, federation)


@contextmanager
def reach(
    script: Script,
    federation: Federation,
    *,
    seed: int = 0,
    runtime: Runtime = InProcess(),  # noqa: B008 (frozen)
) -> Iterator[tuple[Party, Peers]]:
    """A server without rows, and all parties of an aligned federation as its peers, for a script that is no method."""
    hub = Party("server", Table.without_rows("server"), seed)
    parties = tuple(Party(name, table, seed) for name, table in federation.tables.items())
    with runtime.open(parties) as carrier:
        yield hub, Peers(script, hub, carrier, WireLog(), carrier.names)


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Let torch and matrix products use so many processor threads for as long as the block lasts."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    # Finding all libraries takes longer than a small prediction, so a block within such a block does not do it again.
    limit = nullcontext() if _limits and _limits[-1] == count else threadpool_limits(count)
    _limits.append(count)
    try:
        with limit:
            yield
    finally:
        _limits.pop()
        torch.set_num_threads(before)


def _refuse_unfit_rows(method: Method, federation: Federation) -> None:
    """Refuse parties with other rows that a method cannot learn from: numbers to predict, or no public rows."""
    if federation.task.kind not in method.tasks:
        raise DataError(
            f"{type(method).__name__} predicts classes, but label {federation.task.label!r} of {federation.name} holds "
            "numbers; if these are classes, say so with task=Task(kind=...) (--set data.task=multiclass), or put them "
            "into classes, such as low and high, at all parties"
        )
    if "public" in method.uses and "public" not in federation.tables[federation.hub].cuts:
        raise DataError(
            f"{type(method).__name__} learns from public rows, and {federation.name} has none; give rows of the same "
            "columns that everybody may see, labels not needed (--public FILE, or public= in rows_from_frames), or use "
            "a method without, such as FedAvg"
        )


def _shown(value: object) -> str:
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    return repr(value) if isinstance(value, str) else kind


_limits: list[int] = []
"""What the blocks of `on_threads` that are open now ask for."""
