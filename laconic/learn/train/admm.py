"""The row-by-row problem inside ADMM: the logits that suit a label best while staying near what was predicted.

For each row: minimise loss(z; y) - dual . z + rho / 2 |sums - z|^2. At the minimum the loss's gradient by z is
dual + rho (sums - z), which is what ADMM takes as the row's next dual.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from laconic.tables.task import Task
from laconic.values import Array

_MOST_STEPS = 100
_MOST_HALVINGS = 40
_EXACT = 1e-12
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_SMALL_RHO = 0.01


def nearest_logits(task: Task, sums: Array, duals: Array, targets: Array, rho: float) -> Array:
    """Solve the problem of every row at once, in float64, exactly for numbers and to rounding for classes.

    Args:
        sums: what all parties together predict, (rows, outputs): logits, or standardised numbers.
        duals: each row's dual, of the same shape.
        targets: from `targets_of`, of the same shape.
        rho: how much staying near `sums` weighs; above 0.
    """
    pulled = np.asarray(sums, np.float64) + (np.asarray(duals, np.float64) + targets) / rho
    if task.kind == "regression":
        # Half the squared error has the gradient z - y, so that the minimum is a weighted mean.
        return pulled * (rho / (1.0 + rho))
    return _newton_softmax(pulled, rho) if task.kind == "multiclass" else _newton_sigmoid(pulled, rho)


def targets_of(task: Task, y: Array) -> Array:
    """Labels as the loss compares them with predictions, (rows, outputs): 0 and 1 for classes, numbers as they are."""
    if task.kind == "multiclass":
        return np.eye(task.outputs)[np.asarray(y, dtype=np.int64)]
    return np.asarray(y, dtype=np.float64)[:, None]


def loss_gradient(task: Task, sums: Array, targets: Array) -> Array:
    """How each row's loss changes with its logits: prediction less target."""
    from scipy.special import expit, softmax

    sums = np.asarray(sums, np.float64)
    if task.kind == "multiclass":
        predicted: Array = softmax(sums, axis=1)
        return predicted - targets
    return (expit(sums) if task.kind == "binary" else sums) - targets


def _newton_softmax(pulled: Array, rho: float) -> Array:
    """Newton's method for logsumexp(z) + rho / 2 |z - pulled|^2, whose Hessian is diagonal less a rank-one part."""

    def change(gradient: Array, p: Array) -> Array:
        diagonal = p + rho
        straight, shares = gradient / diagonal, p / diagonal
        # Sherman-Morrison; 1 - p'D^-1 p is written as rho sum(p / D), which cannot round to 0.
        found: Array = straight + shares * ((p * straight).sum(axis=1) / (rho * shares.sum(axis=1)))[:, None]
        return found

    start = pulled - 1.0 / (rho * pulled.shape[1]) if rho >= _SMALL_RHO else _logits_by_total(pulled, rho)
    return _newton(_look_softmax, change, start, pulled, rho)


def _newton_sigmoid(pulled: Array, rho: float) -> Array:
    def change(gradient: Array, p: Array) -> Array:
        return gradient / (p * (1.0 - p) + rho)

    return _newton(_look_sigmoid, change, pulled - 0.5 / rho, pulled, rho)


def _newton(
    look: Callable[[Array], tuple[Array, Array]],
    change: Callable[[Array, Array], Array],
    z: Array,
    pulled: Array,
    rho: float,
) -> Array:
    """Newton's method for a loss and rho / 2 |z - pulled|^2, until no gradient is left but what rounding leaves.

    Args:
        look: each row's loss, and its gradient by the logits.
        change: Newton's step, given the whole gradient and the loss's.
        z: where to start.
        pulled: where the second term would have the logits.
        rho: its weight.
    """

    def see(z: Array) -> tuple[Array, Array]:
        loss, p = look(z)
        return loss + 0.5 * rho * ((z - pulled) ** 2).sum(axis=1), p

    small = _EXACT + _ROUNDING * (rho * np.abs(pulled).max(initial=0.0) + np.abs(z).max(initial=0.0))
    value, p = see(z)
    for _ in range(_MOST_STEPS):
        gradient = p + rho * (z - pulled)
        if np.abs(gradient).max(initial=0.0) < small:
            return z
        full, step = change(gradient, p), np.ones((len(z), 1))
        before, start = value + 1e-14 * np.maximum(1.0, np.abs(value)), z
        # Halved in the rows where the whole of it would lead uphill, which a small rho can cause.
        for _ in range(_MOST_HALVINGS):
            z = start - step * full
            value, p = see(z)
            worse = value > before
            if not worse.any():
                break
            step[worse] *= 0.5
    raise ValueError(
        f"found no best logits for all of {len(z)} rows at rho={rho:g}; look for NaN in what parties send, or try a "
        "rho nearer to 1"
    )


def _logits_by_total(pulled: Array, rho: float) -> Array:
    """Nearly the best logits, by way of one number for each row; slow, but it cannot miss, however small rho is.

    At the minimum z = total + log(p) with p = softmax(z) = rho (pulled - z). So p is rho times Wright's omega of
    pulled - total - log(rho), and all p must add up to 1. Their sum falls with `total` and is convex, so that Newton's
    method goes straight up to it from below.
    """
    from scipy.special import wrightomega

    total = pulled.max(axis=1, keepdims=True) - 1.0 / rho
    for _ in range(_MOST_STEPS):
        omega = wrightomega(pulled - total - np.log(rho))
        more = (rho * omega.sum(axis=1, keepdims=True) - 1.0) / (rho * omega / (1.0 + omega)).sum(axis=1, keepdims=True)
        total = total + more
        if not (more > 1e-12 * np.maximum(1.0, np.abs(total))).any():
            break
    return np.asarray(pulled - wrightomega(pulled - total - np.log(rho)))


def _look_softmax(z: Array) -> tuple[Array, Array]:
    # By hand, as scipy looks at many special cases, which takes longer than all else here together.
    highest = z.max(axis=1, keepdims=True)
    odds = np.exp(z - highest)
    total = odds.sum(axis=1, keepdims=True)
    return (highest + np.log(total))[:, 0], odds / total


def _look_sigmoid(z: Array) -> tuple[Array, Array]:
    from scipy.special import expit

    return np.logaddexp(0.0, z)[:, 0], expit(z)


class DuplicateRows(NamedTuple):
    """Which rows of a batch are equal.

    Attributes:
        first: the place of one row of each kind.
        kind: the kind of each row, as a place in `first`.
        counts: how many rows there are of each kind.
    """

    first: Array
    kind: Array
    counts: Array

    def means(self, values: Array) -> Array:
        """The mean of the rows of each kind, of an array with as many rows as the batch."""
        empty = torch.zeros(len(self.first), values.shape[1], device="cpu")
        sums = empty.index_add_(0, *map(torch.from_numpy, (self.kind, values)))
        found: Array = sums.numpy() / self.counts[:, None].astype(np.float32)
        return found


def find_duplicates(x: Array) -> DuplicateRows:
    """Sort rows into kinds, in the order in which they come, by their bytes.

    Each row's bytes are summed with random weights, the same for all rows, so that equal rows have the same sum; where
    other rows have it too, as good as never, every row is left alone.
    """
    rows = np.ascontiguousarray(x, dtype=np.float32).reshape(len(x), -1)
    words = rows.view(np.uint32 if rows.shape[1] % 2 else np.uint64)
    sums = words @ _weights(words.shape[1])
    in_order = np.sort(sums)
    if (in_order[1:] != in_order[:-1]).all():
        return each_alone(len(x))
    _, first, kind, counts = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = DuplicateRows(first[order], place[kind], counts[order])
    model = found.first[found.kind]
    again = np.flatnonzero(model != np.arange(len(x)))
    return found if np.array_equal(words[again], words[model[again]]) else each_alone(len(x))


def each_alone(rows: int) -> DuplicateRows:
    """Every row a kind of its own, for when rows may not be put together."""
    return DuplicateRows(np.arange(rows), np.arange(rows), np.ones(rows, np.int64))


@cache
def _weights(words: int) -> Array:
    """Random weights for so many words of a row."""
    return np.random.default_rng(0).integers(2**64, size=words, dtype=np.uint64)
