"""The row-by-row problem inside ADMM: the logits that suit a label best while staying near what was predicted.

For each row: minimise loss(z; y) - dual . z + rho / 2 |sums - z|^2. At the minimum the loss's gradient by z is
dual + rho (sums - z), which is what ADMM takes as the row's next dual.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import expit, softmax

from laconic.core.task import Task
from laconic.core.values import Array

_Objective: TypeAlias = Callable[[Array, Array, float], Array]
_MOST_STEPS = 100
_MOST_HALVINGS = 40
_EXACT = 1e-12


def nearest_logits(task: Task, sums: Array, duals: Array, targets: Array, rho: float) -> Array:
    """Solve the problem of every row at once, in float64, exactly for numbers and to 1e-12 for classes.

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
    sums = np.asarray(sums, np.float64)
    if task.kind == "multiclass":
        predicted: Array = softmax(sums, axis=1)
        return predicted - targets
    return (expit(sums) if task.kind == "binary" else sums) - targets


def _newton_softmax(pulled: Array, rho: float) -> Array:
    """Newton's method for logsumexp(z) + rho / 2 |z - pulled|^2, whose Hessian is diagonal less a rank-one part."""
    z: Array = pulled - 1.0 / (rho * pulled.shape[1])
    for _ in range(_MOST_STEPS):
        p = softmax(z, axis=1)
        gradient = p + rho * (z - pulled)
        if np.abs(gradient).max(initial=0.0) < _EXACT * max(1.0, rho * np.abs(pulled).max(initial=0.0)):
            break
        diagonal = p + rho
        straight = gradient / diagonal
        # Sherman-Morrison; 1 - p'D^-1 p is written as rho sum(p / D), which cannot round to 0.
        share = (p * straight).sum(axis=1) / (rho * (p / diagonal).sum(axis=1))
        z = _downhill(_softmax_objective, z, straight + p / diagonal * share[:, None], pulled, rho)
    return z


def _newton_sigmoid(pulled: Array, rho: float) -> Array:
    z = pulled - 0.5 / rho
    for _ in range(_MOST_STEPS):
        p = expit(z)
        gradient = p + rho * (z - pulled)
        if np.abs(gradient).max(initial=0.0) < _EXACT * max(1.0, rho * np.abs(pulled).max(initial=0.0)):
            break
        z = _downhill(_sigmoid_objective, z, gradient / (p * (1.0 - p) + rho), pulled, rho)
    return z


def _softmax_objective(z: Array, pulled: Array, rho: float) -> Array:
    # By hand, as scipy's logsumexp looks at many special cases, which takes longer than all else here together.
    highest = z.max(axis=1, keepdims=True)
    value: Array = highest[:, 0] + np.log(np.exp(z - highest).sum(axis=1)) + 0.5 * rho * ((z - pulled) ** 2).sum(axis=1)
    return value


def _sigmoid_objective(z: Array, pulled: Array, rho: float) -> Array:
    value: Array = (np.logaddexp(0.0, z) + 0.5 * rho * (z - pulled) ** 2)[:, 0]
    return value


def _downhill(objective: _Objective, z: Array, change: Array, pulled: Array, rho: float) -> Array:
    """Take a step off `z`, halved in the rows where the whole of it would lead uphill (which a small rho can cause)."""
    before = objective(z, pulled, rho)
    step = np.ones(len(z))
    for _ in range(_MOST_HALVINGS):
        after = objective(z - step[:, None] * change, pulled, rho)
        worse = after > before + 1e-14 * np.maximum(1.0, np.abs(before))
        if not worse.any():
            break
        step[worse] *= 0.5
    return z - step[:, None] * change
