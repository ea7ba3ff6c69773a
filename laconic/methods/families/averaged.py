"""Averaging: every party trains the same net on its own rows, and the server averages what comes back.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017).
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import step
from laconic.learn.models.learner import check_model
from laconic.learn.models.learners import Network
from laconic.learn.models.supervised import fit_from, mean_of
from laconic.learn.nets.nets import Net, default_net, make, weights_of
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled
from laconic.values import Array, Weights


class Local(msgspec.Struct, frozen=True):
    """What parties train, and how: the net, the trainer, and how strongly they are pulled back to the average."""

    net: Net | None
    trainer: Sgd
    pull: float = 0.0


class Averaging(Method, frozen=True):
    """Abstract: a method that averages parties' nets, once a round; the average is in `hub.memory["model"]`."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    @abstractmethod
    def local(self) -> Local:
        """What parties train, and how."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Average again and again, from weights drawn by chance."""
        hub.memory["model"] = self.first(hub)
        yield from self.average(hub, peers, self.rounds or 1)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the average."""
        return Network(net=self.local().net).predict(task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    @step(
        takes="the average of all parties' models, from which rows may be guessed at",
        gives="its model, trained on its rows, from which rows may be guessed at, and how many rows it has",
    )
    def improve(self, party: Party, model: Weights) -> dict[str, Any]:
        """Train the average on this party's rows."""
        local = self.local()
        rows = labelled(party, "train")
        trained = fit_from(self.net_for(party), task_of(party), model, rows, local.trainer, party.rng, pull=local.pull)
        return {"model": trained, "rows": len(rows[1])}

    def average(self, hub: Party, peers: Peers, exchanges: int) -> Iterator[None]:
        """So many times: send out the average, take back what parties made of it, average again."""
        for _ in range(exchanges):
            models, shares = self.collect(hub, peers)
            hub.memory["model"] = self.merge(hub, models, shares)
            yield

    def merge(self, hub: Party, models: list[Weights], shares: list[float]) -> Weights:
        """One model from all parties': their mean, weighted by rows."""
        return mean_of(models, shares)

    def collect(self, hub: Party, peers: Peers) -> tuple[list[Weights], list[float]]:
        """All parties' models after one more training, and how many rows each has."""
        answers = peers.ask(self.improve, model=hub.memory["model"])
        form = Network(net=self.net_for(hub))
        models = [check_model(form, task_of(hub), one["model"], hub.data.shape, name) for name, one in answers.items()]
        return models, [float(one["rows"]) for one in answers.values()]

    def first(self, hub: Party) -> Weights:
        """Weights drawn by chance, where all parties start from."""
        module = make(self.net_for(hub), hub.data.shape, task_of(hub).outputs, hub.rng)
        return {name: values.copy() for name, values in weights_of(module).items()}

    def net_for(self, party: Party) -> Net:
        """The net for a party's rows: the same for all, as their rows have the same columns."""
        return self.local().net or default_net(party.data.shape)


def check_exchanges(exchanges: int) -> None:
    """Refuse a number of exchanges below 1."""
    if exchanges < 1:
        raise ValueError(f"exchanges must be 1 or more, not {exchanges}")
