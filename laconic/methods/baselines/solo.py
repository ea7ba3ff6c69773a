"""Solo: the label holder learns from its own columns and asks nobody. What every federation has to beat."""

from collections.abc import Iterator

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.supervised import fit_supervised, predict_supervised
from laconic.learn.nets.nets import Net, default_net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled
from laconic.values import Array


class Solo(Method, frozen=True):
    """The label holder alone, on its own columns.

    Attributes:
        net: its model; None takes a small net that suits the data.
        trainer: how it is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=100, patience=10)

    rounds = 0  # Nobody is asked.

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Train on the hub's own columns."""
        if not hub.data.columns:
            raise ValueError(f"{hub.name} has labels but no columns of its own, so it cannot learn alone")
        x, y = labelled(hub, "train")
        valid_x, valid_y = labelled(hub, "valid")
        hub.memory["model"] = fit_supervised(
            self._net(hub), task_of(hub), [x], y, self.trainer, hub.rng, valid=([valid_x], valid_y), what="label holder"
        )
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Predict from the hub's own columns."""
        return predict_supervised(self._net(hub), task_of(hub), hub.memory["model"], [hub.data.part(rows)[0]])

    def fit_opening(self) -> Opening:
        """Nobody is asked."""
        return Opening(then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked."""
        return Opening(then="ends")

    def _net(self, hub: Party) -> Net:
        return self.net or default_net(hub.data.shape)
