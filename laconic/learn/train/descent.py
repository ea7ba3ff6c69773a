"""A net on one batch, trained a few steps at a time: what a party does between two questions.

Weights and velocity come in and go out as plain arrays, so that a party can be stopped after any question. Fully
connected nets on the processor take a hand-written way that is twice as fast as automatic gradients; all others take
torch's.
"""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from laconic.learn.device import device_now, is_on_cpu
from laconic.learn.kernels import ACTIVATE, CompiledLayers, DenseLayer, Layers, TorchLayers, compiled_products, widened
from laconic.learn.nets.nets import Mlp, Net, give_chance, load, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import evaluate
from laconic.values import Array, Rng, Weights

if TYPE_CHECKING:
    from laconic.learn.nets.layers import Final


class FlatDescent:
    """`Mlp` at work on one batch; every array is made once and then written over.

    Layers are kept as (inputs, outputs), the other way round from `nets`, because products of tall matrices are
    fastest so. Each has columns of zeros up to the next full number of lanes: weights that begin at zero and whose
    inputs or flows are zero stay there.
    """

    def __init__(self, final: "Final", weights: Weights, velocity: Array, x: Array) -> None:
        self._names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        shapes = [weights[f"{name}.weight"].shape[::-1] for name in self._names]
        wide = _widened(shapes)
        # Both in torch's memory, which is aligned alike everywhere, and cut by numpy, which cuts faster.
        both = torch.zeros(2, sum((one + 1) * other for one, other in wide), device="cpu")
        self._flat, self._velocity = both
        matrices, speeds = (_cut(values, wide) for values in both.numpy())
        self._weights, self._velocities = _without_zeros(matrices, shapes), _without_zeros(speeds, shapes)
        for name, (there, beside) in zip(self._names, self._weights, strict=True):
            there[:], beside[:] = weights[f"{name}.weight"].T, weights[f"{name}.bias"]
        for there, here in zip(_each(self._velocities), _each(_cut(velocity, shapes)), strict=True):
            there[:] = here
        layers: list[DenseLayer] = []
        inputs = torch.tensor(x, dtype=torch.float32, device="cpu").reshape(len(x), -1)
        for pairs in zip(matrices, speeds, strict=True):
            matrix, bias, speed, bias_speed = map(torch.from_numpy, _each(list(pairs)))
            layer = DenseLayer(
                matrix=matrix,
                bias=bias,
                speed=speed,
                bias_speed=bias_speed,
                inputs=inputs,
                outputs=torch.empty(len(x), len(bias), device="cpu"),
                by_inputs=torch.empty_like(inputs) if layers else None,
                final=final if len(layers) == len(wide) - 1 else "relu",
            )
            layers.append(layer)
            inputs = layer.outputs
        self._outputs, self._layers = inputs, _at_work(layers)

    def outputs(self) -> Tensor:
        """The net's outputs for the batch, kept in mind for `descend`."""
        self._layers.forwards()
        return self._outputs

    def descend(self, gradient: Tensor, rule: "Rule") -> None:
        """One step of momentum, given the loss's gradient by the last outputs."""
        self._layers.backwards(gradient, rule.momentum)
        self._velocity.add_(self._flat, alpha=rule.weight_decay)
        self._flat.add_(self._velocity, alpha=-rule.lr)

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        found: Weights = {}
        for name, (matrix, bias) in zip(self._names, self._weights, strict=True):
            found |= {f"{name}.weight": np.ascontiguousarray(matrix.T), f"{name}.bias": bias.copy()}
        return found

    def velocity(self) -> Array:
        """The velocity now, in the order of the flat vector."""
        return np.concatenate([part.ravel() for part in _each(self._velocities)])


@torch.inference_mode()
def flat_outputs(final: "Final", weights: Weights, x: Array) -> Array:
    """What `Mlp` with these weights makes of rows, in evaluation mode."""
    values = torch.tensor(x, dtype=torch.float32, device="cpu").reshape(len(x), -1)
    names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    for name in names:
        matrix, bias = (torch.tensor(weights[f"{name}.{part}"], device="cpu") for part in ("weight", "bias"))
        values = ACTIVATE["relu" if name != names[-1] else final](torch.addmm(bias, values, matrix.T))
    found: Array = values.numpy()
    return found


def _at_work(layers: list[DenseLayer]) -> Layers:
    """By compiled products where there are any for such layers, else by torch's."""
    library = compiled_products()
    if library is None or layers[-1].final == "tanh" or not len(layers[0].inputs):
        return TorchLayers(layers)
    return CompiledLayers(layers, library)


def _widened(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The layers' shapes with outputs up to the next full number of lanes, which are the next layer's inputs."""
    outputs = [widened(count) for _, count in shapes]
    return list(zip([shapes[0][0], *outputs[:-1]], outputs, strict=True))


def _cut(flat: Array, shapes: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    """Views into the flat vector: each layer's matrix, as (inputs, outputs), and its bias."""
    views, at = [], 0
    for inputs, outputs in shapes:
        matrix = flat[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        views.append((matrix, flat[at : at + outputs]))
        at += outputs
    return views


def _without_zeros(layers: list[tuple[Array, Array]], shapes: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    return [
        (matrix[:inputs, :outputs], bias[:outputs])
        for (matrix, bias), (inputs, outputs) in zip(layers, shapes, strict=True)
    ]


def _each(layers: list[tuple[Array, Array]]) -> list[Array]:
    return [part for layer in layers for part in layer]


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
    is_flat = isinstance(net, Mlp) and net.dropout == 0
    if isinstance(net, Mlp) and is_flat and is_on_cpu():
        return FlatDescent(net.final, weights, velocity, x)
    module = give_chance(load(net.build(x.shape[1:], outputs), weights), rng)
    return _AutogradDescent(module, velocity, x, turned=is_flat)


def take_steps(descent: Descent, steps: int, slope: Callable[[Tensor], Tensor], rule: Rule) -> None:
    """Take so many steps, given how the loss's gradient follows from the net's outputs."""
    # Hand-written gradients need nothing of what torch writes down for automatic ones at every call.
    with torch.inference_mode(isinstance(descent, FlatDescent)):
        for _ in range(steps):
            descent.descend(slope(descent.outputs()), rule)


def outputs_of(net: Net, outputs: int, weights: Weights, x: Array) -> Array:
    """What a net with these weights makes of the rows `x`, in evaluation mode."""
    if isinstance(net, Mlp) and is_on_cpu():
        if len(x) <= _LOOK_ROWS:
            return flat_outputs(net.final, weights, x)
        parts = np.array_split(x, -(-len(x) // _LOOK_ROWS))
        return np.concatenate([flat_outputs(net.final, weights, part) for part in parts])
    return to_array(evaluate(load(net.build(x.shape[1:], outputs), weights), [to_tensor(x)]))


def no_velocity(weights: Weights) -> Array:
    """The velocity before the first step."""
    return np.zeros(sum(values.size for values in weights.values()), np.float32)


class _AutogradDescent:
    """Any net by automatic gradients.

    Where `FlatDescent` would do on the processor, the velocity comes and goes in its order, each matrix turned round,
    so that a run can be taken up again on another device.
    """

    def __init__(self, module: nn.Module, velocity: Array, x: Array, *, turned: bool) -> None:
        self._shapes = [tuple(values.shape) for values in module.parameters()] if turned else []
        if turned:
            velocity = _turned(velocity, [shape[::-1] for shape in self._shapes])
        self._module = module.train()
        self._params = list(module.parameters())
        self._sizes = [values.numel() for values in self._params]
        self._velocity = torch.tensor(velocity, device=device_now())
        self._moving = self._velocity[: sum(self._sizes)]  # Weights that no gradient changes come last and stay.
        self._x = to_tensor(x)
        self._outputs = torch.empty(0, device=device_now())

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
        found = to_array(self._velocity)
        return _turned(found, self._shapes) if self._shapes else found


def _turned(flat: Array, shapes: list[tuple[int, ...]]) -> Array:
    """A flat vector of arrays of these shapes, with each array turned round."""
    parts = np.split(flat, np.cumsum([prod(shape) for shape in shapes])[:-1])
    return np.concatenate([part.reshape(shape).T.ravel() for part, shape in zip(parts, shapes, strict=True)])
