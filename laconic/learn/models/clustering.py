"""What belongs together, found without labels: clusters of rows, mixtures that stand for them, and units of nets."""

import warnings
from typing import Literal, NamedTuple, TypeAlias
from warnings import catch_warnings, simplefilter

import numpy as np

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
        prior: variance of the common units around zero; biases are expected around 0.1, as in the published code.
        gamma: large for many common units, small for few.
        passes: how often each net is matched anew after the first time.
    """

    spread: float = 1.0
    prior: float = 1.0
    gamma: float = 1.0
    passes: int = 5

    def __post_init__(self) -> None:
        check_above_zero(spread=self.spread, prior=self.prior, gamma=self.gamma)
        check_least(0, passes=self.passes)

    def assign(self, nets: list["Units"], rng: Rng) -> list[Array]:
        """For each net, the common unit of each of its units."""
        places: list[Array] = [np.empty(0, dtype=np.int64) for _ in nets]
        turns = [np.argsort([-len(net.numbers) for net in nets], kind="stable")]
        turns += [rng.permutation(len(nets)) for _ in range(self.passes)]
        for turn in np.concatenate(turns):
            places[turn] = np.empty(0, dtype=np.int64)
            places = _without_gaps(places)
            places[turn] = self._place(nets[turn], *self._gather(nets, places), len(nets))
        return _without_gaps(places)

    def common(self, nets: list["Units"], places: list[Array]) -> Array:
        """The likeliest common units, given which unit is which."""
        sums, precisions, _ = self._gather(nets, places)
        return np.asarray(sums / precisions)

    def _place(self, net: "Units", sums: Array, precisions: Array, counts: Array, parties: int) -> Array:
        """The likeliest places of a net's units among the common ones, or among new ones behind them."""
        own, weight = net.numbers * (net.trust / self.spread), net.trust / self.spread
        with_unit = 1 / (precisions + weight)
        # Squares multiplied out, as a table of every unit beside every common one would be too large.
        known = own**2 @ with_unit.T + 2 * own @ (sums * with_unit).T + (sums**2 * with_unit).sum(axis=1)
        popular = np.minimum(counts, _POPULAR)
        known += np.log(popular / (parties - popular)) - (sums**2 / precisions).sum(axis=1)
        mean = net.mean / self.prior
        alone = ((own + mean) ** 2 / (1 / self.prior + weight)).sum(axis=1) - (mean**2 * self.prior).sum()
        added = min(len(own), max(_MOST_UNITS - len(sums), 1))
        added = max(added, len(own) - len(sums))
        new = alone[:, None] + 2 * np.log(self.gamma / parties) - 2 * np.log(np.arange(1, added + 1))
        from scipy.optimize import linear_sum_assignment

        return np.asarray(linear_sum_assignment(np.hstack([known, new]), maximize=True)[1])

    def _gather(self, nets: list["Units"], places: list[Array]) -> tuple[Array, Array, Array]:
        """Of each common unit: its numbers times their precision, summed with the prior; the precisions; its copies."""
        shape = _width(places), len(nets[0].mean)
        sums = np.tile(nets[0].mean / self.prior, (shape[0], 1))
        precisions, counts = np.full(shape, 1 / self.prior), np.zeros(shape[0])
        for net, at in zip(nets, places, strict=True):
            sums[at] += net.numbers[: len(at)] * (net.trust / self.spread)
            precisions[at] += net.trust / self.spread
            counts[at] += 1
        return sums, precisions, counts


_POPULAR, _MOST_UNITS = 10, 700
"""Limits of the published code: copies of a unit that count, and units of a layer."""

_BIAS = 0.1


class Units(NamedTuple):
    """The hidden units of one layer of one net, by numbers that say what they are.

    Attributes:
        numbers: shape (units, numbers): the bias, weights to the units above, and in the first layer those from inputs.
        trust: how much each number counts; for weights to a class, the party's share of the rows of that class.
        mean: what each number is expected to be.
    """

    numbers: Array
    trust: Array
    mean: Array


def match_nets(nets: list[Weights], counts: Array, matching: Matching, rng: Rng) -> Weights:
    """The net with every common unit once; its hidden layers may be wider than those of any given net.

    Args:
        nets: of one form, apart from their weights.
        counts: how many rows of each output's class each net has learnt from, shape (nets, outputs).
        matching: how units are matched.
        rng: randomness for the order in which nets are matched anew.
    """
    layers = [_layers(net) for net in nets]
    depth = len(layers[0])
    shares = counts / np.maximum(counts.sum(axis=0), 1e-12)
    above, weights, biases = [np.arange(counts.shape[1])] * len(nets), [np.empty(0)] * depth, [np.empty(0)] * depth
    biases[-1] = _output_bias([net[-1][1] for net in layers], shares, matching)
    for level in range(depth - 1, 0, -1):
        trust = shares if level == depth - 1 else np.ones((len(nets), _width(above)))
        units = [_units(net, level, at, own) for net, at, own in zip(layers, above, trust, strict=True)]
        below = matching.assign(units, rng)
        found, ends = matching.common(units, below), 1 + trust.shape[1]
        biases[level - 1], weights[level] = found[:, 0], found[:, 1:ends].T
        if level == 1:
            weights[0] = found[:, ends:]
        above = below
    names = [name.removesuffix(".weight") for name in nets[0] if name.endswith(".weight")]
    merged = zip(names, weights, biases, strict=True)
    return {
        f"{name}.{part}": values.astype(np.float32)
        for name, weight, bias in merged
        for part, values in (("weight", weight), ("bias", bias))
    }


def _output_bias(biases: list[Array], shares: Array, matching: Matching) -> Array:
    sums = (shares * np.array(biases)).sum(axis=0) / matching.spread + _BIAS / matching.prior
    return np.asarray(sums / (1 / matching.prior + shares.sum(axis=0) / matching.spread))


def _layers(net: Weights) -> list[Layer]:
    names = [name.removesuffix(".weight") for name in net if name.endswith(".weight")]
    return [(net[f"{name}.weight"].astype(np.float64), net[f"{name}.bias"].astype(np.float64)) for name in names]


def _units(net: list[Layer], level: int, above: Array, trust: Array) -> Units:
    """The units of a hidden layer; their weights stand in the places of the common units above."""
    weight, bias = net[level - 1]
    leads = np.zeros((len(bias), len(trust)))
    leads[:, above] = net[level][0].T
    numbers = np.hstack([bias[:, None], leads, *([weight] if level == 1 else [])])
    counted = np.ones(numbers.shape[1])
    counted[1 : 1 + len(trust)] = trust
    mean = np.zeros(numbers.shape[1])
    mean[0] = _BIAS
    return Units(numbers, counted, mean)


def _without_gaps(places: list[Array]) -> list[Array]:
    """The same places, numbered anew so that each is somebody's."""
    used = np.unique(np.concatenate(places))
    return [np.searchsorted(used, at) for at in places]


def _width(places: list[Array]) -> int:
    return int(max((at.max() + 1 for at in places if len(at)), default=0))


Covariance: TypeAlias = Literal["full", "diagonal", "spherical"]
_NAMES = {"full": "full", "diagonal": "diag", "spherical": "spherical"}
_FLOOR = 1e-4
"""Added to every variance, so that a component of equal rows can be drawn from."""


def fit_mixture(rows: Array, components: int, covariance: Covariance, rng: Rng) -> Weights:
    """A mixture fitted by expectation maximisation.

    Returns:
        `weights`, shape (components,); `means`, (components, features); `spreads`: lower triangles of covariances, row
        by row, (components, half), or variances, (components, features) or (components, 1).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    seed = int(rng.integers(2**31))
    # The library wants two rows at least; a row twice has no spread but the floor's, which is what one row has.
    rows = np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
    model = GaussianMixture(components, covariance_type=_NAMES[covariance], reg_covar=_FLOOR, random_state=seed)
    with limit_threads(), warnings.catch_warnings():
        # A mixture that has not settled after a hundred steps describes the rows all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.asarray(rows, dtype=np.float64))
    found = model.covariances_.reshape(components, -1) if covariance != "full" else _halves(model.covariances_)
    return {
        "weights": model.weights_.astype(np.float32),
        "means": model.means_.astype(np.float32),
        "spreads": found.astype(np.float32),
    }


def one_gaussian(mean: Array, covariance: Array) -> Weights:
    """A mixture of one Gaussian with a full covariance."""
    return {
        "weights": np.ones(1, np.float32),
        "means": mean[None].astype(np.float32),
        "spreads": _halves(covariance[None]).astype(np.float32),
    }


def spread_size(features: int, covariance: Covariance) -> int:
    """How many numbers say how one component spreads."""
    return {"full": features * (features + 1) // 2, "diagonal": features, "spherical": 1}[covariance]


def draw_rows(mixture: Weights, covariance: Covariance, count: int, rng: Rng) -> Array:
    """So many rows drawn from a mixture, float32."""
    shares = np.asarray(mixture["weights"], dtype=np.float64)
    features = mixture["means"].shape[1]
    counts = rng.multinomial(count, shares / shares.sum())
    drawn = [np.empty((0, features), np.float32)]
    for mean, spread, some in zip(mixture["means"], mixture["spreads"], counts, strict=True):
        noise = rng.standard_normal((int(some), features))
        full = covariance == "full"
        moved = noise @ _root(spread, features) if full else noise * np.sqrt(np.maximum(spread, 0.0))
        drawn.append((mean + moved).astype(np.float32))
    return np.concatenate(drawn)


def nearest_covariance(matrix: Array, least: float) -> Array:
    """The nearest covariance, after noise on it: directions with less variance than `least` get that much."""
    variances, turn = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((turn * np.maximum(variances, least)) @ turn.T)


def _halves(matrices: Array) -> Array:
    rows, columns = np.tril_indices(matrices.shape[1])
    return np.asarray(matrices[:, rows, columns])


def _root(half: Array, features: int) -> Array:
    """A matrix whose product with its transpose is the covariance, for rows of noise on its left."""
    whole = np.zeros((features, features))
    whole[np.tril_indices(features)] = half
    whole = whole + np.tril(whole, -1).T
    variances, turn = np.linalg.eigh(whole)
    return np.asarray(np.sqrt(variances.clip(min=0.0))[:, None] * turn.T)
