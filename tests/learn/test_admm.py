"""The row-by-row problem inside ADMM."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from laconic.core.task import Task
from laconic.learn.admm import loss_gradient, nearest_logits, targets_of

_CLASSES = Task(kind="multiclass", classes=tuple("abcde"))
_TWO = Task(kind="binary", classes=("no", "yes"))
_NUMBER = Task(kind="regression")


def _problem(task, rows=12, seed=0):
    rng = np.random.default_rng(seed)
    sums, duals = rng.normal(0, 4, (rows, task.outputs)), rng.normal(0, 0.5, (rows, task.outputs))
    y = rng.normal(size=rows) if task.kind == "regression" else rng.integers(0, max(2, task.outputs), rows)
    return sums, duals, y


def _objective(task, z, sums, dual, y, rho):
    loss = {
        "multiclass": lambda: logsumexp(z) - z[int(y)],
        "binary": lambda: np.logaddexp(0, z[0]) - y * z[0],
        "regression": lambda: 0.5 * (z[0] - y) ** 2,
    }[task.kind]()
    return loss - dual @ z + 0.5 * rho * ((sums - z) ** 2).sum()


def _slope(task, z, sums, dual, target, rho):
    predicted = {"multiclass": softmax(z), "binary": expit(z), "regression": z}[task.kind]
    return predicted - target - dual + rho * (z - sums)


@pytest.mark.parametrize("task", [_CLASSES, _TWO, _NUMBER], ids=lambda task: task.kind)
@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0, 20.0])
def test_all_rows_at_once_agree_with_a_general_solver_row_by_row(task, rho):
    sums, duals, y = _problem(task)
    targets = targets_of(task, y)
    found = nearest_logits(task, sums, duals, targets, rho)
    for row in range(len(y)):
        best = minimize(
            lambda z, row=row: _objective(task, z, sums[row], duals[row], y[row], rho),
            sums[row],
            jac=lambda z, row=row: _slope(task, z, sums[row], duals[row], targets[row], rho),
            method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 1000},
        )
        # The minimum's value, which L-BFGS-B finds to 1e-8 even where it stops short of the exact place.
        assert _objective(task, found[row], sums[row], duals[row], y[row], rho) <= best.fun + 1e-8
        np.testing.assert_allclose(found[row], best.x, atol=1e-5)


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("task", [_CLASSES, _TWO, _NUMBER], ids=lambda task: task.kind)
def test_the_slope_is_zero_where_it_stops(task, rho):
    sums, duals, y = _problem(task, rows=500, seed=1)
    targets = targets_of(task, y)
    z = nearest_logits(task, sums, duals, targets, rho)
    assert np.abs(loss_gradient(task, z, targets) - duals + rho * (z - sums)).max() < 1e-8


def test_the_next_dual_is_the_prediction_less_the_label():
    sums, duals, y = _problem(_CLASSES, rows=200)
    targets = targets_of(_CLASSES, y)
    z = nearest_logits(_CLASSES, sums, duals, targets, 2.0)
    after = duals + 2.0 * (sums - z)
    np.testing.assert_allclose(after, softmax(z, axis=1) - targets, atol=1e-10)
    assert (after.argmin(axis=1) == y).all()


def test_logits_of_thousands_do_not_overflow():
    sums = np.array([[5e3, -5e3, 0.0, 1.0, 2.0]])
    z = nearest_logits(_CLASSES, sums, np.zeros((1, 5)), targets_of(_CLASSES, np.array([1])), 0.5)
    assert np.isfinite(z).all()
