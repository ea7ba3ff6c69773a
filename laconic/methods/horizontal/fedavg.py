"""FedAvg: parties train one net on their own rows, the server averages, and so on; FedAdam and FedYogi step instead.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017). Reddi and others: Adaptive Federated Optimization (2021).
"""

from laconic.learn.models.aggregation import Adam, AnyServerStep, Yogi
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Averaging
from laconic.privacy.private_sgd import DpSgd


class FedAvg(Averaging, frozen=True):
    """The average of nets that parties train on their own rows; its settings are those of `Averaging`."""


class FedAdam(Averaging, frozen=True):
    """FedAvg whose server takes Adam steps towards the average; its settings are those of `Averaging`."""

    trainer: Sgd | DpSgd = Sgd(epochs=2, batch=32)
    exchanges: int = 20
    update: AnyServerStep = Adam()


class FedYogi(Averaging, frozen=True):
    """FedAvg whose server takes Yogi steps towards the average; its settings are those of `Averaging`."""

    trainer: Sgd | DpSgd = Sgd(epochs=2, batch=32)
    exchanges: int = 20
    update: AnyServerStep = Yogi()
