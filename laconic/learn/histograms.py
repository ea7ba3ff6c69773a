"""Boosted trees from histograms: bins of columns, sums of gradients over bins, and the best split that these show.

Every number is rounded where XGBoost's `hist` method rounds it, and equal gains are decided as it decides them, so that
trees grown from histograms that several parties made of their own columns are the trees that it grows on all columns
together. Histograms are flat: all bins of the first column, then all bins of the second, and so on; the last axis holds
the sums of gradients and of hessians.
"""

from itertools import pairwise

import msgspec
import numpy as np

from laconic.core.errors import MissingExtra
from laconic.core.values import Array, Weights

_LEAST_WEIGHT = 1.0
"""The least sum of hessians on either side of a split: XGBoost's `min_child_weight`."""


class Splits(msgspec.Struct, frozen=True):
    """The best split of each of some nodes.

    Attributes:
        gain: how much it lowers the loss, float32; minus infinity where a node cannot be split.
        column: which column it looks at. cut: rows in bins up to this one go left.
        left, right: sums of gradients and hessians on either side, shape (nodes, 2).
    """

    gain: Array
    column: Array
    cut: Array
    left: Array
    right: Array


def fit_bins(x: Array, most: int) -> Weights:
    """Cut each column into at most so many bins of about equally many rows.

    Returns:
        `edges`, the upper edges of all bins of all columns one after the other, and `counts`, how many each column has.
    """
    try:
        import xgboost
    except ImportError as problem:
        raise MissingExtra("xgboost", "trees") from problem
    # XGBoost cuts each column by itself, so a party's bins are those that it would find on everybody's columns.
    rows = xgboost.QuantileDMatrix(np.ascontiguousarray(x, dtype=np.float32), max_bin=most, nthread=1)
    starts, values = rows.get_quantile_cut()
    starts = starts.astype(np.int64)
    # The first number of each column is its least value, which is no edge.
    edges = np.delete(values, starts[:-1])
    return {"edges": edges, "counts": (np.diff(starts) - 1).astype(np.int32)}


def to_bins(bins: Weights, x: Array) -> Array:
    """The flat bin of each cell, shape (rows, columns)."""
    starts = np.cumsum([0, *bins["counts"]])
    flat = np.empty(x.shape, dtype=np.uint16 if starts[-1] < 2**16 else np.int32)
    for place, (start, end) in enumerate(pairwise(starts)):
        within = np.searchsorted(bins["edges"][start:end], x[:, place].astype(np.float32), side="right")
        flat[:, place] = start + np.minimum(within, end - start - 1)
    return flat


def add_up(flat: Array, gradients: Array, slots: Array, count: int, width: int) -> Array:
    """The histograms of some nodes, shape (count, width, 2).

    Args:
        flat: bins of the rows concerned, from `to_bins`.
        gradients: gradient and hessian of each of these rows, shape (rows, 2).
        slots: which node, from 0 to `count` - 1, each of these rows is in.
        count: how many nodes there are.
        width: how many bins all columns have together.
    """
    columns = flat.shape[1]
    places = (slots.astype(np.int64)[:, None] * width + flat).ravel()
    sums = [
        np.bincount(places, np.repeat(gradients[:, one].astype(np.float64), columns), count * width) for one in (0, 1)
    ]
    return np.stack(sums, axis=-1).reshape(count, width, 2)


def best_splits(histograms: Array, counts: Array, totals: Array, penalty: float) -> Splits:
    """The split of each node that lowers the loss most; of equally good ones the first.

    Args:
        histograms: of some nodes, shape (nodes, bins of all columns, 2).
        counts: how many bins each column has.
        totals: sums of gradients and hessians of each node, shape (nodes, 2).
        penalty: weight of the squared size of the leaves.
    """
    padded = _padded(histograms, counts)
    nodes = np.arange(len(padded))
    before = _score(totals, penalty)[:, None, None]
    ahead = padded.cumsum(axis=2)
    behind = padded[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    whole = totals[:, None, None]
    ways = [_try(ahead, whole - ahead, before, penalty)]
    # Where rounding lets a column's sum differ from the node's, XGBoost suspects missing cells and looks from the other
    # end too; its winner there is kept only if it is better.
    suspect = (ahead[:, :, -1] != totals[:, None]).any(axis=2)
    shifted = np.zeros_like(behind)
    shifted[:, :, :-1] = behind[:, :, 1:]
    ways.append(np.where(suspect[:, :, None], _try(whole - shifted, shifted, before, penalty), -np.inf))
    forward, backward = ways[0].argmax(axis=2), ways[1].shape[2] - 1 - ways[1][:, :, ::-1].argmax(axis=2)
    best = [
        np.take_along_axis(way, at[:, :, None], axis=2)[:, :, 0]
        for way, at in zip(ways, (forward, backward), strict=True)
    ]
    turned = best[1] > best[0]
    column = np.where(turned, best[1], best[0]).argmax(axis=1)
    is_turned = turned[nodes, column]
    cut = np.where(is_turned, backward[nodes, column], forward[nodes, column])
    gain = np.where(is_turned, best[1][nodes, column], best[0][nodes, column]).astype(np.float32)
    left, right = ahead[nodes, column, cut], shifted[nodes, column, cut]
    return Splits(
        gain,
        column,
        cut,
        np.where(is_turned[:, None], totals - right, left),
        np.where(is_turned[:, None], right, totals - left),
    )


def leaf_of(totals: Array, penalty: float) -> Array:
    """What the rows of each node are told, before the learning rate, float32."""
    sums, weights = totals[..., 0], totals[..., 1]
    alone = weights < _LEAST_WEIGHT
    return np.where(alone, 0.0, -sums / np.where(alone, 1.0, weights + penalty)).astype(np.float32)


def _padded(histograms: Array, counts: Array) -> Array:
    """With an axis of columns and one of bins; columns with fewer bins are filled with empty ones."""
    wide = np.zeros((len(histograms), len(counts), int(counts.max()), 2))
    there = np.arange(wide.shape[2]) < counts[:, None]
    wide[:, there] = histograms
    return wide


def _score(totals: Array, penalty: float) -> Array:
    """How much a leaf lowers the loss of its rows, rounded as XGBoost rounds it."""
    answer = leaf_of(totals, penalty)
    sums, weights = totals[..., 0], totals[..., 1] + penalty
    return np.asarray(-(2.0 * sums * answer + weights * (answer * answer)), dtype=np.float32)


def _try(left: Array, right: Array, before: Array, penalty: float) -> Array:
    enough = (left[..., 1] >= _LEAST_WEIGHT) & (right[..., 1] >= _LEAST_WEIGHT)
    gain = _score(left, penalty) + _score(right, penalty) - before
    return np.where(enough, gain, np.float32(-np.inf))
