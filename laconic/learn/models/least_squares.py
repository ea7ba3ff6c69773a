"""Least squares from sums: what a linear model needs of its rows, added up, taken away, and solved.

For features `phi` and targets `t`, with `u = (phi, 1)`, the sums of `u u'` and `u t'` over all rows are all that ridge
regression needs. Sums of disjoint groups of rows add up to those of all rows, so a model made from them is the model of
all rows together, however the rows are parted; and rows leave by taking their sums away.
"""

from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np

from laconic.tables.task import Task
from laconic.values import Array

_BLOCK = 4096
_PENALTIES = 10.0 ** np.arange(-6.0, 1.01, 0.25)
_FREE = 0.9
"""The most degrees of freedom that a fit may use, as a share of the rows: beyond it cross-validation says nothing."""

LEAST_SINGLE = 10**-4.5
"""The least penalty for sums that were rounded to float32.

Below about this, directions in which features hardly vary are rounding alone: residuals worked out from the sums come
out too small there, and cross-validation would choose a fit that misses other rows.
"""


_DRAWS = 1000


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over some rows.

    Attributes:
        gram: of `u u'`, where u is a row's features and a 1; the upper triangle row by row, shape (half,).
        moments: of `u t'`, shape (features + 1, targets).
        squares: of all targets' squares.
        rows: how many rows there are.
    """

    gram: Array
    moments: Array
    squares: float
    rows: int


class Fit(NamedTuple):
    """A linear model, and what it was found with.

    Attributes:
        coefficients: shape (features, targets).
        intercept: shape (targets,).
        penalty: weight of the squared coefficients of standardised features, for one row.
        freedom: how many free coefficients that amounts to.
        error: mean squared error to be expected on other rows, by generalised cross-validation; all targets together.
    """

    coefficients: Array
    intercept: Array
    penalty: float
    freedom: float
    error: float


def sum_up(features: Array, targets: Array, weights: Array | None = None, *, exact: bool = False) -> Sums:
    """The sums over these rows.

    Args:
        features: shape (rows, features).
        targets: shape (rows, targets).
        weights: how much each row counts; None for 1 each.
        exact: multiply in float64 instead of float32, in twice the time. Blocks are added up in float64 either way.
    """
    kind = np.float64 if exact else np.float32
    width = features.shape[1] + 1
    gram, moments, squares = np.zeros((width, width)), np.zeros((width, targets.shape[1])), 0.0
    for start in range(0, len(features), _BLOCK):
        at = slice(start, start + _BLOCK)
        root = np.ones((len(features[at]), 1)) if weights is None else np.sqrt(weights[at])[:, None]
        block: Array = np.concatenate([features[at] * root.astype(kind), root], axis=1).astype(kind, copy=False)
        aims = (targets[at] * root).astype(np.float64)
        gram += block.T @ block
        moments += block.T @ aims.astype(kind)
        squares += float((aims**2).sum())
    return Sums(gram=pack(gram), moments=moments, squares=squares, rows=len(features))


def add_sums(*parts: Sums) -> Sums:
    """The sums of all these groups of rows together, in float64."""
    return Sums(
        gram=np.asarray(np.sum([one.gram for one in parts], axis=0, dtype=np.float64)),
        moments=np.asarray(np.sum([one.moments for one in parts], axis=0, dtype=np.float64)),
        squares=sum(one.squares for one in parts),
        rows=sum(one.rows for one in parts),
    )


def subtract_sums(whole: Sums, part: Sums) -> Sums:
    """The sums without these rows: what is left is the model that never saw them."""
    if part.rows > whole.rows:
        raise ValueError(f"{part.rows} rows cannot be taken away from {whole.rows}")
    return Sums(
        gram=whole.gram.astype(np.float64) - part.gram,
        moments=whole.moments.astype(np.float64) - part.moments,
        squares=whole.squares - part.squares,
        rows=whole.rows - part.rows,
    )


def pack(matrix: Array) -> Array:
    """The upper triangle of a symmetric matrix, row by row: all that need be sent of it."""
    return np.concatenate([matrix[place, place:] for place in range(len(matrix))])


def unpack(half: Array) -> Array:
    """The symmetric matrix of which this is the upper triangle, float64."""
    width = width_of(len(half))
    matrix = np.empty((width, width))
    start = 0
    for place in range(width):
        end = start + width - place
        matrix[place, place:] = matrix[place:, place] = half[start:end]
        start = end
    return matrix


def width_of(half: int) -> int:
    """The side of a symmetric matrix whose upper triangle has so many numbers."""
    return round((sqrt(8 * half + 1) - 1) / 2)


def solve(sums: Sums, penalty: float | None = None, least: float = 0.0) -> Fit:
    """Ridge regression on standardised features with a free intercept.

    The penalty is chosen by generalised cross-validation (Golub, Heath, Wahba 1979), which needs nothing but the sums:
    `rows * residuals / (rows - freedom)^2`, where the residuals follow from both sums and the targets' squares.

    Args:
        sums: over all rows.
        penalty: as in `Fit`; None to choose it.
        least: the smallest that is chosen, such as `LEAST_SINGLE`.
    """
    gram = unpack(sums.gram)
    weight, mean = gram[-1, -1], gram[:-1, -1] / gram[-1, -1]
    aim = sums.moments[-1].astype(np.float64) / weight
    spread = np.sqrt(np.maximum(np.diag(gram)[:-1] / weight - mean**2, 0.0))
    # A feature that never varies, but for rounding, gets no coefficient.
    scale = np.where(spread > 1e-4 * np.abs(mean) + 1e-12, spread, np.inf)
    within = (gram[:-1, :-1] / weight - np.outer(mean, mean)) / scale[:, None] / scale
    towards = (sums.moments[:-1] / weight - np.outer(mean, aim)) / scale[:, None]
    spare = max(sums.squares / weight - float(aim @ aim), 0.0)
    strengths, turn = np.linalg.eigh(within)
    strengths, along = strengths.clip(min=0.0), turn.T @ towards
    candidates = _PENALTIES[0.99 * least < _PENALTIES] if penalty is None else (penalty,)
    tried = [_try(one, strengths, along, spare, sums.rows) for one in candidates]
    error, freedom, chosen = min(tried)
    coefficients = turn @ (along / (strengths + chosen)[:, None]) / scale[:, None]
    return Fit(coefficients, aim - mean @ coefficients, float(chosen), freedom, error)


def _try(penalty: float, strengths: Array, along: Array, spare: float, rows: int) -> tuple[float, float, float]:
    """The error by generalised cross-validation, the degrees of freedom, and the penalty itself."""
    freedom = float((strengths / (strengths + penalty)).sum()) + 1
    held = along**2 / (strengths + penalty)[:, None]
    residuals = max(spare - float((held * (1 + penalty / (strengths + penalty))[:, None]).sum()), 0.0)
    if freedom > _FREE * rows:
        return np.inf, freedom, penalty
    return residuals / (1 - freedom / rows) ** 2, freedom, penalty


class NoisyFit(NamedTuple):
    """A linear model from noisy sums, and by how much it fits their noise.

    Attributes:
        coefficients: shape (features with the constant, targets).
        spread: what to add to the sums of products of its scores, `W'GW`, for they are too small by it.
        moment: what to take off each target's sum of products with its own score, `W'M`, for it is too great by it.
    """

    coefficients: Array
    spread: Array
    moment: float


def solve_noisy(gram: Array, moments: Array, rows: float, noise: tuple[float, float]) -> NoisyFit:
    """Ridge regression from sums with known noise on them, the penalty chosen with that noise in mind.

    With `A = (G + penalty)^-1` and `W = A M` for noisy sums G and M, the error on the true sums is, but for a constant,
    `tr(W'(G - E)W) - 2 tr(W'(M - F))`. By Stein's lemma the noises E and F enter its mean only by
    `E tr(W'EW) = -e^2 (tr(W'AW) + tr(A) |W|^2)` and `E tr(W'F) = f^2 k tr(A)`, for k targets, so the penalty with the
    least error can be found from the noisy sums alone. To it comes what other rows would add: twice the residual
    variance for each degree of freedom.

    Args:
        gram: noisy sum of `u u'`, symmetric.
        moments: noisy sum of `u t'`, for targets whose squares sum to 1 in each row.
        rows: about how many rows there are.
        noise: standard deviations on the diagonal of `gram` (by the root of 2 less beside it), and on `moments`.
    """
    on_gram, on_moments = noise
    strengths, turn = np.linalg.eigh(gram)
    along, targets = turn.T @ moments, moments.shape[1]
    # Below about the edge of Wigner's semicircle, directions are noise, and their inverse without bound.
    edge = on_gram * sqrt(2 * len(gram))
    least = max(0.5 * edge, 1.01 * max(-float(strengths[0]), 0.0) + 0.02 * edge, 1e-6 * rows)
    tried = []
    for penalty in least * 2.0 ** np.arange(0, 8.1, 0.25):
        inverse = 1 / (strengths + penalty)
        found = inverse[:, None] * along
        spread = on_gram**2 * ((found * inverse[:, None]).T @ found + inverse.sum() * found.T @ found)
        moment = on_moments**2 * float(inverse.sum())
        fitted = float((strengths[:, None] * found**2).sum() - 2 * (found * along).sum())
        error = fitted + float(np.trace(spread)) + 2 * targets * moment
        # A residual variance of nothing, by a lucky draw of noise, would make every further feature free.
        error += 2 * max(1 + fitted / rows, 0.05) * float(np.maximum(strengths, 0) @ inverse)
        tried.append((error, NoisyFit(turn @ found, spread, moment)))
    return min(tried, key=lambda one: one[0])[1]


def sharpness(means: Array, within: Array, shares: Array) -> float:
    """The one factor that turns least-squares scores into probabilities: `softmax(factor * scores)`.

    Scores of a class are taken to lie around its mean score as Student's t with 4 degrees of freedom does: rows far off
    are commoner than among normal scores, by which the model would be too sure of itself. Mean, covariance and class
    shares all follow from the sums. The factor with the least log loss is searched for on draws of such scores.

    Args:
        means: the mean scores of each class, shape (classes, scores); one score for two classes.
        within: the covariance of scores within classes, (scores, scores).
        shares: each class's share of the rows.
    """
    from scipy.special import logsumexp

    variances, turn = np.linalg.eigh((within + within.T) / 2)
    root = turn * np.sqrt(variances.clip(min=1e-12))
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((_DRAWS, means.shape[1])) @ root.T
    # Of variance 1 as the normal draws are: (4 - 2) / chi squared.
    scores = means[:, None, :] + drawn * np.sqrt(2 / rng.chisquare(4, size=(_DRAWS, 1)))

    def loss(logarithm: float) -> float:
        sharp = np.exp(logarithm) * scores
        if means.shape[1] == 1:
            wrong = np.logaddexp(0, sharp[..., 0] * np.array([[1.0], [-1.0]]))
        else:
            true = np.take_along_axis(sharp, np.arange(len(means))[:, None, None], axis=2)[..., 0]
            wrong = logsumexp(sharp, axis=2) - true
        return float(shares @ wrong.mean(axis=1))

    from scipy.optimize import minimize_scalar

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 6.0), method="bounded").x))


def calibrate(
    task: Task,
    sums: tuple[Array, Array],
    fit: tuple[Array, Array],
    *,
    inflate: float = 1.0,
    noisy: NoisyFit | None = None,
) -> float:
    """`sharpness` from the sums themselves; 1 for numbers, and where fewer than two classes have rows.

    Args:
        task: what is predicted.
        sums: of `u u'`, whole, and of `u t'`.
        fit: coefficients and intercept.
        inflate: by how much squared errors on other rows are greater than on these.
        noisy: the same fit, with what noise on the sums did to it; None if they bear none.
    """
    gram, moments = sums
    if task.kind == "regression":
        return 1.0
    of_class = np.stack([gram[-1] - moments[:, 0], gram[-1] + moments[:, 0]], axis=1) / 2
    of_class = moments if task.kind == "multiclass" else of_class
    counts = of_class[-1]
    seen = counts > 1e-3 * max(gram[-1, -1], 1e-12) / len(counts)
    if seen.sum() < 2:
        return 1.0
    shares, coefficients = np.where(seen, counts, 0.0) / counts[seen].sum(), fit[0]
    means = (of_class[:-1] / np.where(seen, counts, 1.0)).T @ coefficients
    overall = gram[:-1, -1] / gram[-1, -1]
    spread = coefficients.T @ (gram[:-1, :-1] / gram[-1, -1] - np.outer(overall, overall)) @ coefficients
    if noisy is not None:
        spread = spread + noisy.spread / gram[-1, -1]
        own = np.eye(len(counts)) if task.kind == "multiclass" else np.array([[-0.5], [0.5]])
        means = means - noisy.moment * own / np.where(seen, counts, np.inf)[:, None]
    around = means - shares @ means
    within = spread - (around * shares[:, None]).T @ around
    return sharpness(means + fit[1], within * inflate, shares)


def targets_of(task: Task, y: Array) -> Array:
    """What is regressed on: -1 and 1 for two classes, a 1 in the place of the class for several, or the number."""
    if task.kind == "regression":
        return np.asarray(y, dtype=np.float64)[:, None]
    if task.kind == "binary":
        return np.where(np.asarray(y) == 1, 1.0, -1.0)[:, None]
    return np.eye(len(task.classes))[np.asarray(y, dtype=np.int64)]


def to_predictions(task: Task, scores: Array, factor: float) -> Array:
    """Probabilities, or numbers, from scores."""
    from scipy.special import expit, softmax

    if task.kind == "regression":
        return np.asarray(scores[:, 0])
    return np.asarray(expit(factor * scores[:, 0]) if task.kind == "binary" else softmax(factor * scores, axis=1))
