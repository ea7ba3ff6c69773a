"""A run whose parties are still at hand, so that what they learnt can be used and looked into."""

from dataclasses import dataclass
from typing import Any

from laconic.core.log import WireLog
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.result import Result
from laconic.core.run import run
from laconic.core.score import headline, metrics
from laconic.core.script import Step
from laconic.core.values import Array, Listener
from laconic.data.federation import Federation
from laconic.runtime.inprocess import InProcess
from laconic.simulation import on_threads


@dataclass(frozen=True)
class Trained:
    """What `train` hands back: the record of the run, and the parties as the run left them.

    A `Result` is a record that can be stored, and so holds nothing of what was learnt; this holds it, in this process.

    Attributes:
        method, federation: what was run, on what.
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
        tables = (federation or self.federation).tables
        hub, *others = (
            Party(party.name, tables[party.name], party.seed, dict(party.memory)) for party in (self.hub, *self.others)
        )
        with on_threads(1), InProcess().open(tuple(others)) as carrier:
            log = WireLog()
            log.phase = "final"
            hub.turn("final", 0)
            return self.method.predict(hub, Peers(self.method, hub, carrier, log, carrier.names), rows)

    def score(self, rows: str = "test", federation: Federation | None = None) -> dict[str, float]:
        """Every metric of those predictions."""
        return metrics(task_of(self.hub), self.federation.labels(rows), self.predict(rows, federation))

    def ask(self, question: Step) -> dict[str, Any]:
        """Ask every party but the hub a step that needs nothing."""
        with on_threads(1), InProcess().open(self.others) as carrier:
            return Peers(self.method, self.hub, carrier, WireLog(), carrier.names).ask(question)

    def headline(self, federation: Federation | None = None) -> float:
        """The headline figure on test rows."""
        return headline(task_of(self.hub), self.score("test", federation)).value


def train(
    method: Method,
    federation: Federation,
    *,
    seed: int = 0,
    workers: int = 1,
    look_every: int | None = None,
    listener: Listener | None = None,
) -> Trained:
    """As `simulate` in one process, but keep the parties.

    Args:
        method: one whose hub is the label holder.
        federation: whose rows correspond already.
        workers: how many parties work at the same time.
        look_every, listener: as for `simulate`.
    """
    if method.server or not federation.aligned:
        raise ValueError("train() is for methods whose hub holds the labels, on a federation whose rows correspond")
    parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    others = tuple(parties.values())
    with on_threads(1), InProcess(workers=workers).open(others) as carrier:
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        facts = {"name": federation.name, "kind": federation.kind} | federation.facts
        result = run(method, hub, peers, look_every=look_every, data=facts, listener=listener)
    return Trained(method, federation, hub, others, result)
