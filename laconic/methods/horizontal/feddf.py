"""FedDF: FedAvg whose average then learns, on public rows, to say what all parties' nets say together.

Lin, Kong, Stich, Jaggi: Ensemble Distillation for Robust Model Fusion in Federated Learning (2020).
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.values import Array, Weights
from laconic.learn.heads import to_predictions
from laconic.learn.local import fit_to_shares, mean_of
from laconic.learn.nets import Net, load, to_tensor
from laconic.learn.sgd import Sgd, evaluate
from laconic.methods.averaging import Averaging, Local, check_exchanges


class FedDf(Averaging, frozen=True):
    """The average of parties' nets, taught on public rows by all of them together.

    Attributes:
        net: the form of all nets; None takes a small net that suits the rows.
        trainer: how a party trains in each exchange.
        distiller: how the server trains on public rows; no labels are needed.
        exchanges: how often models go out and come back.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "public")

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=10, batch=32)
    distiller: Sgd = Sgd(epochs=20, batch=64)
    exchanges: int = 1

    def __post_init__(self) -> None:
        """Refuse to exchange nothing."""
        check_exchanges(self.exchanges)

    @property
    def rounds(self) -> int:
        """Models go out with the question and come back with the answer."""
        return self.exchanges

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Average, distil, and so on."""
        hub.memory["model"] = self.first(hub)
        for _ in range(self.exchanges):
            models, shares = self.collect(hub, peers)
            start = mean_of(models, shares)
            # A party without rows sent back the last average, which knows nothing of its own.
            teachers = [model for model, rows in zip(models, shares, strict=True) if rows > 0]
            public = hub.data.part("public")[0]
            rows = public, self._taught(hub, teachers, public)
            hub.memory["model"] = fit_to_shares(self.net_for(hub), task_of(hub), start, rows, self.distiller, hub.rng)
            yield

    def local(self) -> Local:
        """Nothing but the loss of a party's own rows."""
        return Local(self.net, self.trainer)

    def _taught(self, hub: Party, models: list[Weights], x: Array) -> Array:
        """The mean of all nets' outputs, before they become probabilities, as probabilities."""
        form = self.net_for(hub).build(hub.data.shape, task_of(hub).outputs)
        outputs = [evaluate(load(form, model), [to_tensor(x)]).numpy() for model in models]
        return to_predictions(task_of(hub), to_tensor(np.mean(outputs, axis=0)), {})
