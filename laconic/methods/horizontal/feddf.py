"""FedDF: FedAvg whose average then learns, on public rows, to say what all parties' nets say together.

Lin, Kong, Stich, Jaggi: Ensemble Distillation for Robust Model Fusion in Federated Learning (2020).
"""

from typing import ClassVar

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.learn.models.supervised import fit_to_shares
from laconic.learn.nets.nets import load, to_array, to_tensor
from laconic.learn.train.losses import agreed_scale, to_predictions
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.methods.families.averaged import Averaging
from laconic.values import Array, Weights


class FedDf(Averaging, frozen=True):
    """The average of parties' nets, taught on public rows by all of them together.

    Its other settings are those of `Averaging`.

    Attributes:
        distiller: how the server trains on public rows; no labels are needed.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "public")

    distiller: Sgd = Sgd(epochs=20, batch=64)

    def __post_init__(self) -> None:
        """Refuse to exchange nothing, and to teach with models of which only the sum is seen."""
        super().__post_init__()
        if self.sums is not None:
            raise ValueError(
                "FedDf lets each party's model teach, and under secure sums the server sees nothing but their sum; "
                "leave out sums, or use FedAvg"
            )

    def merge(self, hub: Party, models: list[Weights], shares: list[float]) -> Weights:
        """The average of all models, taught by all of them on the public rows."""
        # A party without rows sent back the last average, which knows nothing of its own.
        teachers = [model for model, rows in zip(models, shares, strict=True) if rows > 0]
        x = hub.data.part("public")[0]
        rows = x, self._taught(hub, teachers, x)
        start = self.average.combine(models, shares)
        return fit_to_shares(self.local.net_for(hub), task_of(hub), start, rows, self.distiller, hub.rng)

    def _taught(self, hub: Party, models: list[Weights], x: Array) -> Array:
        """The average of all nets' outputs, before they become probabilities or numbers, as such."""
        form = self.local.net_for(hub).build(hub.data.shape, task_of(hub).outputs)
        outputs = [to_array(evaluate(load(form, model), [to_tensor(x)])) for model in models]
        return to_predictions(task_of(hub), to_tensor(self.average.mean_outputs(outputs)), agreed_scale(task_of(hub)))
