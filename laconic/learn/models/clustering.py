"""Rows put into clusters, and units of nets matched with each other: what belongs together, found without labels."""

from itertools import pairwise
from typing import TypeAlias
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy.optimize import linear_sum_assignment

from laconic.threads import limit_threads
from laconic.values import Array, Rng, Settings, Weights, check_above_zero, check_least


def cluster(rows: Array, count: int, rng: Rng, *, normalise: bool = True, restarts: int = 10) -> Array:
    """Put each row into one of `count` clusters by k-means, numbered from 0 in no special order.

    Args:
        rows: shape (rows, numbers).
        count: how many clusters; fewer come out if there are fewer different rows.
        rng: randomness for the starting points.
        normalise: give every row length 1 first, so that direction alone counts. Gradients need this: those of rows
            that a model already gets right point where they should, but are short.
        restarts: how many starts to try; the tightest result is kept.
    """
    if count < 1:
        raise ValueError(f"count must be 1 cluster or more, not {count}")
    from sklearn.cluster import KMeans

    points = np.asarray(rows, dtype=np.float64)
    if normalise:
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-30)
    seed = int(rng.integers(2**31))
    means = KMeans(min(count, len(points)), n_init=restarts, max_iter=100, tol=0.0, random_state=seed)
    with limit_threads(), catch_warnings():
        simplefilter("ignore")  # It warns of fewer different rows than clusters, which is no trouble here.
        return np.asarray(means.fit_predict(points))


def purity(clusters: Array, labels: Array) -> float:
    """The share of rows whose label is the commonest one of their cluster."""
    right = [np.bincount(labels[clusters == one].astype(int)).max() for one in np.unique(clusters)]
    return float(sum(right) / len(labels))


Layer: TypeAlias = tuple[Array, Array]
"""Weights, shape (outputs, inputs), and biases."""


class Matching(Settings, frozen=True):
    """How units are matched.

    Attributes:
        spread: variance of a net's unit around the common unit.
        prior: variance of the common units around zero.
        gamma: large for many common units, small for few.
        passes: how often each net is matched anew after the first time.
    """

    spread: float = 1.0
    prior: float = 1.0
    gamma: float = 1.0
    passes: int = 3

    def __post_init__(self) -> None:
        check_above_zero(spread=self.spread, prior=self.prior, gamma=self.gamma)
        check_least(0, passes=self.passes)

    def assign(self, nets: list[Array], rng: Rng) -> list[Array]:
        """For each net, the common unit of each of its units, which are rows of numbers that say what they are."""
        places: list[Array] = [np.empty(0, dtype=np.int64) for _ in nets]
        turns = [np.argsort([-len(units) for units in nets], kind="stable")]
        turns += [rng.permutation(len(nets)) for _ in range(self.passes)]
        for turn in np.concatenate(turns):
            places[turn] = np.empty(0, dtype=np.int64)
            places = _without_gaps(places)
            sums, counts = _gather(nets, places)
            places[turn] = self._place(nets[turn], sums, counts, len(nets))
        return _without_gaps(places)

    def _place(self, units: Array, sums: Array, counts: Array, parties: int) -> Array:
        """The likeliest places of a net's units among the common ones, or among new ones behind them."""
        inner, outer = 1 / self.spread, 1 / self.prior
        before = (inner * sums) ** 2 / (outer + inner * counts)[:, None]
        with_unit = (inner * (units[:, None] + sums[None])) ** 2 / (outer + inner * (counts + 1))[None, :, None]
        known = with_unit.sum(axis=2) - before.sum(axis=1)[None] + np.log(counts / (parties - counts))[None]
        alone = ((inner * units) ** 2).sum(axis=1, keepdims=True) / (outer + inner) + 2 * np.log(self.gamma / parties)
        new = alone - 2 * np.log(np.arange(1, len(units) + 1))[None]
        return np.asarray(linear_sum_assignment(np.hstack([known, new]), maximize=True)[1])


def match_nets(nets: list[Weights], matching: Matching, rng: Rng) -> Weights:
    """The net with every common unit once; its hidden layers may be wider than those of any given net."""
    layers = [_layers(net) for net in nets]
    depth = len(layers[0])
    places: list[list[Array]] = [[] for _ in range(depth + 1)]
    places[0] = [np.arange(net[0][0].shape[1]) for net in layers]
    places[depth] = [np.arange(len(net[-1][1])) for net in layers]
    for level in range(depth - 1, 0, -1):
        units = [_units(net, level, places[level + 1][i], _width(places[level + 1])) for i, net in enumerate(layers)]
        places[level] = matching.assign(units, rng)
    names = [name.removesuffix(".weight") for name in nets[0] if name.endswith(".weight")]
    found: Weights = {}
    for name, (level, _) in zip(names, pairwise(range(depth + 1)), strict=True):
        each = [net[level] for net in layers]
        weight, bias = _merge(each, places[level + 1], places[level], matching.spread / matching.prior)
        found |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return found


def _layers(net: Weights) -> list[Layer]:
    names = [name.removesuffix(".weight") for name in net if name.endswith(".weight")]
    return [(net[f"{name}.weight"].astype(np.float64), net[f"{name}.bias"].astype(np.float64)) for name in names]


def _units(net: list[Layer], level: int, above: Array, width: int) -> Array:
    """A unit is its bias, its weights towards the common units above and, in the first layer, its own inputs."""
    weight, bias = net[level - 1]
    leads = np.zeros((len(bias), width))
    leads[:, above] = net[level][0].T
    return np.hstack([bias[:, None], leads, *([weight] if level == 1 else [])])


def _gather(nets: list[Array], places: list[Array]) -> tuple[Array, Array]:
    """The sum of the units at each common place, and how many there are."""
    width = _width(places)
    sums, counts = np.zeros((width, nets[0].shape[1])), np.zeros(width)
    for units, at in zip(nets, places, strict=True):
        sums[at] += units[: len(at)]
        counts[at] += 1
    return sums, counts


def _merge(layers: list[Layer], above: list[Array], below: list[Array], shrink: float) -> Layer:
    """The mean over the nets that have both ends of a weight, drawn towards zero as the prior wants it."""
    sums, counts = np.zeros((2, _width(above), _width(below)))
    biases, owners = np.zeros((2, _width(above)))
    for (weight, bias), rows, columns in zip(layers, above, below, strict=True):
        sums[np.ix_(rows, columns)] += weight
        counts[np.ix_(rows, columns)] += 1
        biases[rows] += bias
        owners[rows] += 1
    return (sums / (counts + shrink)).astype(np.float32), (biases / (owners + shrink)).astype(np.float32)


def _without_gaps(places: list[Array]) -> list[Array]:
    """The same places, numbered anew so that each is somebody's."""
    used = np.unique(np.concatenate(places))
    return [np.searchsorted(used, at) for at in places]


def _width(places: list[Array]) -> int:
    return int(max((at.max() + 1 for at in places if len(at)), default=0))
