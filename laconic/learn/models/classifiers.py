"""The classifiers to choose from by value: nets, logistic regression, forests and boosted trees."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from laconic.learn.device import is_on_cpu
from laconic.learn.models.classifier import Classifier, Shard
from laconic.learn.models.supervised import fit_linear, fit_supervised, predict_linear, predict_supervised
from laconic.learn.nets.nets import Mlp, Net, default_net, load, make, weights_of
from laconic.learn.train.sgd import Sgd, move
from laconic.learn.trees.dense_trees import Boosted, Forest
from laconic.tables.task import Task
from laconic.values import Array, Rng, Weights, track


def fit_nets(net: Net, task: Task, shards: Sequence[Shard], trainer: Sgd, rng: Rng) -> list[Weights]:
    """Train a net of classes for each shard.

    Args:
        net: the form of all nets; on the processor, fully connected ones without dropout are trained at once, others
            in turn.
        task: two classes or several.
        shards: rows and class codes; each must have at least one row.
        trainer: how each is trained; it must have no patience, for there are no rows to validate on.
        rng: chance for first weights and for the order of rows.
    """
    if trainer.patience is not None:
        raise ValueError("patience needs rows to validate on, which these nets do not have; use patience=None")
    own = rng.spawn(len(shards))
    if not (isinstance(net, Mlp) and net.dropout == 0 and net.final == "linear" and is_on_cpu()):
        return [fit_supervised(net, task, [x], y, trainer, chance) for (x, y), chance in zip(shards, own, strict=True)]
    shape = tuple(shards[0][0].shape[1:])
    first = [weights_of(make(net, shape, task.outputs, chance)) for chance in own]
    nets = _Nets((prod(shape), *net.hidden, task.outputs), first)
    moves = _Moves(nets, trainer)
    rows = _Rows(shards, own)
    for epoch in track(trainer.epochs, f"{len(shards)} nets"):
        for batch in rows.epoch(trainer.batch):
            nets.find_gradients(batch)
            moves.step(batch.mask[:, 0], trainer.lr_at((epoch + batch.share) / trainer.epochs))
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
        grads: the gradients of the last batch, likewise.
    """

    def __init__(self, widths: tuple[int, ...], first: Sequence[Weights]) -> None:
        self.widths = widths
        self.weights = np.stack([np.concatenate([values.ravel() for values in one.values()]) for one in first])
        self.grads = np.zeros_like(self.weights)
        self.layers, self.layer_grads = (self._views(flat) for flat in (self.weights, self.grads))

    def find_gradients(self, batch: _Batch) -> None:
        """Write into `grads` how the mean loss of each net's rows changes with its weights."""
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
    """The optimiser of all nets; each counts its own steps, for some take fewer."""

    def __init__(self, nets: _Nets, trainer: Sgd) -> None:
        self.trainer = trainer
        self.weights, self.grads = (list(torch.from_numpy(flat)) for flat in (nets.weights, nets.grads))
        self.moments = [list(torch.zeros(nets.weights.shape, device="cpu")) for _ in ("mean", "square")]
        self.steps = list(torch.zeros(len(self.weights), device="cpu"))

    def step(self, active: Array, lr: float) -> None:
        """Move the nets that are active by their gradients."""

        def chosen(values: list[torch.Tensor]) -> list[torch.Tensor]:
            return [value for value, is_active in zip(values, active, strict=True) if is_active]

        moments = [chosen(values) for values in self.moments]
        move(self.trainer, chosen(self.weights), chosen(self.grads), moments, chosen(self.steps), lr)


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


class Network(Classifier, frozen=True):
    """A net trained by gradient descent; many of them are trained as one tensor program.

    A net of your own is a value with `build` and `model`, as `Mlp` has them.

    Attributes:
        net: its form; None takes a small net that suits the rows.
        trainer: how it is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=50, batch=32, lr=3e-3)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Train one net."""
        return self.fit_many(task, [(x, y)], rng)[0]

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Train a net for each shard, all at once."""
        return fit_nets(self._net(shards[0][0].shape[1:]), task, shards, self.trainer, rng) if shards else []

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Put the rows through the net."""
        return predict_supervised(self._net(x.shape[1:]), task, weights, [x])

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not the weights of this net."""
        load(self._net(shape).build(shape, task.outputs), weights)

    def _net(self, shape: tuple[int, ...]) -> Net:
        return self.net or default_net(shape)


class Logistic(Classifier, frozen=True):
    """Logistic regression.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a penalty that the solver cannot take."""
        if self.penalty <= 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Solve for the coefficients."""
        return fit_linear(task, x, y, self.penalty)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Probabilities of a linear map."""
        return predict_linear(task, weights, x)

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not this map's coefficients."""
        columns = prod(shape)
        if {name: array.shape for name, array in weights.items()} != {
            "coefficients": (task.outputs, columns),
            "intercept": (task.outputs,),
        }:
            raise ValueError(f"it does not have {task.outputs} x {columns} coefficients and {task.outputs} intercepts")


AnyClassifier: TypeAlias = Network | Logistic | Forest | Boosted
