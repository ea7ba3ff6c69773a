"""From which confidence on a model's own guess is taken for a label: choices by value."""

from typing import TypeAlias

import torch
from torch import Tensor

from laconic.core.values import Settings


class Fixed(Settings, frozen=True):
    """One threshold for all classes and for all time.

    On a table of 78 % and 22 % a threshold of 0.95 takes one row in twenty, all of them of the common class.

    Attributes:
        level: the least probability.
    """

    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        _check_share("level", self.level)

    def watch(self, classes: int) -> "_Watch":
        """Cut-offs that never change."""
        return _Constant(self.level, classes)


class Adaptive(Settings, frozen=True):
    """Follows the model's mean confidence, and lies lower for classes that it guesses seldom.

    Wang and others: FreeMatch, Self-adaptive Thresholding for Semi-supervised Learning (2023).

    Attributes:
        momentum: how slowly the running means follow.
    """

    momentum: float = 0.99

    def __post_init__(self) -> None:
        """Refuse a momentum that never or at once forgets."""
        _check_share("momentum", self.momentum)

    def watch(self, classes: int) -> "_Watch":
        """Cut-offs that start at even chances."""
        return _Running(self.momentum, classes)


class Soft(Settings, frozen=True):
    """None: every guess counts, as the probability that it gives each class, and comes from the averaged weights.

    Tarvainen, Valpola: Mean teachers are better role models (2017). Right where a row does not tell its class, such as
    half a digit that may be of a 4 or a 9: it stays both, and what parties say of it can be added up.
    """

    def watch(self, classes: int) -> "_Watch":
        """No cut-offs for any number of classes."""
        return _Nothing()


AnyThreshold: TypeAlias = Fixed | Adaptive | Soft


class _Watch:
    """Cut-offs, one a class, that may follow what a model guesses.

    Attributes:
        averaged: whether the averaged weights make the guesses, or the weights of the moment.
    """

    cutoffs: Tensor
    averaged = False

    def see(self, guesses: Tensor) -> None:
        """Take note of a batch's probabilities."""

    def labels(self, guesses: Tensor) -> tuple[Tensor, Tensor]:
        """What is learnt from each row's probabilities, and how much each row counts."""
        confidence, labels = guesses.max(dim=1)
        return labels, (confidence >= self.cutoffs[labels]).float()


class _Nothing(_Watch):
    averaged = True

    def labels(self, guesses: Tensor) -> tuple[Tensor, Tensor]:
        return guesses, torch.ones(len(guesses))


class _Constant(_Watch):
    def __init__(self, level: float, classes: int) -> None:
        self.cutoffs = torch.full((classes,), level)


class _Running(_Watch):
    def __init__(self, momentum: float, classes: int) -> None:
        self._momentum = momentum
        self._confidence = torch.tensor(1 / classes)
        self._shares = torch.full((classes,), 1 / classes)
        self.cutoffs = self._shares

    def see(self, guesses: Tensor) -> None:
        self._confidence = torch.lerp(guesses.max(dim=1).values.mean(), self._confidence, self._momentum)
        self._shares = torch.lerp(guesses.mean(dim=0), self._shares, self._momentum)
        self.cutoffs = self._confidence * self._shares / self._shares.max()


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1, not {value}")
