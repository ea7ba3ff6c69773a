"""Ways to make one model of many: an average, a step of the server's own towards it, or votes on public rows.

**Averages.** Median and trimmed mean: Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning (2018).
Krum: Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries (2017). These three look at each
party's model by itself, so that a single bad one cannot drag the result away. Under secure sums the hub sees nothing
but the sum, so that they are refused there.

**Steps of the server.** Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization
(2021). What the average differs by from the model that parties started from, `d`, is taken for a step against a
gradient. With the paper's letters, all for each weight alone:

    m = beta1 m + (1 - beta1) d
    v = beta2 v + (1 - beta2) d^2                  (Adam)
    v = v - (1 - beta2) d^2 sign(v - d^2)          (Yogi)
    model = model + lr m / (root(v) + tau)

with m = 0 and v = tau^2 before the first exchange, and no correction for that start, as there.

**Votes** are counted as FedKT counts them (Li, He, Song 2021): a group of models counts for a row only where all agree.
Two things are ours. `cut_at_shares` lets classes win as often as they come, which plain majorities miss where most
voters hold few rows of a class. `smooth_votes` learns from noisy counts themselves instead of from who seems to have
won, so that the noise on many rows averages out; both use nothing but counts and public rows.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from laconic.learn.models.supervised import mean_of
from laconic.values import Array, Rng, Settings, Weights, check_least, flat


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


_SWEEPS = 20
_PENALTIES = np.logspace(-3, 6, 55)


def count_votes(votes: Array, classes: int) -> Array:
    """How many models say each class of each row, from class codes of shape (models, rows)."""
    return np.asarray((votes[:, :, None] == np.arange(classes)).sum(axis=0))


def count_consistent(groups: list[Array], classes: int, weights: Array | None = None) -> Array:
    """As `count_votes` over groups of models, but a group counts for a row only if all its models agree on it.

    An agreeing group gives as many votes as it has models, or as `weights` says for each group.
    """
    counts = np.zeros((groups[0].shape[1], classes), dtype=np.int64 if weights is None else np.float64)
    for place, votes in enumerate(groups):
        agreed = np.flatnonzero((votes == votes[:1]).all(axis=0))
        counts[agreed, votes[0, agreed]] += len(votes) if weights is None else weights[place]
    return counts


def fall_back(counts: Array, groups: list[Array]) -> Array:
    """Counts in which rows that nobody agreed on get the plain votes of all models.

    Where those are equal too, the class that is commoner in all votes on all rows comes first.
    """
    plain = count_votes(np.concatenate(groups), counts.shape[1])
    commonness = plain.sum(axis=0) / (plain.sum() + 1.0)
    return np.where(counts.sum(axis=1, keepdims=True) == 0, plain + commonness, counts)


def winners(counts: Array, rng: Rng) -> Array:
    """The class with the most votes of each row; equal ones are drawn from, not decided by their order."""
    ties = rng.random(counts.shape)
    return np.asarray(np.where(counts == counts.max(axis=1, keepdims=True), ties, -1.0).argmax(axis=1))


def cut_at_shares(scores: Array, shares: Array, rng: Rng) -> Array:
    """A class per row, so that each comes as often as `shares` says: those rows that lead most get it.

    Every class gets a handicap, the same for all rows. With two classes the shares are kept to a row; with more, the
    handicaps are set in turn until they hold nearly.

    Args:
        scores: for example votes, shape (rows, classes); equal ones are drawn from.
        shares: how often each class should come; they add up to 1.
        rng: for rows that are equal.
    """
    spread = max(float(np.ptp(scores)), 1e-12)
    scores = scores + 1e-6 * spread * rng.random(scores.shape)
    wanted = np.round(shares / np.sum(shares) * len(scores)).astype(np.int64)
    handicap = np.zeros(len(shares))
    for _ in range(_SWEEPS):
        for one, count in enumerate(wanted):
            others = np.delete(scores + handicap, one, axis=1).max(axis=1)
            lead = np.sort(scores[:, one] - others)[::-1]
            edges = np.concatenate([[lead[0] + spread], lead, [lead[-1] - spread]])
            handicap[one] = -(edges[count] + edges[count + 1]) / 2
    return np.asarray((scores + handicap).argmax(axis=1))


def smooth_votes(counts: Array, asked: Array, rows: Array, noise: float) -> Array:
    """What a ridge regression of noisy counts on columns says of all rows, shape (rows, classes).

    Its penalty has the least squared error that can be expected under noise of this size (Mallows 1973).

    Args:
        counts: noisy, shape (rows asked about, classes).
        asked: the prepared columns of the rows asked about.
        rows: the prepared columns of the rows to be labelled.
        noise: the standard deviation of the noise on each count.
    """
    x, everything = flat(asked).astype(np.float64), flat(rows).astype(np.float64)
    centre, level = x.mean(axis=0), counts.mean(axis=0)
    left, lengths, right = np.linalg.svd(x - centre, full_matrices=False)
    turned = left.T @ (counts - level)
    kept = lengths[:, None] ** 2 / (lengths[:, None] ** 2 + _PENALTIES)
    errors = [(((1 - one[:, None]) * turned) ** 2).sum() + 2 * turned.shape[1] * noise**2 * one.sum() for one in kept.T]
    best = _PENALTIES[int(np.argmin(errors))]
    coefficients = right.T @ (turned * (lengths / (lengths**2 + best))[:, None])
    return np.asarray((everything - centre) @ coefficients + level)
