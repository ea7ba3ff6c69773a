"""Ways to make one model of many: the mean, and three that a single bad model cannot drag away.

Median and trimmed mean: Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning (2018). Krum:
Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries (2017). These three look at each party's
model by itself. Under secure sums the hub sees nothing but the sum, so that they are refused there.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from laconic.learn.models.supervised import mean_of
from laconic.values import Array, Settings, Weights, check_least


class Mean(Settings, frozen=True):
    """The mean of all models, weighted by rows: best if everybody is honest, and at the mercy of anyone who is not."""

    def combine(self, models: list[Weights], shares: list[float]) -> Weights:
        """One model from all; who has no rows counts for nothing."""
        return mean_of(models, shares)

    def mean_outputs(self, outputs: list[Array]) -> Array:
        """The same of what models say about the same rows, each counting the same."""
        return np.asarray(np.mean(outputs, axis=0))


class _Robust(Settings, frozen=True):
    """Abstract: every model counts the same, since how many rows a party has is only what it says."""

    def combine(self, models: list[Weights], shares: list[float]) -> Weights:
        """One model from all; who has no rows counts for nothing."""
        known = [model for model, share in zip(models, shares, strict=True) if share > 0]
        if not known:
            raise ValueError("no party has any rows to learn from; deal the rows anew")
        return self.pick(known)

    def mean_outputs(self, outputs: list[Array]) -> Array:
        """The same of what models say about the same rows."""
        return self.pick([{"": values} for values in outputs])[""]

    @abstractmethod
    def pick(self, models: list[Weights]) -> Weights:
        """One model from those that count."""


class Median(_Robust, frozen=True):
    """The middle value of each weight: bad models lose as long as they are fewer than half."""

    def pick(self, models: list[Weights]) -> Weights:
        """The median of each weight."""
        return _each_weight(models, lambda values: np.median(values, axis=0))


class TrimmedMean(_Robust, frozen=True):
    """The mean of each weight without its largest and smallest values.

    Attributes:
        bad: how many values are dropped at either end: as many as there may be bad parties.
    """

    bad: int = 1

    def __post_init__(self) -> None:
        """Refuse to drop nothing."""
        check_least(1, bad=self.bad)

    def pick(self, models: list[Weights]) -> Weights:
        """The mean of what is left of each weight."""
        _refuse_few(len(models), 2 * self.bad + 1, self.bad, "TrimmedMean")
        kept = slice(self.bad, len(models) - self.bad)
        return _each_weight(models, lambda values: np.sort(values, axis=0)[kept].mean(axis=0))


class Krum(_Robust, frozen=True):
    """The models that are nearest to their nearest neighbours, and the mean of these.

    It needs 3 models more than may be bad. The proof needs more: 2 x `bad` + 3.

    Attributes:
        bad: how many parties may be bad.
        keep: how many models are kept; 1 is Krum as published, more is Multi-Krum. None keeps all but `bad`.
    """

    bad: int = 1
    keep: int | None = None

    def __post_init__(self) -> None:
        """Refuse to keep nothing, and to suspect nobody."""
        check_least(1, bad=self.bad, keep=self.keep)

    def pick(self, models: list[Weights]) -> Weights:
        """The mean of the models kept."""
        _refuse_few(len(models), self.bad + 3, self.bad, "Krum")
        flat = np.stack([np.concatenate([model[name].ravel() for name in model]) for model in models])
        flat = flat.astype(np.float64)
        distances = np.array([np.square(flat - one).sum(axis=1) for one in flat])
        near = np.sort(distances, axis=1)[:, 1 : len(models) - self.bad - 1].sum(axis=1)
        keep = self.keep or len(models) - self.bad
        kept = [models[place] for place in sorted(np.argsort(near, kind="stable")[:keep])]
        return _each_weight(kept, lambda values: values.mean(axis=0))


AnyAverage: TypeAlias = Mean | Median | TrimmedMean | Krum


def _each_weight(models: list[Weights], middle: Callable[[Array], Array]) -> Weights:
    """One model, weight by weight, from the values that models have there."""
    return {
        name: middle(np.stack([model[name] for model in models]).astype(np.float64)).astype(values.dtype)
        for name, values in models[0].items()
    }


def _refuse_few(models: int, least: int, bad: int, name: str) -> None:
    if models < least:
        raise ValueError(
            f"{name}(bad={bad}) needs the models of {least} parties with rows, and there are {models}; use Median(), "
            "or find more parties"
        )
