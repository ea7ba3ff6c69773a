"""The label holder's own model on top of what it received: a net, or trees."""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn.nets import AnyNet
from laconic.learn.sgd import Trainer
from laconic.learn.supervised import fit_supervised, predict_supervised
from laconic.learn.trees import Boosted, Forest

Trees: TypeAlias = Boosted | Forest
"""Grown rather than trained; they take no look at validation rows."""

Top: TypeAlias = AnyNet | Trees


def fit_top(
    top: Top,
    task: Task,
    inputs: Sequence[Array],
    y: Array,
    trainer: Trainer,
    rng: Rng,
    *,
    valid: tuple[Sequence[Array], Array] | None = None,
) -> Weights:
    """Learn labels from own columns and received numbers; trees see all of them side by side."""
    if isinstance(top, Trees):
        return top.fit(task, _beside(inputs), y, rng)
    return fit_supervised(top, task, inputs, y, trainer, rng, valid=valid, what="label holder")


def predict_top(top: Top, task: Task, weights: Weights, inputs: Sequence[Array]) -> Array:
    """Predictions for rows, from the same model and what `fit_top` returned."""
    if isinstance(top, Trees):
        return top.predict(task, weights, _beside(inputs))
    return predict_supervised(top, task, weights, inputs)


def _beside(inputs: Sequence[Array]) -> Array:
    return np.concatenate([x.reshape(len(x), prod(x.shape[1:])) for x in inputs], axis=1)
