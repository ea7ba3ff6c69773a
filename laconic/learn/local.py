"""Training a net from given weights on one party's rows, as methods that average models do."""

import numpy as np
import torch
from torch import Tensor

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn import heads
from laconic.learn.nets import Net, load, to_tensor, weights_of
from laconic.learn.sgd import Sgd


def fit_from(
    net: Net,
    task: Task,
    start: Weights,
    rows: tuple[Array, Array],
    trainer: Sgd,
    rng: Rng,
    *,
    pull: float = 0.0,
    push: Weights | None = None,
) -> Weights:
    """Train on labelled rows from given weights; without rows the weights stay as they are.

    Args:
        net: the form of the net.
        task: two classes or several.
        start: the weights to start from.
        rows: prepared rows and their class codes.
        trainer: how to train.
        rng: chance for the order of rows.
        pull: weight of half the squared distance from `start`, which is added to the loss.
        push: added to the gradient of every step, by name; None for nothing.
    """
    x, y = rows
    if len(y) == 0:
        return start
    module = load(net.build(x.shape[1:], task.outputs), start)
    anchors = {name: values.detach().clone() for name, values in module.named_parameters()}
    pushes = {name: to_tensor(values) for name, values in (push or {}).items()}

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        total = heads.loss(task, outputs, targets)
        for name, values in module.named_parameters():
            if pull:
                total = total + pull / 2 * (values - anchors[name]).square().sum()
            if pushes:
                # A term whose gradient is the push itself.
                total = total + (values * pushes[name]).sum()
        return total

    trainer.fit(module, [to_tensor(x)], heads.to_targets(task, y, {}), loss, rng, what="local rows")
    return {name: values.copy() for name, values in weights_of(module).items()}


def fit_to_shares(net: Net, task: Task, start: Weights, rows: tuple[Array, Array], trainer: Sgd, rng: Rng) -> Weights:
    """Train from given weights towards probabilities, shape as `Task.shape`, instead of labels: distillation."""
    x, shares = rows
    module = load(net.build(x.shape[1:], task.outputs), start)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if task.kind == "binary":
            return torch.nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(1), targets)
        return torch.nn.functional.cross_entropy(outputs, targets)

    trainer.fit(module, [to_tensor(x)], to_tensor(shares), loss, rng, what="distilling")
    return {name: values.copy() for name, values in weights_of(module).items()}


def mean_of(models: list[Weights], shares: list[float]) -> Weights:
    """The mean of models, weighted by shares that need not sum to 1."""
    total = sum(shares)
    if total <= 0:
        raise ValueError("no party has any rows to learn from; deal the rows anew")
    parts = list(zip(models, shares, strict=True))
    return {
        name: np.sum([share / total * model[name].astype(np.float64) for model, share in parts], axis=0).astype(
            np.float32
        )
        for name in models[0]
    }
