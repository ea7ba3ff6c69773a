"""A fully connected net trained by hand-written gradients and momentum on one flat vector."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from laconic.core.values import Array, Weights
from laconic.learn.compiled_layers import CompiledLayers, compiled_products
from laconic.learn.dense_layers import ACTIVATE, DenseLayer, Layers, TorchLayers
from laconic.learn.lanes import widened

if TYPE_CHECKING:
    from laconic.learn.descent import Rule
    from laconic.learn.layers import Final


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
        layers: list[DenseLayer] = []
        inputs = torch.tensor(x, dtype=torch.float32).reshape(len(x), -1)
        for pairs in zip(matrices, speeds, strict=True):
            matrix, bias, speed, bias_speed = map(torch.from_numpy, _each(list(pairs)))
            layer = DenseLayer(
                matrix=matrix,
                bias=bias,
                speed=speed,
                bias_speed=bias_speed,
                inputs=inputs,
                outputs=torch.empty(len(x), len(bias)),
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
    values = torch.tensor(x, dtype=torch.float32).reshape(len(x), -1)
    names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    for name in names:
        matrix, bias = (torch.tensor(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
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
