"""One net split over all parties, drawn at random and trained batch by batch: what SplitNN and its kin share."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import nn

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import step
from laconic.core.values import Array, Weights
from laconic.learn import heads
from laconic.learn.nets import Cnn, Joint, Mlp, Net, initialise, look_at, weights_of
from laconic.learn.sgd import Sgd
from laconic.methods.rows import labelled, rows_without_labels
from laconic.methods.splitting import Splitting


class SplitNet(Splitting, frozen=True):
    """Abstract: every party has the first layers of one net, the label holder the last.

    Attributes:
        net: each party's net; None takes one that suits its data.
        width: how many numbers each party's net puts out for a row.
        head: the label holder's own net and head; None takes one that suits its data.
        trainer: how all are trained; with patience, outputs for the validation rows are sent each epoch too.
    """

    net: Net | None = None
    width: int = 16
    head: Joint | None = None
    trainer: Sgd = Sgd(epochs=30, patience=5)

    def __post_init__(self) -> None:
        """Refuse a width below 1."""
        if self.width < 1:
            raise ValueError(f"width must be 1 or more, not {self.width}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Draw all weights, then train together."""
        if not peers.names:
            raise ValueError(f"there is no party beside {hub.name} to split a net with; use Solo for a party alone")
        peers.ask(self.begin)
        hub.memory["scale"] = heads.scale_of(task_of(hub), labelled(hub, "train")[1])
        hub.memory["model"] = _first_weights(self.top(hub, self.width * len(peers.names)), hub)
        yield from self.train_together(hub, peers)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the rows through everybody's net, then through the head."""
        return self.outputs_for(hub, peers, rows)

    @step(takes=None, gives=None)
    def begin(self, party: Party) -> None:
        """Draw the first weights, known to this party alone."""
        party.memory["net"] = _first_weights(self.bottom(party), party)

    def bottom(self, party: Party) -> nn.Module:
        """A peer's layers."""
        return (self.net or _default_net(party.data.shape)).build(party.data.shape, self.width)

    def top(self, hub: Party, width: int) -> nn.Module:
        """The label holder's layers."""
        shapes: list[Any] = [hub.data.shape, (width,)] if hub.data.columns else [(width,)]
        own = self.net or _default_net(hub.data.shape) if hub.data.columns else None
        return (self.head or Joint(own=own, width=self.width, head=Mlp())).model(shapes, task_of(hub).outputs)

    def together(self) -> Sgd:
        """All nets are trained alike."""
        return self.trainer


def _first_weights(module: nn.Module, party: Party) -> Weights:
    """Drawn at random, or found among the party's rows where a layer looks for them there."""
    return weights_of(look_at(initialise(module, party.rng), partial(rows_without_labels, party), party.rng))


def _default_net(shape: tuple[int, ...]) -> Net:
    # A ReLU at the cut and a hidden layer on both sides of it: with a linear cut, or none behind it, columns of
    # different parties cannot be weighed against each other.
    return Cnn(final="relu") if len(shape) == 3 else Mlp(hidden=(64,), final="relu")
