"""A fully connected net trained by hand-written gradients and momentum on one flat vector."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from laconic.core.values import Array, Weights
from laconic.learn.lanes import widened

if TYPE_CHECKING:
    from laconic.learn.descent import Rule
    from laconic.learn.layers import Final


class _Layer(NamedTuple):
    """One layer, all that it reads and writes, and the ways across: views that are made once, as making them costs.

    Attributes:
        matrix: weights, (inputs, outputs).
        matrix_across: the same as (outputs, inputs).
        bias: one weight an output.
        speed: the matrix's velocity.
        bias_speed: the bias's velocity.
        inputs: (rows, inputs).
        inputs_across: the same as (inputs, rows).
        outputs: (rows, outputs).
        by_inputs: where the gradient by the inputs is written; None for the first layer, whose inputs stay.
        final: what follows it.
    """

    matrix: Tensor
    matrix_across: Tensor
    bias: Tensor
    speed: Tensor
    bias_speed: Tensor
    inputs: Tensor
    inputs_across: Tensor
    outputs: Tensor
    by_inputs: Tensor | None
    final: "Final"


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
        both = torch.zeros(2, sum((one + 1) * other for one, other in wide))
        self._flat, self._velocity = both
        matrices, speeds = (_cut(values, wide) for values in both.numpy())
        self._weights, self._velocities = _without_zeros(matrices, shapes), _without_zeros(speeds, shapes)
        for name, (there, beside) in zip(self._names, self._weights, strict=True):
            there[:], beside[:] = weights[f"{name}.weight"].T, weights[f"{name}.bias"]
        for there, here in zip(_each(self._velocities), _each(_cut(velocity, shapes)), strict=True):
            there[:] = here
        self._ones = torch.ones(len(x))
        self._layers: list[_Layer] = []
        inputs = torch.tensor(x, dtype=torch.float32).reshape(len(x), -1)
        for pairs in zip(matrices, speeds, strict=True):
            matrix, bias, speed, bias_speed = map(torch.from_numpy, _each(list(pairs)))
            layer = _Layer(
                matrix=matrix,
                matrix_across=matrix.T,
                bias=bias,
                speed=speed,
                bias_speed=bias_speed,
                inputs=inputs,
                inputs_across=inputs.T,
                outputs=torch.empty(len(x), len(bias)),
                by_inputs=torch.empty_like(inputs) if self._layers else None,
                final=final if len(self._layers) == len(wide) - 1 else "relu",
            )
            self._layers.append(layer)
            inputs = layer.outputs

    def outputs(self) -> Tensor:
        """The net's outputs for the batch, kept in mind for `descend`."""
        for layer in self._layers:
            torch.addmm(layer.bias, layer.inputs, layer.matrix, out=layer.outputs)
            _ACTIVATE[layer.final](layer.outputs)
        return self._layers[-1].outputs

    def descend(self, gradient: Tensor, rule: "Rule") -> None:
        """One step of momentum, given the loss's gradient by the last outputs; products add to velocities at once."""
        flow = gradient
        for layer in reversed(self._layers):
            _TURN_BACK[layer.final](flow, layer.outputs)
            layer.speed.addmm_(layer.inputs_across, flow, beta=rule.momentum)
            layer.bias_speed.addmv_(flow.T, self._ones, beta=rule.momentum)
            if layer.by_inputs is not None:
                flow = torch.mm(flow, layer.matrix_across, out=layer.by_inputs)
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
    values = torch.tensor(x, dtype=torch.float32).reshape(len(x), -1)
    names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    for name in names:
        matrix, bias = (torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        values = _ACTIVATE["relu" if name != names[-1] else final](torch.addmm(bias, values, matrix.T))
    found: Array = values.numpy()
    return found


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


_RELU_BACK = torch.ops.aten.threshold_backward.grad_input
_TANH_BACK = torch.ops.aten.tanh_backward.grad_input


def _relu_back(flow: Tensor, values: Tensor) -> None:
    _RELU_BACK(flow, values, 0, grad_input=flow)


def _tanh_back(flow: Tensor, values: Tensor) -> None:
    _TANH_BACK(flow, values, grad_input=flow)


def _linear_back(flow: Tensor, values: Tensor) -> None:
    """A linear layer lets every flow pass as it is."""


_ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "linear": lambda values: values,
}
_TURN_BACK: dict[str, Callable[[Tensor, Tensor], None]] = {
    "relu": _relu_back,
    "tanh": _tanh_back,
    "linear": _linear_back,
}
