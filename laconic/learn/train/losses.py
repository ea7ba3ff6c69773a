"""What a task means for a model: its loss, its targets in training, and its outputs as predictions."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from msgspec import UNSET
from torch import Tensor
from torch.nn import functional

from laconic.errors import DataError, PlanError
from laconic.learn.device import device_now
from laconic.learn.nets.nets import to_array, to_tensor
from laconic.tables.task import Task
from laconic.values import Array, Weights

MEAN, SD = "target.mean", "target.sd"


Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def loss(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss: cross-entropy for classes, squared error on standardised numbers, Poisson's for counts."""
    return loss_of(task)(outputs, targets)


def loss_of(task: Task) -> Loss:
    """The task's mean loss, as a function of outputs and targets."""
    return _poisson if task.by_log else _LOSSES[task.kind]


def slope_of(task: Task) -> Loss:
    """How each row's loss, not the mean, changes with its outputs, as a function of outputs and targets."""
    return _SLOPES[loss_of(task)]


def slope(of: Loss, outputs: Tensor, targets: Tensor) -> Tensor | None:
    """As `slope_of`, for a loss; None if it is none of ours."""
    known = _SLOPES.get(of)
    return None if known is None else known(outputs, targets)


def _binary(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(outputs.squeeze(1), targets)


def _squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.mse_loss(outputs.squeeze(1), targets)


_STEEPEST = 10.0
"""Outputs beyond this, which are means 22,000 times the usual one, are not followed by the exponential any more."""


def _poisson(outputs: Tensor, targets: Tensor) -> Tensor:
    """Poisson's loss, in units of the mean count: outputs are logarithms; beyond `_STEEPEST` it goes on straight."""
    given = outputs.squeeze(1)
    inside = given.clamp(max=_STEEPEST)
    return (inside.exp() * (1.0 + given - inside) - targets * given).mean()


def _slope_of_poisson(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.clamp(max=_STEEPEST).exp_().sub_(targets[:, None])


def _slope_of_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.softmax(dim=1).scatter_add_(1, targets[:, None], torch.full_like(outputs[:, :1], -1.0))


def _slope_of_binary(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.sigmoid().sub_(targets[:, None])


def _slope_of_squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets[:, None]).mul_(2.0)


_LOSSES: dict[str, Loss] = {"multiclass": functional.cross_entropy, "binary": _binary, "regression": _squared}
_SLOPES: dict[Loss, Loss] = {
    functional.cross_entropy: _slope_of_classes,
    _binary: _slope_of_binary,
    _squared: _slope_of_squared,
    _poisson: _slope_of_poisson,
}


def scale_of(task: Task, y: Array) -> Weights:
    """Mean and standard deviation of training labels for regression, nothing for classes.

    Parties that agreed on a scale use that. Labels that are all equal get standard deviation 1, so that they still can
    be scaled.
    """
    if task.kind == "survival":
        raise PlanError(f"nets do not learn the time to an event ({task.label!r}); use Best, Boosted or LinearModel")
    if task.kind != "regression":
        return {}
    if task.scale is not UNSET:
        return agreed_scale(task)
    sd = float(np.std(y, dtype=np.float64))
    return {MEAN: np.array([np.mean(y, dtype=np.float64)]), SD: np.array([sd if sd > 0 else 1.0])}


def agreed_scale(task: Task) -> Weights:
    """The scale that parties with other rows agreed on; nothing for classes.

    Raises:
        DataError: labels are numbers, and nobody agreed on a scale.
    """
    if task.kind != "regression":
        return {}
    if task.scale is UNSET:
        raise DataError(
            f"label {task.label!r} is a number, and parties have not agreed on mean and spread, by which nets learn; "
            "say label_mean and label_spread in the schema, or let parties agree without one"
        )
    return {MEAN: np.array([task.scale.mean]), SD: np.array([task.scale.spread])}


def kept_scale(task: Task, scale: Weights) -> Weights:
    """What a model keeps of the scale that it learnt by: nothing if the task says it."""
    return scale if task.scale is UNSET else {}


def scale_in(task: Task, weights: Weights) -> Weights:
    """The scale that a model learnt by: its own, or the one that the task says."""
    own = {name: values for name, values in weights.items() if name in (MEAN, SD)}
    return own or agreed_scale(task)


def to_targets(task: Task, y: Array, scale: Weights) -> Tensor:
    """Labels as `loss` wants them: class codes, 0 or 1, standardised numbers, or counts in units of their mean."""
    if task.kind == "multiclass":
        return torch.tensor(y, dtype=torch.int64, device=device_now())
    if task.kind == "binary":
        return to_tensor(y)
    return to_tensor(scaled(task, y, scale))


def scaled(task: Task, y: Array, scale: Weights) -> Array:
    """Numbers as nets learn them: standardised, or counts in units of their mean."""
    numbers = np.asarray(y, dtype=np.float64)
    return np.asarray(numbers / scale[MEAN] if task.by_log else (numbers - scale[MEAN]) / scale[SD])


def to_predictions(task: Task, outputs: Tensor, scale: Weights) -> Array:
    """A model's outputs as probabilities, or as numbers in the label's own unit."""
    outputs = outputs.detach()
    if task.kind == "multiclass":
        return to_array(outputs.softmax(dim=1))
    if task.kind == "binary":
        return to_array(outputs.squeeze(1).sigmoid())
    numbers: Array = to_array(outputs.squeeze(1)).astype(np.float64)
    return np.exp(np.minimum(numbers, _STEEPEST)) * scale[MEAN] if task.by_log else numbers * scale[SD] + scale[MEAN]


def lengths_by_block(weights: Array, widths: Mapping[str, int]) -> dict[str, float]:
    """How long the weights of each block of inputs are, given how wide the blocks are, in the order of the inputs."""
    edges = np.cumsum([0, *widths.values()])
    blocks = zip(widths, pairwise(edges), strict=True)
    return {name: float(np.linalg.norm(weights[:, start:end])) for name, (start, end) in blocks}
