"""A net on one batch, trained a few steps at a time: what a party does between two questions.

Weights and velocity come in and go out as plain arrays, so that a party can be stopped after any question. Fully
connected nets take a hand-written way that is twice as fast as automatic gradients; all others take torch's.
"""

from typing import Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from laconic.core.values import Array, Rng, Weights
from laconic.learn.flat_descent import FlatDescent
from laconic.learn.nets import Mlp, Net, give_chance, load, to_tensor, weights_of


class Rule(msgspec.Struct, frozen=True):
    """Gradient descent with momentum: velocity = momentum velocity + gradient; weights -= lr velocity."""

    lr: float
    momentum: float
    weight_decay: float


class Descent(Protocol):
    """A net at work on one batch."""

    def outputs(self) -> Tensor:
        """The net's outputs for the batch, (rows, outputs); good until the next call."""
        ...

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        """One step, given the loss's gradient by the last outputs."""
        ...

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        ...

    def velocity(self) -> Array:
        """The velocity now, one number a weight."""
        ...


def start_descent(net: Net, outputs: int, weights: Weights, velocity: Array, x: Array, rng: Rng) -> Descent:
    """Go on from these weights and this velocity on the rows `x`; chance is for dropout alone."""
    if isinstance(net, Mlp) and net.dropout == 0:
        return FlatDescent(net.final, weights, velocity, x)
    module = give_chance(load(net.build(x.shape[1:], outputs), weights), rng)
    return _AutogradDescent(module, velocity, x)


def no_velocity(weights: Weights) -> Array:
    """The velocity before the first step."""
    return np.zeros(sum(values.size for values in weights.values()), np.float32)


class _AutogradDescent:
    def __init__(self, module: nn.Module, velocity: Array, x: Array) -> None:
        self._module = module.train()
        self._params = list(module.parameters())
        self._sizes = [values.numel() for values in self._params]
        self._velocity = torch.tensor(velocity)
        self._x = to_tensor(x)
        self._outputs = torch.empty(0)

    def outputs(self) -> Tensor:
        self._outputs = self._module(self._x)
        return self._outputs.detach()

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        self._module.zero_grad()
        torch.autograd.backward((self._outputs * gradient).sum())
        with torch.no_grad():
            flat = torch.cat([values.grad.flatten() for values in self._params if values.grad is not None])
            flat.add_(torch.cat([values.flatten() for values in self._params]), alpha=rule.weight_decay)
            self._velocity.mul_(rule.momentum).add_(flat)
            for values, change in zip(self._params, torch.split(self._velocity, self._sizes), strict=True):
                values.add_(change.view(values.shape), alpha=-rule.lr)

    def weights(self) -> Weights:
        return weights_of(self._module)

    def velocity(self) -> Array:
        found: Array = self._velocity.numpy()
        return found
