"""A small fully connected net trained by hand-written gradients and Adam on one flat vector.

For nets of a few thousand weights, torch spends nearly all its time on bookkeeping; this takes a third of it.
Activations are kept as (width, rows), with a last row of ones that carries the biases.
"""

from itertools import pairwise
from math import sqrt

import numpy as np

from laconic.core.values import Array, Weights


class FlatMlp:
    """Trains the weights of `Mlp(final="tanh")`, given and handed back as `nets` names them.

    Attributes:
        x: all rows, with a last column of ones.
        lr: Adam's learning rate.
    """

    def __init__(self, x: Array, weights: Weights, lr: float) -> None:
        self.x = np.concatenate([x.reshape(len(x), -1), np.ones((len(x), 1))], axis=1, dtype=np.float32)
        self.lr = lr
        self.names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        layers = [np.column_stack([weights[f"{name}.weight"], weights[f"{name}.bias"]]) for name in self.names]
        self.params = np.concatenate([layer.ravel() for layer in layers])
        self.grads, self.means, self.squares = (np.zeros_like(self.params) for _ in range(3))
        self.layers, self.layer_grads = (_cut(flat, layers) for flat in (self.params, self.grads))
        self.activations: list[Array] = []
        self.steps = 0

    def outputs(self, rows: Array) -> Array:
        """The net's outputs for these rows, (rows, dim), kept in mind for `learn`."""
        self.activations = [self.x.take(rows, axis=0).T]
        for layer in self.layers[:-1]:
            hidden = np.empty((len(layer) + 1, len(rows)), np.float32)
            hidden[-1] = 1
            np.maximum(np.dot(layer, self.activations[-1], out=hidden[:-1]), 0, out=hidden[:-1])
            self.activations.append(hidden)
        self.activations.append(np.tanh(self.layers[-1] @ self.activations[-1]))
        return self.activations[-1].T

    def learn(self, grads: Array) -> None:
        """One step of Adam, given the loss's gradients by the last outputs, (rows, dim)."""
        *inputs, out = self.activations
        flow = grads.T * (1 - out * out)
        for index in range(len(self.layers) - 1, 0, -1):
            np.dot(flow, inputs[index].T, out=self.layer_grads[index])
            flow = self.layers[index][:, :-1].T @ flow
            flow *= inputs[index][:-1] > 0
        np.dot(flow, inputs[0].T, out=self.layer_grads[0])
        self._adam()

    def weights(self) -> Weights:
        """What was learnt, as `nets` names it."""
        found: Weights = {}
        for name, layer in zip(self.names, self.layers, strict=True):
            found |= {f"{name}.weight": layer[:, :-1].copy(), f"{name}.bias": layer[:, -1].copy()}
        return found

    def _adam(self) -> None:
        self.steps += 1
        change = self.grads * _f32(0.1)
        self.means *= _f32(0.9)
        self.means += change
        np.multiply(self.grads, self.grads, out=change)
        change *= _f32(0.001)
        self.squares *= _f32(0.999)
        self.squares += change
        np.sqrt(self.squares, out=change)
        # Both bias corrections folded into numbers, to spare two passes over the vector.
        shrink = sqrt(1 - 0.999**self.steps)
        change += _f32(1e-8 * shrink)
        np.divide(self.means, change, out=change)
        change *= _f32(self.lr * shrink / (1 - 0.9**self.steps))
        self.params -= change


def _cut(flat: Array, layers: list[Array]) -> list[Array]:
    """Views into a flat vector, one for each layer and of its shape."""
    edges = np.cumsum([0, *(layer.size for layer in layers)])
    return [flat[start:end].reshape(layer.shape) for (start, end), layer in zip(pairwise(edges), layers, strict=True)]


def _f32(number: float) -> np.float32:
    return np.float32(number)
