"""What a task means for a model: its loss, its targets in training, and its outputs as predictions."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from laconic.core.task import Task
from laconic.core.values import Array, Weights

MEAN, SD = "target.mean", "target.sd"


def loss(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean loss: cross-entropy for classes, squared error on standardised labels for regression."""
    if task.kind == "multiclass":
        return functional.cross_entropy(outputs, targets)
    if task.kind == "binary":
        return functional.binary_cross_entropy_with_logits(outputs.squeeze(1), targets)
    return functional.mse_loss(outputs.squeeze(1), targets)


def scale_of(task: Task, y: Array) -> Weights:
    """Mean and standard deviation of training labels for regression, nothing for classes.

    Labels that are all alike get standard deviation 1, so that they still can be scaled.
    """
    if task.kind != "regression":
        return {}
    sd = float(np.std(y, dtype=np.float64))
    return {MEAN: np.array([np.mean(y, dtype=np.float64)]), SD: np.array([sd if sd > 0 else 1.0])}


def to_targets(task: Task, y: Array, scale: Weights) -> Tensor:
    """Labels as `loss` wants them: class codes, 0 or 1, or standardised numbers."""
    if task.kind == "multiclass":
        return torch.tensor(y, dtype=torch.int64)
    if task.kind == "binary":
        return torch.tensor(y, dtype=torch.float32)
    return torch.tensor((np.asarray(y, dtype=np.float64) - scale[MEAN]) / scale[SD], dtype=torch.float32)


def to_predictions(task: Task, outputs: Tensor, scale: Weights) -> Array:
    """A model's outputs as probabilities, or as numbers in the label's own unit."""
    outputs = outputs.detach()
    if task.kind == "multiclass":
        return outputs.softmax(dim=1).numpy()
    if task.kind == "binary":
        return outputs.squeeze(1).sigmoid().numpy()
    numbers: Array = outputs.squeeze(1).double().numpy() * scale[SD] + scale[MEAN]
    return numbers
