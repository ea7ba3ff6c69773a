"""Labels of any kind: which transform suits a task, and what the task looks like from outside."""

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn.rap.categorical_label import draw_categorical, hide_classes, reveal_classes
from laconic.learn.rap.matrices import AnyMatrix
from laconic.learn.rap.numeric_label import draw_numeric, hide_numbers, reveal_numbers


def draw_label_secret(task: Task, y: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """The label holder's secret, given its training labels."""
    return draw_numeric(y, matrix, rng) if task.kind == "regression" else draw_categorical(len(task.classes), rng)


def hide_labels(task: Task, secret: Weights, y: Array, rng: Rng) -> Array:
    """One code for each label, or two numbers."""
    return hide_numbers(secret, y, rng) if task.kind == "regression" else hide_classes(secret, y, rng)


def reveal_labels(task: Task, secret: Weights, hidden: Array) -> Array:
    """Predictions, as the task shapes them, from predictions of what was hidden."""
    if task.kind == "regression":
        return reveal_numbers(secret, hidden)
    classes = reveal_classes(secret, hidden)
    return np.asarray(classes[:, 1]) if task.kind == "binary" else classes


def hidden_classes(task: Task) -> int:
    """How many codes the labels become; 0 for numbers."""
    return 0 if task.kind == "regression" else 2 * len(task.classes)


def hidden_task(codes: int) -> Task:
    """The task of predicting so many codes, or numbers if there are none."""
    if codes == 0:
        return Task(kind="regression")
    return Task(kind="multiclass", classes=tuple(str(code) for code in range(codes)))
