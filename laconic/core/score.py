"""Scores: one metric code for every method, so that numbers can be compared."""

import msgspec
import numpy as np

from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.core.values import Array

_HEADLINE = {"binary": "auc", "multiclass": "accuracy", "regression": "rmse"}


class Score(msgspec.Struct, frozen=True):
    """The headline figure of a run."""

    metric: str
    value: float


def metrics(task: Task, y: Array, predictions: Array, train_range: float = 1.0) -> dict[str, float]:
    """Every metric that fits the task.

    Args:
        train_range: greatest less least training label; `rmse_scaled` is RMSE in units of it, as papers report that
            scale labels to [0, 1].
    """
    if predictions.shape != task.shape(len(y)):
        raise ValueError(f"predictions have shape {predictions.shape}, but {len(y)} rows need {task.shape(len(y))}")
    if not np.isfinite(predictions).all():
        raise ValueError("predictions hold NaN or infinity; lower the learning rate or look for a broken column")
    return _of_numbers(y, predictions, train_range) if task.kind == "regression" else _of_classes(task, y, predictions)


def headline(task: Task, values: dict[str, float]) -> Score:
    """The one figure to name first: AUC for two classes, accuracy for several, RMSE for numbers.

    Raises:
        DataError: the rows scored on had one class only, of which there is no AUC.
    """
    name = headline_metric(task)
    if name not in values:
        raise DataError(
            f"{task.label or 'the label'} has one class only among the rows scored on, so there is no {name.upper()}; "
            "score on more rows"
        )
    return Score(name, values[name])


def headline_metric(task: Task) -> str:
    """Which figure is named first."""
    return _HEADLINE[task.kind]


def _of_numbers(y: Array, predictions: Array, train_range: float) -> dict[str, float]:
    error = predictions.astype(np.float64) - y
    rmse = float(np.sqrt(np.mean(error**2)))
    spread = float(np.mean((y - y.mean()) ** 2))
    return {
        "rmse": rmse,
        "mae": float(np.mean(np.abs(error))),
        "r2": 1.0 - rmse**2 / spread if spread > 0 else 0.0,
        "rmse_scaled": rmse / train_range,
    }


def _of_classes(task: Task, y: Array, predictions: Array) -> dict[str, float]:
    from sklearn import metrics as of

    y = y.astype(int)
    decided = task.decide(predictions)
    if task.kind == "binary":
        probabilities = np.stack([1.0 - predictions, predictions], axis=1).astype(np.float64)
    else:
        probabilities = predictions.astype(np.float64)
    probabilities = np.clip(probabilities, 1e-7, None)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    values = {
        "accuracy": float(np.mean(decided == y)),
        "log_loss": float(-np.mean(np.log(probabilities[np.arange(len(y)), y]))),
        "f1": float(of.f1_score(y, decided, average="binary" if task.kind == "binary" else "macro", zero_division=0)),
    }
    present = np.unique(y)
    if len(present) == probabilities.shape[1]:
        ranked = predictions if task.kind == "binary" else probabilities
        values["auc"] = float(of.roc_auc_score(y, ranked, multi_class="ovr"))
    if task.kind == "binary" and len(present) == 2:
        false, true, _ = of.roc_curve(y, predictions)
        values["ks"] = float(np.max(true - false))
    return values
