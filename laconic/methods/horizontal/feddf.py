"""FedDF: FedAvg whose average then learns, on public rows, to say what all parties' nets say together.

Lin, Kong, Stich, Jaggi: Ensemble Distillation for Robust Model Fusion in Federated Learning (2020).
"""

from typing import ClassVar

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.learn.models.supervised import fit_to_shares, mean_of
from laconic.learn.nets.nets import Net, load, to_array, to_tensor
from laconic.learn.train.losses import to_predictions
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.methods.families.averaged import Averaging, Local, check_exchanges
from laconic.values import Array, Weights


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

    def merge(self, hub: Party, models: list[Weights], shares: list[float]) -> Weights:
        """The mean of all models, taught by all of them on the public rows."""
        # A party without rows sent back the last average, which knows nothing of its own.
        teachers = [model for model, rows in zip(models, shares, strict=True) if rows > 0]
        x = hub.data.part("public")[0]
        rows = x, self._taught(hub, teachers, x)
        start = mean_of(models, shares)
        return fit_to_shares(self.net_for(hub), task_of(hub), start, rows, self.distiller, hub.rng)

    def local(self) -> Local:
        """Nothing but the loss of a party's own rows."""
        return Local(self.net, self.trainer)

    def _taught(self, hub: Party, models: list[Weights], x: Array) -> Array:
        """The mean of all nets' outputs, before they become probabilities, as probabilities."""
        form = self.net_for(hub).build(hub.data.shape, task_of(hub).outputs)
        outputs = [to_array(evaluate(load(form, model), [to_tensor(x)])) for model in models]
        return to_predictions(task_of(hub), to_tensor(np.mean(outputs, axis=0)), {})
