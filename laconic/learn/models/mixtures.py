"""Mixtures of Gaussians that stand for rows: fitted to them, described in few numbers, and drawn from again."""

import warnings
from typing import Literal, TypeAlias

import numpy as np

from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights

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
