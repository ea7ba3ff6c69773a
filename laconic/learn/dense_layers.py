"""The layers of a fully connected net at work on one batch: forwards, and backwards into their velocities."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from laconic.learn.layers import Final


class DenseLayer(NamedTuple):
    """One layer, and all that it reads and writes, each in one piece of memory.

    Attributes:
        matrix: weights, (inputs, outputs); the number of outputs is a multiple of `LANES`.
        bias: one weight an output.
        speed: the matrix's velocity.
        bias_speed: the bias's velocity.
        inputs: (rows, inputs).
        outputs: (rows, outputs).
        by_inputs: where the gradient by the inputs is written; None for the first layer, whose inputs stay.
        final: what follows it; `relu` for all but the last layer.
    """

    matrix: Tensor
    bias: Tensor
    speed: Tensor
    bias_speed: Tensor
    inputs: Tensor
    outputs: Tensor
    by_inputs: Tensor | None
    final: Final


class Layers(Protocol):
    """Layers at work."""

    def forwards(self) -> None:
        """Write every layer's outputs."""
        ...

    def backwards(self, flow: Tensor, momentum: float) -> None:
        """Take velocity = momentum velocity + gradient, given the gradient by the last outputs, written over."""
        ...


class TorchLayers:
    """Layers at work by torch's products; views the other way across are made once, as making them costs."""

    def __init__(self, layers: Sequence[DenseLayer]) -> None:
        self._across = [(layer, layer.inputs.T, layer.matrix.T) for layer in layers]
        self._ones = torch.ones(len(layers[0].inputs))

    def forwards(self) -> None:
        """Write every layer's outputs."""
        for layer, _, _ in self._across:
            torch.addmm(layer.bias, layer.inputs, layer.matrix, out=layer.outputs)
            ACTIVATE[layer.final](layer.outputs)

    def backwards(self, flow: Tensor, momentum: float) -> None:
        """Products add to velocities at once."""
        for layer, inputs_across, matrix_across in reversed(self._across):
            _TURN_BACK[layer.final](flow, layer.outputs)
            layer.speed.addmm_(inputs_across, flow, beta=momentum)
            layer.bias_speed.addmv_(flow.T, self._ones, beta=momentum)
            if layer.by_inputs is not None:
                flow = torch.mm(flow, matrix_across, out=layer.by_inputs)


_RELU_BACK = torch.ops.aten.threshold_backward.grad_input
_TANH_BACK = torch.ops.aten.tanh_backward.grad_input


def _relu_back(flow: Tensor, values: Tensor) -> None:
    _RELU_BACK(flow, values, 0, grad_input=flow)


def _tanh_back(flow: Tensor, values: Tensor) -> None:
    _TANH_BACK(flow, values, grad_input=flow)


def _linear_back(flow: Tensor, values: Tensor) -> None:
    """A linear layer lets every flow pass as it is."""


ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "linear": lambda values: values,
}
_TURN_BACK: dict[str, Callable[[Tensor, Tensor], None]] = {
    "relu": _relu_back,
    "tanh": _tanh_back,
    "linear": _linear_back,
}
