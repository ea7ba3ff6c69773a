"""What the FedKT paper claims: its Tables 1 to 3, and what its private runs were."""

from typing import NamedTuple

PAPER_1 = {
    "Adult": {"FedKt": "82.2 ± 0.6", "SoloRows": "68.6", "Pate": "83.5"},
    "cod-rna": {"FedKt": "88.3 ± 0.6", "SoloRows": "65.0", "Pate": "91.1", "PooledRows": "91.2"},
    "MNIST": {"FedKt": "90.5 ± 0.3", "SoloRows": "69.0", "Pate": "92.7", "FedAvg": "62.8", "FedProx": "44.3"}
    | {"Scaffold": "51.7", "FedDf": "83.8", "Pfnm": "65.9"},
    "Fashion-MNIST": {},
}


class Private(NamedTuple):
    """A line of Table 2.

    Attributes:
        share: of the held-out quarter, public and test rows together: so the published experiments count it, and only
            so do the paper's epsilons at L2 come out (`tests/privacy/mechanisms/test_votes.py`).
        epsilon, accuracy: what the paper says.
        shards: partitions and teachers to try. The paper's L2 prices are those of one partition, and its accuracy
            without noise differs from that of L0, so it was not two times five there; it does not say what it was.
    """

    level: str
    gamma: float
    share: float
    epsilon: str
    accuracy: str
    shards: tuple[tuple[int, int], ...] = ((2, 5),)

    @property
    def queries(self) -> float:
        """The same rows as a share of the public ones, which are half of those held out."""
        return 2 * self.share


_MANY = ((2, 5), (1, 25))
NOISES = {
    "Adult": [
        Private("L1", 0.04, 0.005, "2.56", "76.8"),
        Private("L1", 0.04, 0.01, "4.73", "80.2"),
        Private("L2", 0.04, 0.005, "2.59", "77.6", _MANY),
        Private("L2", 0.04, 0.01, "3.72", "78.6", _MANY),
    ],
    "cod-rna": [
        Private("L1", 0.06, 0.005, "5.48", "82.6"),
        Private("L1", 0.1, 0.005, "6.89", "84.7"),
        Private("L2", 0.05, 0.01, "4.51", "82.7", _MANY),
        Private("L2", 0.05, 0.02, "9.78", "84.7", _MANY),
    ],
}
BUDGETS = {
    "Adult": (("L1", 2.05), ("L1", 4.18), ("L2", 1.38), ("L2", 3.72)),
    "cod-rna": (("L1", 4.18), ("L1", 6.89), ("L2", 4.51)),
}
"""Levels and epsilons that a budget is set to: those of the lines above, or less."""
CUT = "FedKt, votes cut at shares"
"""What our own way to count is called in the tables."""
LONGER = "FedKt, votes cut at shares, longer training"
"""The same with nets trained for as long as validation rows asked."""
PAPER_3 = {
    "Adult": ("82.1", "82.1", "82.1", "82.3", "82.2"),
    "cod-rna": ("87.3", "87.6", "87.8", "87.8", "88.3"),
    "MNIST": ("89.3", "89.7", "90.2", "90.3", "90.5"),
}
PORTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)
CURVE = 12
"""How many exchanges the curve has."""
