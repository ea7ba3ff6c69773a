"""Fully connected nets by hand-written gradients: one way by torch for all of them, and compiled code for one use.

Automatic gradients spend more time on keeping notes than on such small products; see `benchmarks/dense_paths.py`.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from laconic.learn.device import device_now
from laconic.learn.nets.layers import Final, Linear
from laconic.learn.nets.nets import Join
from laconic.values import Array


class Stage(NamedTuple):
    """One layer: a matrix with its biases, and what follows it.

    Attributes:
        weight: (outputs, inputs), or (nets, outputs, inputs) for nets side by side.
        bias: (outputs,), or (nets, 1, outputs).
        final: what follows.
    """

    weight: Tensor
    bias: Tensor
    final: Final


def forwards(stages: Sequence[Stage], x: Tensor) -> list[Tensor]:
    """What goes into the first layer, and what each puts out: (rows, numbers), or (nets, rows, numbers)."""
    multiply = torch.addmm if x.ndim == 2 else torch.baddbmm
    given = [x]
    for weight, bias, final in stages:
        given.append(_FOLLOW[final](multiply(bias, given[-1], weight.mT)))
    return given


def slopes(stages: Sequence[Stage], given: Sequence[Tensor], slope: Tensor) -> list[Tensor]:
    """How the loss changes with every layer's sums, first to last, given how it changes with the last outputs.

    A matrix's gradient is then `slope.mT @ given`, with what went into its layer; a bias's is the sum over rows.
    """
    found = []
    for place in range(len(stages) - 1, -1, -1):
        slope = _TURN_BACK[stages[place].final](slope, given[place + 1])
        found.append(slope)
        if place:
            slope = slope @ stages[place].weight
    return found[::-1]


_FOLLOW: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "linear": lambda sums: sums,
}
_TURN_BACK: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda slope, given: torch.ops.aten.threshold_backward(slope, given, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "linear": lambda slope, _: slope,
}


def stages_of(module: nn.Module) -> dict[str, Stage] | None:
    """A module's layers by path ("0.", "head.2."); None if it holds more than matrices with biases, ReLU and tanh."""
    found: dict[str, Stage] = {}
    for path, layer in _unfolded(module):
        if isinstance(layer, (Linear, nn.Linear)) and layer.bias is not None:
            last, found[path] = path, Stage(layer.weight, layer.bias, "linear")
        elif type(layer) in _FINALS and found and found[last].final == "linear":
            found[last] = found[last]._replace(final=_FINALS[type(layer)])
        else:
            return None
    # Fewer weights than places for them: some are shared, and a row's gradient is then no outer product.
    weights = {id(values) for stage in found.values() for values in (stage.weight, stage.bias)}
    return found if found and len(weights) == 2 * len(found) else None


_FINALS: dict[type[nn.Module], Final] = {nn.ReLU: "relu", nn.Tanh: "tanh"}


def _unfolded(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module's layers as rows pass them, each after its path; what only flattens is left out."""
    if type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1:
        return
    if type(module) is nn.Sequential:
        for name, layer in module._modules.items():  # `named_children` leaves out a layer that comes again.
            yield from _unfolded(layer or nn.Identity(), f"{path}{name}.")
    elif type(module) is Join and (module.own is None or type(module.own) is nn.Flatten):
        yield from _unfolded(module.head, f"{path}head.")
    else:
        yield path, module


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


class DenseLayer(NamedTuple):
    """One layer, and all that it reads and writes, each in one piece of memory.

    Attributes:
        matrix: weights, (inputs, outputs); the number of outputs is a multiple of `LANES`.
        bias: one weight per output.
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
    equal = (x[:, None] == x).sum(axis=0)
    return np.asarray(x[equal.argmax(axis=0), np.arange(x.shape[1])])


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
