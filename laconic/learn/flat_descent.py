"""A fully connected net trained by hand-written gradients and momentum on one flat vector."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from laconic.core.values import Array, Weights

if TYPE_CHECKING:
    from laconic.learn.descent import Rule
    from laconic.learn.nets import Final


LANES = 16
"""Matrix products are fastest where the number of columns is a multiple of this."""


class FlatDescent:
    """`Mlp` at work on one batch; every array is made once and then written over.

    Layers are kept as (inputs, outputs), the other way round from `nets`, because products of tall matrices are
    fastest so. Each has columns of zeros up to the next multiple of `LANES`: weights that begin at zero and whose
    inputs or flows are zero stay there.
    """

    def __init__(self, final: "Final", weights: Weights, velocity: Array, x: Array) -> None:
        self._names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        shapes = [weights[f"{name}.weight"].shape[::-1] for name in self._names]
        wide = _widened(shapes)
        self._flat, self._velocity, self._gradient = torch.zeros(3, sum((one + 1) * other for one, other in wide))
        self._layers, self._layer_gradients = _cut(self._flat, wide), _cut(self._gradient, wide)
        self._weights = _without_zeros(self._layers, shapes)
        self._velocities = _without_zeros(_cut(self._velocity, wide), shapes)
        for name, (matrix, bias) in zip(self._names, self._weights, strict=True):
            matrix.copy_(torch.tensor(weights[f"{name}.weight"]).T)
            bias.copy_(torch.tensor(weights[f"{name}.bias"]))
        for there, here in zip(_each(self._velocities), _each(_cut(torch.tensor(velocity), shapes)), strict=True):
            there.copy_(here)
        rows, self._width = len(x), shapes[-1][1]
        self._values = [torch.tensor(x, dtype=torch.float32).reshape(rows, -1)]
        self._values += [torch.empty(rows, outputs) for _, outputs in wide]
        self._flows = [torch.zeros(rows, outputs) for _, outputs in wide]
        self._final = ["relu"] * (len(self._names) - 1) + [final]

    @torch.inference_mode()
    def outputs(self) -> Tensor:
        """The net's outputs for the batch, kept in mind for `descend`."""
        for number, (matrix, bias) in enumerate(self._layers):
            values = torch.addmm(bias, self._values[number], matrix, out=self._values[number + 1])
            _ACTIVATE[self._final[number]](values)
        return self._values[-1][:, : self._width]

    @torch.inference_mode()
    def descend(self, gradient: Tensor, rule: "Rule") -> None:
        """One step of momentum, given the loss's gradient by the last outputs."""
        self._flows[-1][:, : self._width] = gradient
        for number in range(len(self._layers) - 1, -1, -1):
            flow = self._flows[number]
            _TURN_BACK[self._final[number]](flow, self._values[number + 1])
            by_matrix, by_bias = self._layer_gradients[number]
            torch.mm(self._values[number].T, flow, out=by_matrix)
            torch.sum(flow, 0, out=by_bias)
            if number:
                torch.mm(flow, self._layers[number][0].T, out=self._flows[number - 1])
        self._gradient.add_(self._flat, alpha=rule.weight_decay)
        self._velocity.mul_(rule.momentum).add_(self._gradient)
        self._flat.add_(self._velocity, alpha=-rule.lr)

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        found: Weights = {}
        for name, (matrix, bias) in zip(self._names, self._weights, strict=True):
            found |= {f"{name}.weight": matrix.T.contiguous().numpy(), f"{name}.bias": bias.clone().numpy()}
        return found

    def velocity(self) -> Array:
        """The velocity now, in the order of the flat vector."""
        found: Array = torch.cat([part.flatten() for part in _each(self._velocities)]).numpy()
        return found


def _widened(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The layers' shapes with outputs up to the next multiple of `LANES`, which are the next layer's inputs."""
    outputs = [-(-count // LANES) * LANES for _, count in shapes]
    return list(zip([shapes[0][0], *outputs[:-1]], outputs, strict=True))


def _cut(flat: Tensor, shapes: list[tuple[int, ...]]) -> list[tuple[Tensor, Tensor]]:
    """Views into the flat vector: each layer's matrix, as (inputs, outputs), and its bias."""
    views, at = [], 0
    for inputs, outputs in shapes:
        matrix = flat[at : at + inputs * outputs].view(inputs, outputs)
        at += inputs * outputs
        views.append((matrix, flat[at : at + outputs]))
        at += outputs
    return views


def _without_zeros(layers: list[tuple[Tensor, Tensor]], shapes: list[tuple[int, ...]]) -> list[tuple[Tensor, Tensor]]:
    return [
        (matrix[:inputs, :outputs], bias[:outputs])
        for (matrix, bias), (inputs, outputs) in zip(layers, shapes, strict=True)
    ]


def _each(layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    return [part for layer in layers for part in layer]


def _relu_back(flow: Tensor, values: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(flow, values, 0, grad_input=flow)


def _tanh_back(flow: Tensor, values: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(flow, values, grad_input=flow)


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
