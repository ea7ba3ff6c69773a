"""Trees as plain arrays: every tree is padded to a complete one, so that a model is a few rectangular arrays.

They say which column each inner node looks at, its threshold, and what each leaf says. Such arrays cannot hold a
cycle or a dangling child, whoever sent them, and a foreign model is never given to a native parser. Padding costs
little: the trees here are a few levels deep.
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Weights

ALWAYS = np.finfo(np.float32).max
"""The threshold of a padding node: every prepared number is below it, so all rows go left."""

_MOST_NODES = 2**26
_ROWS_AT_ONCE = 8192


class GrownTree(Protocol):
    """A tree as XGBoost writes it, node by node; a leaf has children -1 and its answer for a condition."""

    left_children: list[int]
    right_children: list[int]
    split_indices: list[int]
    split_conditions: list[float]


def complete(trees: Sequence[GrownTree], depth: int) -> Weights:
    """All trees padded to the same depth, level by level for all of them at once."""
    starts = np.cumsum([0, *(len(tree.left_children) for tree in trees)])[:-1]
    left, right, column, value = (
        np.concatenate([np.array(getattr(tree, name)) for tree in trees])
        for name in ("left_children", "right_children", "split_indices", "split_conditions")
    )
    sizes = [len(tree.left_children) for tree in trees]
    offsets = np.repeat(starts, sizes)
    ends = left < 0
    left, right = np.where(ends, 0, left + offsets), np.where(ends, 0, right + offsets)
    at, columns, thresholds = starts[:, None], [], []
    for _ in range(depth):
        done = ends[at]
        columns.append(np.where(done, 0, column[at]))
        thresholds.append(np.where(done, ALWAYS, value[at]))
        both = np.stack([np.where(done, at, left[at]), np.where(done, at, right[at])], axis=2)
        at = both.reshape(len(trees), -1)
    return {
        "column": np.concatenate(columns, axis=1).astype(np.int16 if column.max() < 2**15 else np.int32),
        "threshold": np.concatenate(thresholds, axis=1).astype(np.float32),
        "leaf": value[at].astype(np.float32),
    }


def predict_trees(task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities, or numbers, for rows."""
    from scipy.special import expit, softmax

    flat = np.ascontiguousarray(x.reshape(len(x), prod(x.shape[1:])), dtype=np.float32)
    parts = np.array_split(flat, len(flat) // _ROWS_AT_ONCE + 1)
    sums = np.concatenate([_sums(weights, part) for part in parts]) + weights["base"]
    if task.kind == "regression":
        return sums[:, 0].astype(np.float64)
    if weights["logit"][0]:
        sums = expit(sums) if task.kind == "binary" else softmax(sums, axis=1)
    sums = np.clip(sums, 0, 1)
    if task.kind == "binary":
        return np.asarray(sums[:, 0])
    total = sums.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, sums / np.where(total > 0, total, 1), 1 / sums.shape[1]))


def check_trees(task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
    """Raise a `ValueError` unless these arrays, which may come from anyone, are trees for rows of this shape."""
    if weights.keys() != {"column", "threshold", "leaf", "output", "base", "logit"}:
        raise ValueError(f"its arrays are {sorted(weights)}")
    column, threshold, leaf, output = (weights[name] for name in ("column", "threshold", "leaf", "output"))
    if leaf.ndim != 2 or leaf.size == 0 or leaf.size > _MOST_NODES or leaf.shape[1].bit_count() != 1:
        raise ValueError(f"leaves of shape {leaf.shape}; a power of two for each of some trees is needed")
    inner = (len(leaf), leaf.shape[1] - 1)
    if column.shape != inner or threshold.shape != inner or output.shape != (len(leaf),):
        raise ValueError("its arrays do not fit each other")
    if weights["base"].shape != (task.outputs,) or weights["logit"].shape != (1,):
        raise ValueError(f"it does not give {task.outputs} numbers a row")
    _check_range("columns", column, prod(shape))
    _check_range("outputs", output, task.outputs)


def _sums(weights: Weights, x: Array) -> Array:
    """What all trees say of each row, summed by output."""
    trees, leaves = weights["leaf"].shape
    starts = np.arange(trees, dtype=np.int32)[:, None] * np.int32(leaves - 1)
    rows = np.arange(len(x), dtype=np.int32)[None] * np.int32(x.shape[1])
    column, threshold = weights["column"].astype(np.int32).ravel(), weights["threshold"].ravel()
    cells, at = x.ravel(), np.zeros((trees, len(x)), dtype=np.int32)
    for _ in range(leaves.bit_length() - 1):
        node = at + starts
        goes_right = cells.take(column.take(node) + rows) >= threshold.take(node)
        at += at + 1 + goes_right
    leaf = np.take_along_axis(weights["leaf"], at - (leaves - 1), axis=1)
    outputs = range(len(weights["base"]))
    return np.stack([leaf[weights["output"] == output].sum(axis=0, dtype=np.float64) for output in outputs], axis=1)


def _check_range(what: str, values: Array, count: int) -> None:
    if values.dtype.kind not in "iu" or values.size == 0 or values.min() < 0 or values.max() >= count:
        raise ValueError(f"its {what} are not all whole numbers from 0 to {count - 1}")
