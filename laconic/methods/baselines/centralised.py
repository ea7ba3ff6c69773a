"""Centralised: all columns pooled at the label holder and one net trained on them. What federation should reach."""

from collections.abc import Iterator

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.supervised import fit_supervised, predict_supervised
from laconic.learn.nets.nets import Net, default_net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import Pooling, labelled
from laconic.values import Array


class Centralised(Pooling, frozen=True):
    """One net on everybody's columns.

    Attributes:
        net: its model; None takes a small net that suits the data.
        trainer: how it is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=100, patience=10)

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all columns and train on them."""
        pooled = self.pool(hub, peers, "train+valid")
        _, y = labelled(hub, "train")
        _, valid_y = labelled(hub, "valid")
        hub.memory["model"] = fit_supervised(
            self._net(pooled["train"]),
            task_of(hub),
            [pooled["train"]],
            y,
            self.trainer,
            hub.rng,
            valid=([pooled["valid"]], valid_y),
            what="pooled columns",
        )
        yield

    def fit_opening(self) -> Opening:
        """All columns of the rows to learn from."""
        return self.predict_opening("train+valid")

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Collect the columns of these rows and predict."""
        x = self.pool(hub, peers, rows)[rows]
        return predict_supervised(self._net(x), task_of(hub), hub.memory["model"], [x])

    def _net(self, x: Array) -> Net:
        return self.net or default_net(x.shape[1:])
