"""Many small nets of one form trained as a single tensor program, each on rows of its own.

All weights stand in one matrix, a row a net, and every step moves all nets at once, by gradients written out by hand:
small nets spend their time on bookkeeping, which is so paid once. Shards may differ in size: a net that has no rows
left in an epoch stands still. Convolutional nets are trained one after another: their time goes into the convolutions
themselves, and torch's grouped convolutions, measured on ten nets, took longer than ten single ones.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn.classifier import Shard
from laconic.learn.nets import Mlp, Net, make, weights_of
from laconic.learn.progress import track
from laconic.learn.sgd import Sgd
from laconic.learn.supervised import fit_supervised


def fit_nets(net: Net, task: Task, shards: Sequence[Shard], trainer: Sgd, rng: Rng) -> list[Weights]:
    """Train a net of classes for each shard.

    Args:
        net: the form of all nets; fully connected ones without dropout are trained at once, others in turn.
        task: two classes or several.
        shards: rows and class codes; each must have at least one row.
        trainer: how each is trained; it must have no patience, for there are no rows to validate on.
        rng: chance for first weights and for the order of rows.
    """
    if trainer.patience is not None:
        raise ValueError("patience needs rows to validate on, which these nets do not have; use patience=None")
    own = rng.spawn(len(shards))
    if not (isinstance(net, Mlp) and net.dropout == 0 and net.final == "linear"):
        return [fit_supervised(net, task, [x], y, trainer, chance) for (x, y), chance in zip(shards, own, strict=True)]
    shape = tuple(shards[0][0].shape[1:])
    first = [weights_of(make(net, shape, task.outputs, chance)) for chance in own]
    nets = _Nets((prod(shape), *net.hidden, task.outputs), first)
    moves = _Moves(nets.weights, trainer)
    rows = _Rows(shards, own)
    for epoch in track(trainer.epochs, f"{len(shards)} nets"):
        for batch in rows.epoch(trainer.batch):
            gradient = nets.gradient(batch)
            moves.step(gradient, batch.mask[:, :1], trainer.lr_at((epoch + batch.share) / trainer.epochs))
    return nets.apart(list(first[0]))


class _Batch(NamedTuple):
    """Rows and targets for each net, which of them are there, and the share of the epoch before them."""

    x: Array
    targets: Array
    mask: Array
    share: float


class _Rows:
    """The rows of all shards; batches are padded where a shard has run out of them."""

    def __init__(self, shards: Sequence[Shard], chance: Sequence[Rng]) -> None:
        self.x = [x.reshape(len(x), -1).astype(np.float32, copy=False) for x, _ in shards]
        self.y = [y for _, y in shards]
        self.chance = chance

    def epoch(self, size: int) -> Iterator[_Batch]:
        """Shuffled batches until every net has seen all its rows."""
        orders = [chance.permutation(len(y)) for y, chance in zip(self.y, self.chance, strict=True)]
        longest = max(map(len, orders))
        for at in range(0, longest, size):
            yield self._batch([order[at : at + size] for order in orders], at / longest)

    def _batch(self, rows: list[Array], share: float) -> _Batch:
        most = max(map(len, rows))
        x = np.zeros((len(rows), most, self.x[0].shape[1]), np.float32)
        targets = np.zeros((len(rows), most), np.int64)
        mask = np.zeros((len(rows), most), np.float32)
        for place, chosen in enumerate(rows):
            self.x[place].take(chosen, axis=0, out=x[place, : len(chosen)])
            targets[place, : len(chosen)] = self.y[place][chosen]
            mask[place, : len(chosen)] = 1
        return _Batch(x, targets, mask, share)


class _Nets:
    """Fully connected nets of the same widths, with views of each layer into one matrix of weights.

    Attributes:
        weights: shape (nets, weights), the weights and biases of each layer in turn.
    """

    def __init__(self, widths: tuple[int, ...], first: Sequence[Weights]) -> None:
        self.widths = widths
        self.weights = np.stack([np.concatenate([values.ravel() for values in one.values()]) for one in first])
        self.grads = np.zeros_like(self.weights)
        self.layers, self.layer_grads = (self._views(flat) for flat in (self.weights, self.grads))

    def gradient(self, batch: _Batch) -> Array:
        """How the mean loss of each net's rows changes with its weights."""
        inputs = [batch.x]
        for weight, bias in self.layers[:-1]:
            inputs.append(np.maximum(_linear(inputs[-1], weight, bias), 0))
        counts = np.maximum(batch.mask.sum(axis=1, keepdims=True), 1)
        flow = _error(_linear(inputs[-1], *self.layers[-1]), batch.targets) * (batch.mask / counts)[:, :, None]
        for index in range(len(self.layers) - 1, -1, -1):
            weight_grad, bias_grad = self.layer_grads[index]
            np.matmul(flow.transpose(0, 2, 1), inputs[index], out=weight_grad)
            np.sum(flow, axis=1, out=bias_grad)
            if index:
                flow = np.matmul(flow, self.layers[index][0])
                flow *= inputs[index] > 0
        return self.grads

    def apart(self, names: list[str]) -> list[Weights]:
        """Each net's weights under the names that `nets` gives them."""
        views = [part for layer in self.layers for part in layer]
        return [
            {name: view[place].copy() for name, view in zip(names, views, strict=True)}
            for place in range(len(self.weights))
        ]

    def _views(self, flat: Array) -> list[tuple[Array, Array]]:
        views, at = [], 0
        for inputs, outputs in pairwise(self.widths):
            end = at + inputs * outputs
            weight = flat[:, at:end].reshape(len(flat), outputs, inputs)
            views.append((weight, flat[:, end : end + outputs]))
            at = end + outputs
        return views


class _Moves:
    """Adam, or plain descent with momentum, for all nets; each counts its own steps, for some take fewer."""

    def __init__(self, weights: Array, trainer: Sgd) -> None:
        self.weights, self.trainer = weights, trainer
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)
        self.steps = np.zeros((len(weights), 1))

    def step(self, gradient: Array, active: Array, lr: float) -> None:
        """Move the nets that are active by their gradients."""
        self.steps += active
        gradient += np.float32(self.trainer.weight_decay) * self.weights
        if self.trainer.optimizer == "adam":
            self._adam(gradient, active, lr)
        else:
            self.mean *= 1 - active * np.float32(1 - self.trainer.momentum)
            self.mean += active * gradient
            self.weights -= np.float32(lr) * active * self.mean

    def _adam(self, gradient: Array, active: Array, lr: float) -> None:
        count = np.maximum(self.steps, 1)
        scale = np.sqrt(1 - 0.999**count)
        self.mean += (active * np.float32(0.1)) * (gradient - self.mean)
        np.multiply(gradient, gradient, out=gradient)
        gradient -= self.square
        gradient *= active * np.float32(0.001)
        self.square += gradient
        # Both bias corrections folded into numbers, to spare two passes over the matrix.
        np.sqrt(self.square, out=gradient)
        gradient += (1e-8 * scale).astype(np.float32)
        np.divide(self.mean, gradient, out=gradient)
        gradient *= (lr * active * scale / (1 - 0.9**count)).astype(np.float32)
        self.weights -= gradient


def _linear(x: Array, weight: Array, bias: Array) -> Array:
    out: Array = np.matmul(x, weight.transpose(0, 2, 1))
    out += bias[:, None]
    return out


def _error(outputs: Array, targets: Array) -> Array:
    """Probabilities less what is true: how cross-entropy changes with each output."""
    if outputs.shape[2] == 1:
        shares = 1 / (1 + np.exp(-np.clip(outputs, -60, 60)))
        return np.asarray(shares - targets[:, :, None].astype(np.float32))
    shares = np.exp(outputs - outputs.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    nets, rows = np.ogrid[: len(targets), : targets.shape[1]]
    shares[nets, rows, targets] -= 1
    return np.asarray(shares)
