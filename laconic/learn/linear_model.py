"""Linear models of labels: logistic regression for classes, ridge regression for numbers."""

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Weights


def fit_linear(task: Task, x: Array, y: Array, penalty: float) -> Weights:
    """Fit by the library's own exact solvers; `penalty` weighs the squared size of the coefficients."""
    from sklearn.linear_model import LogisticRegression, Ridge

    flat = x.reshape(len(x), -1).astype(np.float64)
    if task.kind == "regression":
        ridge = Ridge(alpha=penalty).fit(flat, y)
        return {"coefficients": ridge.coef_[None], "intercept": np.array([ridge.intercept_])}
    model = LogisticRegression(C=1.0 / penalty, max_iter=1000).fit(flat, y)
    coefficients, intercept = model.coef_, model.intercept_
    if task.kind == "multiclass":
        if len(model.classes_) == 2:
            # The library gives one row of coefficients for two classes: the second against the first.
            coefficients, intercept = np.vstack([0 * coefficients, coefficients]), np.append(0.0, intercept)
        coefficients, intercept = (
            _at(model.classes_, coefficients, 0.0, task),
            _at(model.classes_, intercept, -1e3, task),
        )
    return {"coefficients": coefficients, "intercept": intercept}


def predict_linear(task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities, or numbers, for rows."""
    from scipy.special import expit, softmax

    outputs = x.reshape(len(x), -1).astype(np.float64) @ weights["coefficients"].T + weights["intercept"]
    if task.kind == "multiclass":
        return np.asarray(softmax(outputs, axis=1))
    return np.asarray(expit(outputs[:, 0]) if task.kind == "binary" else outputs[:, 0])


def _at(classes: Array, values: Array, otherwise: float, task: Task) -> Array:
    """Values of the classes seen, in the places of all classes; `otherwise` for a class never seen."""
    full = np.full((task.outputs, *values.shape[1:]), otherwise)
    full[classes] = values
    return full
