"""FedProx: FedAvg in which every party is held back from straying far from the average.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks (2020).
"""

from laconic.methods.families.averaged import Averaging, Local


class FedProx(Averaging, frozen=True):
    """The average of nets that parties train on their own rows, held near the last average.

    Its other settings are those of `Averaging`.

    Attributes:
        mu: weight of half the squared distance from the last average; 0 is FedAvg.
    """

    mu: float = 0.01

    def __post_init__(self) -> None:
        """Refuse to exchange nothing and to push parties away."""
        super().__post_init__()
        if self.mu < 0:
            raise ValueError(f"mu must be 0 or more, not {self.mu}")

    @property
    def local(self) -> Local:
        """The loss of a party's own rows and the pull of the average."""
        return Local(self.net, self.trainer, pull=self.mu)
