"""FedAvg: parties train one net on their own rows, the server averages, and so on.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017).
"""

from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.averaged import Averaging, Local, check_exchanges


class FedAvg(Averaging, frozen=True):
    """The average of nets that parties train on their own rows.

    Attributes:
        net: the form of all nets; None takes a small net that suits the rows.
        trainer: how a party trains in each exchange.
        exchanges: how often models go out and come back.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=10, batch=32)
    exchanges: int = 1

    def __post_init__(self) -> None:
        """Refuse to exchange nothing."""
        check_exchanges(self.exchanges)

    @property
    def rounds(self) -> int:
        """Models go out with the question and come back with the answer."""
        return self.exchanges

    def local(self) -> Local:
        """Nothing but the loss of a party's own rows."""
        return Local(self.net, self.trainer)
