"""FedAvg: parties train one net on their own rows, the server averages, and so on.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017).
"""

from laconic.methods.families.averaged import Averaging


class FedAvg(Averaging, frozen=True):
    """The average of nets that parties train on their own rows; its settings are those of `Averaging`."""
