"""How far a server goes towards the average of its parties' models: all the way, or by an optimiser of its own.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization (2021). What the average
differs by from the model that parties started from, `d`, is taken for a step against a gradient. With the paper's
letters, all for each weight alone:

    m = beta1 m + (1 - beta1) d
    v = beta2 v + (1 - beta2) d^2                  (Adam)
    v = v - (1 - beta2) d^2 sign(v - d^2)          (Yogi)
    model = model + lr m / (root(v) + tau)

with m = 0 and v = tau^2 before the first exchange, and no correction for that start, as there.
"""

from abc import abstractmethod
from typing import Any, TypeAlias

import numpy as np

from laconic.values import Array, Settings, Weights


class TakeAverage(Settings, frozen=True):
    """The average itself is the new model, as in FedAvg."""

    def advance(self, memory: dict[str, Any], model: Weights, average: Weights) -> Weights:
        """The average."""
        return average


class _Adaptive(Settings, frozen=True):
    """Abstract: steps whose length is set for each weight by how it changed before.

    Attributes:
        lr: how far a weight goes whose changes always point the same way.
        beta1: how much of the mean change is kept from exchange to exchange.
        beta2: how much of the mean squared change is kept.
        tau: changes that are small against this count as nearly nothing.
    """

    lr: float = 0.03
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse steps that lead nowhere or without end."""
        if not (self.lr > 0 and self.tau > 0):
            raise ValueError(f"lr and tau must be above 0, not {self.lr} and {self.tau}")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"beta1 and beta2 must be 0 or more and below 1, not {self.beta1} and {self.beta2}")

    def advance(self, memory: dict[str, Any], model: Weights, average: Weights) -> Weights:
        """The model after one step; `memory` keeps both means from one exchange to the next."""
        start = {
            "change": {name: np.zeros(values.shape) for name, values in model.items()},
            "square": {name: np.full(values.shape, self.tau**2) for name, values in model.items()},
        }
        kept, found = memory.get("server") or start, {}
        now: dict[str, Weights] = {"change": {}, "square": {}}
        for name, values in model.items():
            moved = average[name].astype(np.float64) - values
            mean = self.beta1 * kept["change"][name] + (1 - self.beta1) * moved
            square = self.mean_square(kept["square"][name], moved**2)
            now["change"][name], now["square"][name] = mean, square
            found[name] = (values + self.lr * mean / (np.sqrt(square) + self.tau)).astype(values.dtype)
        memory["server"] = now
        return found

    @abstractmethod
    def mean_square(self, before: Array, square: Array) -> Array:
        """The mean squared change with one more."""


class Adam(_Adaptive, frozen=True):
    """FedAdam: the mean squared change fades away exponentially."""

    def mean_square(self, before: Array, square: Array) -> Array:
        """As written above."""
        return self.beta2 * before + (1 - self.beta2) * square


class Yogi(_Adaptive, frozen=True):
    """FedYogi: the mean squared change goes up or down by a set share of the last one, so it falls slowly."""

    def mean_square(self, before: Array, square: Array) -> Array:
        """As written above."""
        return np.asarray(before - (1 - self.beta2) * square * np.sign(before - square))


AnyServerStep: TypeAlias = TakeAverage | Adam | Yogi
