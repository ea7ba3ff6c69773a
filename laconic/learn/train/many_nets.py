"""Fully connected nets of one form, trained side by side, each on rows of its own, by hand-written gradients."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from laconic.learn.device import device_now
from laconic.learn.kernels import Stage, forwards, slopes
from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Mlp, make, to_array, to_tensor, weights_of
from laconic.learn.train.losses import MEAN, SD, kept_scale, scale_of, slope_of
from laconic.learn.train.sgd import Sgd, move
from laconic.tables.task import Task
from laconic.values import Array, Rng, Weights, flat, track


class DenseNets:
    """Nets of one form, and their optimiser; each counts its own steps, for some may take fewer."""

    def __init__(self, net: Mlp, first: Sequence[Weights], trainer: Sgd) -> None:
        self.trainer, self.given = trainer, [torch.empty(0, device=device_now())]
        self.names, self.shapes = list(first[0]), [values.shape for values in first[0].values()]
        all_weights = to_tensor(
            np.stack([np.concatenate([values.ravel() for values in one.values()]) for one in first])
        )
        by_weights, steps = torch.zeros_like(all_weights), torch.zeros(len(first), device=device_now())
        self.layers, self.grads = self._layers(all_weights), self._layers(by_weights)
        self.stages = [Stage(*layer, "relu") for layer in self.layers[:-1]] + [Stage(*self.layers[-1], net.final)]
        moments = [torch.zeros_like(all_weights) for _ in trainer.moments]
        self.state = [list(values) for values in (all_weights, by_weights, steps, *moments)]

    @torch.inference_mode()
    def outputs(self, x: Tensor) -> Tensor:
        """What each net makes of rows of its own, (nets, rows, columns); kept in mind for `learn`."""
        self.given = forwards(self.stages, x)
        return self.given[-1]

    @torch.inference_mode()
    def learn(self, slope: Tensor, lr: float, active: Sequence[int]) -> None:
        """One step of the nets that are active, given how each one's loss changes with its last outputs."""
        found = slopes(self.stages, self.given, slope)
        for one, taken, (weight, bias) in zip(found, self.given, self.grads, strict=False):
            torch.bmm(one.mT, taken, out=weight)
            torch.sum(one, dim=1, keepdim=True, out=bias)
        weights, grads, steps, *moments = ([values[place] for place in active] for values in self.state)
        move(self.trainer, weights, grads, moments, steps, lr)

    def weights(self) -> list[Weights]:
        """Each net's weights, as `nets` names them."""
        arrays = [to_array(values) for layer in self.layers for values in layer]
        parts = list(zip(self.names, self.shapes, arrays, strict=True))
        count = len(arrays[0])
        return [{name: values[place].reshape(shape).copy() for name, shape, values in parts} for place in range(count)]

    def _layers(self, vectors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views into the nets' vectors: each layer's matrices, and its biases as one row per net."""
        parts = torch.split(vectors, [prod(shape) for shape in self.shapes], dim=1)
        shaped = zip(parts[::2], parts[1::2], self.shapes[::2], strict=True)
        return [(weight.view(len(vectors), *shape), bias.unsqueeze(1)) for weight, bias, shape in shaped]


def fit_dense_nets(
    net: Mlp, task: Task, shards: Sequence[tuple[Array, Array]], trainer: Sgd, own: Sequence[Rng]
) -> list[Weights]:
    """Train a net for each shard, given where each one's first weights and order of rows come from."""
    shape: Shape = shards[0][0].shape[1:]
    nets = DenseNets(net, [weights_of(make(net, shape, task.outputs, rng)) for rng in own], trainer)
    slope, scales = slope_of(task), [scale_of(task, y) for _, y in shards]
    shards = [(x, _targets(y, scale)) for (x, y), scale in zip(shards, scales, strict=True)]
    for epoch in track(trainer.epochs, f"{len(shards)} nets"):
        for batch in _batches(shards, trainer.batch, own):
            outputs, targets = nets.outputs(to_tensor(batch.x)), torch.tensor(batch.targets, device=device_now())
            by_row = slope(outputs.flatten(0, 1), targets.flatten()).view_as(outputs)
            by_row.mul_(to_tensor(batch.shares))
            nets.learn(by_row, trainer.lr_at((epoch + batch.before) / trainer.epochs), batch.active)
    kept = (kept_scale(task, scale) for scale in scales)
    return [{**weights, **scale} for weights, scale in zip(nets.weights(), kept, strict=True)]


def _targets(y: Array, scale: Weights) -> Array:
    """Class codes as they are, and numbers standardised."""
    return np.asarray((y - scale[MEAN]) / scale[SD], dtype=np.float32) if scale else y


class _Batch(NamedTuple):
    """Rows and targets for each net, padded where it has fewer; what each row counts; and where in the epoch it is."""

    x: Array
    targets: Array
    shares: Array
    active: list[int]
    before: float


def _batches(shards: Sequence[tuple[Array, Array]], size: int, own: Sequence[Rng]) -> Iterator[_Batch]:
    """Shuffled batches until every net has seen all its rows."""
    orders = [rng.permutation(len(y)) for (_, y), rng in zip(shards, own, strict=True)]
    longest = max(map(len, orders))
    for at in range(0, longest, size):
        rows = [order[at : at + size] for order in orders]
        most = max(map(len, rows))
        x = np.zeros((len(rows), most, prod(shards[0][0].shape[1:])), np.float32)
        numbers = shards[0][1].dtype.kind == "f"
        targets = np.zeros((len(rows), most), np.float32 if numbers else np.int64)
        shares = np.zeros((len(rows), most, 1), np.float32)
        for place, (chosen, shard) in enumerate(zip(rows, shards, strict=True)):
            x[place, : len(chosen)] = flat(shard[0][chosen])
            targets[place, : len(chosen)] = shard[1][chosen]
            shares[place, : len(chosen)] = 1 / max(len(chosen), 1)
        active = [place for place, chosen in enumerate(rows) if len(chosen)]
        yield _Batch(x, targets, shares, active, at / longest)
