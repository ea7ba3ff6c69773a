"""How fast FedKT's many small models are trained: all of L0 on Adult, and many at once against one by one.

Run on a quiet machine: `LACONIC_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.fedkt`. It prints the load that it
found, for the clock of a busy machine means little; how much processors worked means something there too.
"""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from laconic import Dirichlet, Federation, FedKt, deal_rows, load, simulate
from laconic.core import Party, Peers, Script, WireLog, step, task_of
from laconic.data import RandomHoldout
from laconic.deploy import Forked, InProcess, open_runtime
from laconic.learn import AnyClassifier, Forest, Mlp, Network, Sgd, fit_models, fit_supervised
from laconic.methods import labelled

NET = Network(net=Mlp(hidden=(32,)), trainer=Sgd(epochs=20, batch=16))
TREE = Forest(trees=1, rows=1.0, columns=1.0)


class Teach(Script, frozen=True):
    """Training ten teachers at each party, and nothing else.

    Attributes:
        classifier: what teachers are.
        singly: one after another, each by itself, instead of all of a party together.
    """

    classifier: AnyClassifier
    singly: bool

    @step(takes=None, gives=None)
    def teach(self, party: Party) -> None:
        """Train two partitions of five teachers on this party's rows."""
        x, y = labelled(party, "train")
        orders = [party.rng.permutation(len(y)) for _ in range(2)]
        shards = [(x[rows], y[rows]) for order in orders for rows in np.array_split(order, 5) if len(rows)]
        if not self.singly:
            fit_models(self.classifier, task_of(party), shards, party.rng)
        for shard in shards if self.singly else ():
            if isinstance(self.classifier, Network):
                net = self.classifier.net or Mlp()
                fit_supervised(net, task_of(party), [shard[0]], shard[1], self.classifier.trainer, party.rng)
            else:
                fit_models(self.classifier, task_of(party), [shard], party.rng)


def main() -> None:
    """Print every figure, with the load of the machine beside it."""
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    federation = deal_rows(load("a9a"), Dirichlet(parties=50, balanced=True), reserve=RandomHoldout(), seed=0)
    for table in federation.tables.values():
        table.part("public")  # Prepared once and kept, so that no figure pays for it.
    whole = _cost(lambda: simulate(FedKt(model=Forest(columns=0.6), teacher=TREE), federation, runtime=Forked()))
    print(f"Adult, 50 parties, all of L0, tree teachers and forest students, two workers: {whole}")
    _compare("forests", Forest(columns=0.6), federation)
    _compare("nets", NET, federation)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _compare(what: str, classifier: AnyClassifier, federation: Federation) -> None:
    single = _teach(Teach(classifier=classifier, singly=True), federation, InProcess())
    together = _teach(Teach(classifier=classifier, singly=False), federation, InProcess())
    shared = _teach(Teach(classifier=classifier, singly=False), federation, Forked(workers=2))
    print(f"500 {what}, one by one: {single}")
    print(f"500 {what}, a party's ten together: {together}; {single.times(together)}")
    print(f"500 {what}, so and in two workers: {shared}; {single.times(shared)}")


class _Cost(NamedTuple):
    """Seconds by the clock, and seconds that processors worked, all of them together."""

    clock: float
    worked: float

    def __str__(self) -> str:
        return f"{self.clock:.1f} s by the clock, {self.worked:.1f} s of processors' work"

    def times(self, other: "_Cost") -> str:
        """How much better the other is."""
        return f"{self.clock / other.clock:.2f} x as fast, {self.worked / other.worked:.2f} x less work"


def _teach(script: Teach, federation: Federation, runtime: InProcess | Forked) -> _Cost:
    parties = {name: Party(name, table, 0) for name, table in federation.tables.items()}
    hub = parties.pop(federation.hub)
    with open_runtime(tuple(parties.values()), runtime) as carrier:
        peers = Peers(script, hub, carrier, WireLog(), carrier.names)
        return _cost(lambda: peers.ask(script.teach))


def _worked() -> float:
    """Processor time of this process and of the workers it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cost(work: Callable[[], object]) -> _Cost:
    started, before = time.perf_counter(), _worked()
    work()
    return _Cost(time.perf_counter() - started, _worked() - before)


if __name__ == "__main__":
    main()
