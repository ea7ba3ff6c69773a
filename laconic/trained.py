"""A run whose parties are still at hand, so that what they learnt can be used and looked into."""

import math
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from laconic.core.align import Align
from laconic.core.log import WireLog
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.result import Result
from laconic.core.run import releases_of, run
from laconic.core.score import headline, metrics
from laconic.core.script import Step
from laconic.core.values import Array, Listener
from laconic.data.federation import Federation
from laconic.privacy.told import take_over
from laconic.runtime.inprocess import InProcess
from laconic.runtime.journal import Remembering
from laconic.simulation import Runtime, on_threads, refuse_other_kind, seats, usual_align


@dataclass(frozen=True)
class Trained:
    """What `train` hands back: the record of the run, and the parties as the run left them.

    A `Result` is a record that can be stored, and so holds nothing of what was learnt; this holds it, in this process.

    Attributes:
        method, federation: what was run, on what; the federation's rows correspond.
        hub, others: the parties with their memories.
        result: the record.
    """

    method: Method
    federation: Federation
    hub: Party
    others: tuple[Party, ...]
    result: Result

    def predict(self, rows: str = "test", federation: Federation | None = None) -> Array:
        """Predictions for the rows of a cut, of these parties or of the same parties with other cells."""
        tables = {self.hub.name: self.hub.data} | (federation or self.federation).tables
        hub, *others = (
            Party(party.name, tables[party.name], party.seed, dict(party.memory), party.ledger)
            for party in (self.hub, *self.others)
        )
        try:
            with on_threads(1), InProcess().open(tuple(others)) as carrier:
                log = WireLog()
                log.phase = "final"
                hub.turn("final", 0)
                return self.method.predict(hub, Peers(self.method, hub, carrier, log, carrier.names), rows)
        finally:
            for party, asked in zip(self.others, others, strict=True):
                take_over(party, asked)

    def to_date(self) -> Result:
        """The record with all that was given away since, by predictions and by finding out who matters."""
        ledgers = {party.name: party.ledger for party in self.others}
        return msgspec.structs.replace(self.result, releases=releases_of(self.hub, ledgers))

    def score(self, rows: str = "test", federation: Federation | None = None) -> dict[str, float]:
        """Every metric of those predictions."""
        return metrics(self.federation.task, self.federation.labels(rows), self.predict(rows, federation))

    def ask(self, question: Step) -> dict[str, Any]:
        """Ask every party but the hub a step that needs nothing."""
        with on_threads(1), InProcess().open(self.others) as carrier:
            return Peers(self.method, self.hub, carrier, WireLog(), carrier.names).ask(question)

    def headline(self, federation: Federation | None = None) -> float:
        """The headline figure on test rows."""
        return headline(self.federation.task, self.score("test", federation)).value


def train(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    workers: int | None = None,
    runtime: Runtime | None = None,
    align: Align | None = None,
    max_bytes: float = math.inf,
    look_every: int | None = None,
    rows: str = "test",
    listener: Listener | None = None,
) -> Trained:
    """As `simulate`, but keep the parties.

    Args:
        workers: how many parties work at the same time, as for `InProcess`.
        runtime: where parties are while they learn; they are brought back here with all that they remember. None is
            this process, with so many workers.
        align, max_bytes, look_every, rows, listener: as for `simulate`.
    """
    refuse_other_kind(method, federation)
    hub, judge, others = seats(method, federation, seed)
    with on_threads(1), (runtime or InProcess(workers=workers)).open(others) as carrier:
        if isinstance(carrier, Remembering):
            hub.keep_secret(carrier.secret)
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        result = run(
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
    found = {party.name: party.data for party in (judge, *others)}
    matched = {name: found[name] for name in federation.tables}
    return Trained(method, replace(federation, tables=matched, aligned=True), hub, others, result)
