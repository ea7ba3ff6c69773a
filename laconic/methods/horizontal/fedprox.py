"""FedProx: FedAvg in which every party is held back from straying far from the average.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks (2020).
"""

from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Averaging, Local, check_exchanges


class FedProx(Averaging, frozen=True):
    """The average of nets that parties train on their own rows, held near the last average.

    Attributes:
        net: the form of all nets; None takes a small net that suits the rows.
        trainer: how a party trains in each exchange.
        mu: weight of half the squared distance from the last average; 0 is FedAvg.
        exchanges: how often models go out and come back.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=10, batch=32)
    mu: float = 0.01
    exchanges: int = 1

    def __post_init__(self) -> None:
        """Refuse to exchange nothing and to push parties away."""
        check_exchanges(self.exchanges)
        if self.mu < 0:
            raise ValueError(f"mu must be 0 or more, not {self.mu}")

    @property
    def rounds(self) -> int:
        """Models go out with the question and come back with the answer."""
        return self.exchanges

    def local(self) -> Local:
        """The loss of a party's own rows and the pull of the average."""
        return Local(self.net, self.trainer, pull=self.mu)
