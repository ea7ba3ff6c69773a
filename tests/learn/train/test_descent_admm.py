"""The row-by-row problem inside ADMM."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from laconic.learn.train.descent import nearest_logits, targets_of
from laconic.tables import Task

_CLASSES = Task(kind="multiclass", classes=tuple("abcde"))
_TWO = Task(kind="binary", classes=("no", "yes"))
_NUMBER = Task(kind="regression")


def _problem(task, rows=12, seed=0):
    rng = np.random.default_rng(seed)
    sums, duals = rng.normal(0, 4, (rows, task.outputs)), rng.normal(0, 0.5, (rows, task.outputs))
    y = rng.normal(size=rows) if task.kind == "regression" else rng.integers(0, max(2, task.outputs), rows)
    return sums, duals, y


def _slope(task, z, sums, dual, target, rho):
    predicted = {"multiclass": softmax(z, axis=-1), "binary": expit(z), "regression": z}[task.kind]
    return predicted - target - dual + rho * (z - sums)


def _gain(task, z, step, sums, dual, target, rho):
    """By how much the objective changes from z to z + step, to all digits of the change."""
    bent = {
        "multiclass": lambda: np.log1p(softmax(z) @ np.expm1(step)) - softmax(z) @ step,
        "binary": lambda: np.log1p(expit(z) @ np.expm1(step)) - expit(z) @ step,
        "regression": lambda: 0.5 * step @ step,
    }[task.kind]()
    return bent + _slope(task, z, sums, dual, target, rho) @ step + 0.5 * rho * step @ step


def _by_lbfgsb(task, sums, dual, target, rho):
    """The best logits of one row by L-BFGS-B, which starts again where it stopped.

    It is shown changes of the objective from there: the objective itself has too few digits to find z to 1e-8.
    """
    z = sums
    for _ in range(4):
        found = minimize(
            lambda step, z=z: _gain(task, z, step, sums, dual, target, rho),
            np.zeros_like(z),
            jac=lambda step, z=z: _slope(task, z + step, sums, dual, target, rho),
            method="L-BFGS-B",
            options={"ftol": 0.0, "gtol": 1e-15, "maxiter": 1000},
        )
        z = z + found.x
    return z


@pytest.mark.parametrize("task", [_CLASSES, _TWO, _NUMBER], ids=lambda task: task.kind)
@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0, 20.0])
def test_all_rows_at_once_agree_with_a_general_solver_row_by_row(task, rho):
    sums, duals, y = _problem(task)
    targets = targets_of(task, y)
    rows = zip(sums, duals, targets, strict=True)
    expected = [_by_lbfgsb(task, one, dual, target, rho) for one, dual, target in rows]
    np.testing.assert_allclose(nearest_logits(task, sums, duals, targets, rho), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("rho", [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.5, 2.0, 50.0, 1e4])
@pytest.mark.parametrize("task", [_CLASSES, _TWO, _NUMBER], ids=lambda task: task.kind)
def test_the_slope_is_zero_where_it_stops(task, rho):
    sums, duals, y = _problem(task, rows=500, seed=1)
    targets = targets_of(task, y)
    z = nearest_logits(task, sums, duals, targets, rho)
    assert np.abs(_slope(task, z, sums, duals, targets, rho)).max() < 1e-8


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("task", [_CLASSES, _TWO], ids=lambda task: task.kind)
def test_rows_without_a_minimum_are_refused(task):
    sums, duals, y = _problem(task)
    sums[3] = np.nan
    with pytest.raises(ValueError, match="found no best logits for all of 12 rows at rho=2; look for NaN"):
        nearest_logits(task, sums, duals, targets_of(task, y), 2.0)


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
