"""What boosting fits its next trees to: gradients and hessians of the loss, rounded as XGBoost rounds them."""

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array

_LEAST = np.float32(1e-16)
_ONE = np.float32(1.0)


def first_margins(task: Task, y: Array) -> Array:
    """What is said of every row before the first tree, shape (outputs, rows): the mean for numbers, else nothing."""
    start = float(np.mean(y)) if task.kind == "regression" else 0.0
    return np.full((task.outputs, len(y)), start, dtype=np.float32)


def gradients(task: Task, margins: Array, y: Array) -> Array:
    """Gradient and hessian of the loss at each margin, shape (outputs, rows, 2), float32."""
    if task.kind == "regression":
        first = margins - y.astype(np.float32)
        return np.stack([first, np.ones_like(first)], axis=-1)
    if task.kind == "binary":
        shares = _ONE / (_exp(-margins) + _ONE)
        wanted = y.astype(np.float32)[None]
        second = shares * (_ONE - shares)
    else:
        powers = _exp(margins - margins.max(axis=0))
        shares = powers / powers.sum(axis=0, dtype=np.float64).astype(np.float32)
        wanted = np.eye(task.outputs, dtype=np.float32)[:, y]
        second = np.float32(2.0) * shares * (_ONE - shares)
    return np.stack([shares - wanted, np.maximum(second, _LEAST)], axis=-1)


def _exp(values: Array) -> Array:
    # Exact to the last bit of float32, as C's is nearly always; numpy's own float32 function is not.
    return np.exp(np.minimum(values.astype(np.float64), 88.7)).astype(np.float32)
