"""A net on one batch, trained a few steps at a time: what a party does between two questions.

Weights and velocity come in and go out as plain arrays, so that a party can be stopped after any question. Fully
connected nets take a hand-written way that is twice as fast as automatic gradients; all others take torch's.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from laconic.core.values import Array, Rng, Weights
from laconic.learn.flat_descent import FlatDescent, flat_outputs
from laconic.learn.lanes import widened
from laconic.learn.nets import Mlp, Net, give_chance, load, to_tensor, weights_of
from laconic.learn.sgd import evaluate

_LOOK_ROWS = 8192
"""So many rows at most go through a net at a time where nothing is learnt."""


class Rule(msgspec.Struct, frozen=True):
    """Gradient descent with momentum: velocity = momentum velocity + gradient; weights -= lr velocity."""

    lr: float
    momentum: float
    weight_decay: float


class Descent(Protocol):
    """A net at work on one batch."""

    def outputs(self) -> Tensor:
        """The net's outputs for the batch, (rows, lanes), as `widen` would have them; good until the next call."""
        ...

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        """One step, given the loss's gradient by the last outputs, (rows, lanes), which is written over."""
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


def take_steps(descent: Descent, steps: int, slope: Callable[[Tensor], Tensor], rule: Rule) -> None:
    """Take so many steps, given how the loss's gradient follows from the net's outputs."""
    # Hand-written gradients need nothing of what torch writes down for automatic ones at every call.
    with torch.inference_mode(isinstance(descent, FlatDescent)):
        for _ in range(steps):
            descent.descend(slope(descent.outputs()), rule)


def outputs_of(net: Net, outputs: int, weights: Weights, x: Array) -> Array:
    """What a net with these weights makes of the rows `x`, in evaluation mode."""
    if isinstance(net, Mlp):
        if len(x) <= _LOOK_ROWS:
            return flat_outputs(net.final, weights, x)
        parts = np.array_split(x, -(-len(x) // _LOOK_ROWS))
        return np.concatenate([flat_outputs(net.final, weights, part) for part in parts])
    return evaluate(load(net.build(x.shape[1:], outputs), weights), [to_tensor(x)]).numpy()


def no_velocity(weights: Weights) -> Array:
    """The velocity before the first step."""
    return np.zeros(sum(values.size for values in weights.values()), np.float32)


class _AutogradDescent:
    def __init__(self, module: nn.Module, velocity: Array, x: Array) -> None:
        self._module = module.train()
        self._params = list(module.parameters())
        self._sizes = [values.numel() for values in self._params]
        self._velocity = torch.tensor(velocity)
        self._moving = self._velocity[: sum(self._sizes)]  # Weights that no gradient changes come last and stay.
        self._x = to_tensor(x)
        self._outputs = torch.empty(0)

    def outputs(self) -> Tensor:
        narrow = self._module(self._x)
        self._outputs = pad(narrow, (0, widened(narrow.shape[1]) - narrow.shape[1]))
        return self._outputs.detach()

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        self._module.zero_grad()
        torch.autograd.backward((self._outputs * gradient).sum())
        with torch.no_grad():
            flat = torch.cat([values.grad.flatten() for values in self._params if values.grad is not None])
            flat.add_(torch.cat([values.flatten() for values in self._params]), alpha=rule.weight_decay)
            self._moving.mul_(rule.momentum).add_(flat)
            for values, change in zip(self._params, torch.split(self._moving, self._sizes), strict=True):
                values.add_(change.view(values.shape), alpha=-rule.lr)

    def weights(self) -> Weights:
        return weights_of(self._module)

    def velocity(self) -> Array:
        found: Array = self._velocity.numpy()
        return found
