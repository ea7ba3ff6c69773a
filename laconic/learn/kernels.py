"""The layers of a fully connected net at work on one batch: forwards, and backwards into their velocities."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from laconic.learn.device import device_now
from laconic.learn.nets.layers import Final
from laconic.values import Array


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
        self._ones = torch.ones(len(layers[0].inputs), device=layers[0].inputs.device)

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


LANES = 16
"""Matrix products are fastest where the number of columns is a multiple of this."""


def widened(count: int) -> int:
    """The next multiple of `LANES`."""
    return -(-count // LANES) * LANES


def widen(values: Array, *, rows: bool = False) -> Tensor:
    """A matrix with columns of zeros up to the next multiple of `LANES`, and rows of zeros likewise if asked."""
    height, width = values.shape
    found = torch.zeros(widened(height) if rows else height, widened(width), device=device_now())
    found[:height, :width] = torch.tensor(values, device=device_now())
    return found


_FEW = 0.35
"""Where a smaller share of the first inputs differs from what their columns usually hold, only those are worked on."""
_SAMPLE = 31
"""What a column usually holds is judged by so many rows."""


class CompiledLayers:
    """Layers at work by compiled products; none may end in tanh, and there must be a row."""

    def __init__(self, layers: Sequence[DenseLayer], library: ctypes.CDLL) -> None:
        self._library = library
        self._kept: list[object] = [layers]  # The compiled code knows addresses alone: what is there has to stay.
        found = (_Layer * len(layers))(*map(self._layer, layers))
        first = layers[0].inputs.numpy()
        usual = _commonest(first[:_SAMPLE])
        differing = int(np.count_nonzero(first != usual))
        if differing < _FEW * first.size:
            found[0].few = self._few(first, usual, differing)
        self._work = (found, ctypes.c_int(len(layers)), ctypes.c_long(len(first)))

    def forwards(self) -> None:
        """Write every layer's outputs."""
        self._library.forwards(*self._work)

    def backwards(self, flow: Tensor, momentum: float) -> None:
        """Add gradients to velocities."""
        self._library.backwards(*self._work, ctypes.c_void_p(flow.data_ptr()), ctypes.c_float(momentum))

    def _layer(self, layer: DenseLayer) -> "_Layer":
        inputs, outputs = layer.matrix.shape
        across, sums = layer.matrix.new_empty(outputs, inputs), layer.bias.new_empty(outputs)
        self._kept += [across, sums]
        return _Layer(
            inputs=inputs,
            outputs=outputs,
            matrix=layer.matrix.data_ptr(),
            bias=layer.bias.data_ptr(),
            speed=layer.speed.data_ptr(),
            bias_speed=layer.bias_speed.data_ptr(),
            across=across.data_ptr(),
            sums=sums.data_ptr(),
            given=layer.inputs.data_ptr(),
            made=layer.outputs.data_ptr(),
            by_given=None if layer.by_inputs is None else layer.by_inputs.data_ptr(),
            relu=layer.final == "relu",
        )

    def _few(self, x: Array, usual: Array, differing: int) -> "_Few":
        rows, columns = x.shape
        blocks = -(-rows // self._library.rows_of_block())
        starts = [np.empty(size, np.int32) for size in (rows + 1, blocks * columns + 1)]
        places = [np.empty(differing + 1, np.int32) for _ in starts]
        mores = [np.empty(differing + 1, np.float32) for _ in starts]
        self._kept += [usual, starts, places, mores]
        pieces = [one.ctypes.data for piece in zip(starts, places, mores, strict=True) for one in piece]
        found = _Few(usual.ctypes.data, *pieces)
        size = (ctypes.c_long(rows), ctypes.c_long(columns))
        self._library.find_few(*size, ctypes.c_void_p(x.ctypes.data), ctypes.byref(found))
        return found


@cache
def compiled_products() -> ctypes.CDLL | None:
    """The compiled products, or None where no compiler was at hand when Laconic was installed."""
    found = find_spec("laconic.learn._dense_net")
    if found is None or found.origin is None:
        return None
    library = ctypes.CDLL(found.origin)
    library.use_lanes(LANES)
    return library


def _commonest(x: Array) -> Array:
    """The number that each column holds most often."""
    alike = (x[:, None] == x).sum(axis=0)
    found: Array = x[alike.argmax(axis=0), np.arange(x.shape[1])]
    return found


class _Few(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("usual", "from_row", "column", "more", "from_column", "row", "more_down")
    )


class _Layer(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.c_long),
        ("outputs", ctypes.c_long),
        ("matrix", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("speed", ctypes.c_void_p),
        ("bias_speed", ctypes.c_void_p),
        ("across", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("given", ctypes.c_void_p),
        ("few", _Few),
        ("made", ctypes.c_void_p),
        ("by_given", ctypes.c_void_p),
        ("relu", ctypes.c_int),
    )
