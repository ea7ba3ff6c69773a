"""A fully connected net trained by hand-written gradients and momentum on one flat vector."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from laconic.core.values import Array, Weights

if TYPE_CHECKING:
    from laconic.learn.descent import Rule
    from laconic.learn.nets import Final


class FlatDescent:
    """`Mlp` at work on one batch; every array is made once and then written over.

    Layers are kept as (inputs, outputs), the other way round from `nets`, because products of tall matrices are
    fastest so.
    """

    def __init__(self, final: "Final", weights: Weights, velocity: Array, x: Array) -> None:
        self._names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        self._shapes = [weights[f"{name}.weight"].shape for name in self._names]
        self._flat = _flatten(self._names, weights)
        self._velocity = torch.tensor(velocity)
        self._gradient = torch.empty_like(self._flat)
        self._layers, self._layer_gradients = _cut(self._flat, self._shapes), _cut(self._gradient, self._shapes)
        rows = len(x)
        self._values = [torch.tensor(x, dtype=torch.float32).reshape(rows, -1)]
        self._values += [torch.empty(rows, outputs) for outputs, _ in self._shapes]
        self._flows = [torch.empty(rows, outputs) for outputs, _ in self._shapes]
        last = len(self._names) - 1
        self._final = ["relu"] * last + [final]

    @torch.inference_mode()
    def outputs(self) -> Tensor:
        """The net's outputs for the batch, kept in mind for `descend`."""
        for number, (matrix, bias) in enumerate(self._layers):
            values = torch.addmm(bias, self._values[number], matrix, out=self._values[number + 1])
            _ACTIVATE[self._final[number]](values)
        return self._values[-1]

    @torch.inference_mode()
    def descend(self, gradient: Tensor, rule: "Rule") -> None:
        """One step of momentum, given the loss's gradient by the last outputs."""
        flow = gradient
        for number in range(len(self._layers) - 1, -1, -1):
            flow = _TURN_BACK[self._final[number]](flow, self._values[number + 1], self._flows[number])
            by_matrix, by_bias = self._layer_gradients[number]
            torch.mm(self._values[number].T, flow, out=by_matrix)
            torch.sum(flow, 0, out=by_bias)
            if number:
                flow = torch.mm(flow, self._layers[number][0].T, out=self._flows[number - 1])
        self._gradient.add_(self._flat, alpha=rule.weight_decay)
        self._velocity.mul_(rule.momentum).add_(self._gradient)
        self._flat.add_(self._velocity, alpha=-rule.lr)

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        found: Weights = {}
        for name, (matrix, bias) in zip(self._names, self._layers, strict=True):
            found |= {f"{name}.weight": matrix.T.contiguous().numpy(), f"{name}.bias": bias.clone().numpy()}
        return found

    def velocity(self) -> Array:
        """The velocity now, in the order of the flat vector."""
        found: Array = self._velocity.numpy()
        return found


def _flatten(names: list[str], weights: Weights) -> Tensor:
    parts = [torch.tensor(weights[f"{name}{kind}"]) for name in names for kind in (".weight", ".bias")]
    return torch.cat([part.T.flatten() if part.ndim == 2 else part for part in parts])


def _cut(flat: Tensor, shapes: list[tuple[int, ...]]) -> list[tuple[Tensor, Tensor]]:
    """Views into the flat vector: each layer's matrix, as (inputs, outputs), and its bias."""
    views, at = [], 0
    for outputs, inputs in shapes:
        matrix = flat[at : at + inputs * outputs].view(inputs, outputs)
        at += inputs * outputs
        views.append((matrix, flat[at : at + outputs]))
        at += outputs
    return views


def _relu_back(flow: Tensor, values: Tensor, out: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward.grad_input(flow, values, 0, grad_input=out)  # type: ignore[no-any-return]


def _tanh_back(flow: Tensor, values: Tensor, out: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward.grad_input(flow, values, grad_input=out)  # type: ignore[no-any-return]


def _linear_back(flow: Tensor, values: Tensor, out: Tensor) -> Tensor:  # noqa: ARG001 every way back is asked alike
    return flow


_ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "linear": lambda values: values,
}
_TURN_BACK: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "relu": _relu_back,
    "tanh": _tanh_back,
    "linear": _linear_back,
}
