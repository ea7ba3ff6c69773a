"""Run a method: align, fit, look, predict, and write down what happened."""

import math
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from laconic.core.align import Align
from laconic.core.ledger import Ledger
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.result import Absence, Look, PartyTraffic, Release, Result
from laconic.core.traffic import WireLog
from laconic.errors import BudgetSpent, DataError
from laconic.tables.task import headline, metrics
from laconic.threads import limit_threads
from laconic.values import Array, Listener


@limit_threads()
def run(
    method: Method,
    hub: Party,
    peers: Peers,
    *,
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    judge: Party | None = None,
    data: dict[str, Any] | None = None,
    listener: Listener | None = None,
) -> Result:
    """Fit a method and score it on held-out rows.

    Args:
        align: makes rows correspond first; None when they do already.
        max_bytes: fitting stops at the last yield before this many bytes would have crossed.
        look_every: look at the model after every so many yields; None never looks before the end.
        rows: the cut to score on.
        judge: the party whose labels score the predictions; None is the hub. Its labels never reach the method.
        data: facts about the data, for the record.
        listener: told of progress.
    """
    log = peers.log
    judge = judge or hub
    facts = dict(data or {}) | {"uses": list(method.uses)}
    if align is not None:
        facts |= _match(align, hub, peers, judge)
    _refuse_no_rows(judge, rows)
    curve: list[Look] = []
    stopped = "finished"
    log.phase = "fit"
    hub.turn("fit", 0)
    with log.during("fit"):
        for turn in _budgeted(method, hub, peers, max_bytes):
            if turn < 0:
                stopped = "byte budget"
                break
            if listener is not None:
                listener("fitting", turn + 1, None)
            if look_every is not None and turn % look_every == 0:
                curve.append(_look(method, hub, peers, judge, rows, len(curve)))
    if align is not None:
        with log.during("align"):
            align.confirm(hub, peers.speaking(align))
    with log.during("final"):
        hub.turn("final", 0)
        predictions = method.predict(hub, peers, rows)
    values = _score(judge, rows, predictions)
    return Result(
        method=msgspec.to_builtins(method),
        data=facts,
        parties=(hub.name, *peers.names),
        hub=hub.name,
        seed=hub.seed,
        task=task_of(judge),
        score=headline(task_of(judge), values),
        metrics=values,
        align=log.traffic("align"),
        fit=log.traffic("fit"),
        look=log.traffic("look"),
        final=log.traffic("final"),
        curve=tuple(curve),
        releases=releases_of(hub, peers.ledgers()),
        wire=_by_party(log),
        absences=_absences(log),
        predictions=digest_of(predictions),
        stopped=stopped,
        versions=_versions(),
    )


def digest_of(predictions: Array) -> str:
    """A digest of predictions, to the bit."""
    return blake2b(np.ascontiguousarray(predictions).tobytes(), digest_size=16).hexdigest()


def _match(align: Align, hub: Party, peers: Peers, judge: Party) -> dict[str, Any]:
    """Make rows correspond; returns what is to be said of it."""
    with peers.log.during("align"):
        hub.turn("align", 0)
        found = align.match(hub, peers.speaking(align))
        held = {name: len(judge.data.cuts.get(name, ())) for name in ("train", "valid", "test")}
        labels = {"party": judge.name, "columns": len(judge.data.columns)}
        found |= {"cuts": held, "labels": labels}
        return {"alignment": found, "fingerprint": align.confirm(hub, peers.speaking(align))}


def _absences(log: WireLog) -> tuple[Absence, ...]:
    return tuple(
        Absence(phase=crossing.phase, round=crossing.round, step=crossing.step, party=crossing.party)
        for crossing in log.crossings
        if crossing.up is None
    )


def _budgeted(method: Method, hub: Party, peers: Peers, max_bytes: float) -> Iterator[int]:
    """Number the yields of `fit`; a negative number ends it, before the next stretch would pass the budget."""
    before = 0
    for turn, _ in enumerate(method.fit(hub, peers)):
        spent = peers.log.bytes_of("fit")
        if spent > max_bytes:
            raise BudgetSpent(
                f"{type(method).__name__} had sent {spent:,} bytes before it could be used, over the budget of "
                f"{max_bytes:,.0f}; raise the budget or send less (a smaller dimension, precision float16)"
            )
        yield turn
        if spent + (spent - before) > max_bytes:
            yield -1
        before = spent


def _look(method: Method, hub: Party, peers: Peers, judge: Party, rows: str, number: int) -> Look:
    """Score the model as it is now; its chance and its traffic are its own, so looking never changes learning."""
    chance, phase = hub.rng, hub.phase
    with peers.log.during("look"):
        hub.turn("look", number)
        values = _score(judge, rows, method.predict(hub, peers, rows))
    hub.rng, hub.phase = chance, phase
    spent, rounds = peers.log.bytes_of("fit"), peers.log.rounds_of("fit")
    return Look(bytes=spent, rounds=rounds, score=headline(task_of(judge), values), metrics=values)


def _score(judge: Party, rows: str, predictions: Array) -> dict[str, float]:
    task = task_of(judge)
    y = judge.data.part(rows)[1]
    if y is None:
        raise ValueError(f"{judge.name} has no labels for its rows {rows!r} to score with")
    return metrics(task, y, predictions, _spread(judge))


def _refuse_no_rows(judge: Party, rows: str) -> None:
    """Refuse, before fitting, to score on no rows."""
    table = judge.data
    if table.y is None or rows not in table.cuts or len(table.cuts[rows]):
        return
    all_cut = sum(len(table.cuts.get(name, ())) for name in ("train", "valid", "test"))
    raise DataError(
        f"party {judge.name!r}: of {all_cut} rows, 0 are to be scored on (cut {rows!r}), so that there is no score; "
        "share more rows, or raise data.test"
    )


def _spread(judge: Party) -> float:
    """Greatest less least training label for regression, to scale errors by; 1 where that says nothing."""
    known = judge.data.part("train")[1] if "train" in judge.data.cuts else None
    return float(np.ptp(known)) or 1.0 if known is not None and known.dtype.kind == "f" else 1.0


def releases_of(hub: Party, ledgers: Mapping[str, Ledger]) -> tuple[Release, ...]:
    """All that left the parties, for the record."""
    found = [(hub.name, "peers", entry) for entry in hub.ledger.entries]
    found += [(name, "hub", entry) for name, ledger in ledgers.items() for entry in ledger.entries]
    return tuple(
        Release(
            party=party,
            to=entry.to or to,
            phase=entry.phase,
            step=entry.step,
            words=entry.words,
            form=entry.form,
            times=entry.times,
            bytes=entry.bytes,
            noise=entry.noise,
            covered="open release: not protected" if entry.noise is None else entry.noise.caveat,
            digest=entry.digest,
        )
        for party, to, entry in found
    )


def _by_party(log: WireLog) -> tuple[PartyTraffic, ...]:
    sums: dict[tuple[str, str, str], list[int]] = {}
    for crossing in log.crossings:
        total = sums.setdefault((crossing.phase, crossing.step, crossing.party), [0, 0, 0])
        total[0] += 1
        total[1] += crossing.up or 0
        total[2] += crossing.down
    return tuple(
        PartyTraffic(phase=phase, step=step, party=party, times=times, bytes_up=up, bytes_down=down)
        for (phase, step, party), (times, up, down) in sums.items()
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import version
    from platform import python_version

    names = ("laconic", "numpy", "torch", "msgspec")
    return {"python": python_version()} | {name: version(name) for name in names}
