"""All encoders, and which one suits which data."""

from itertools import pairwise
from math import prod, sqrt
from typing import ClassVar, TypeAlias

import lap
import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.device import device_now, is_on_cpu
from laconic.learn.encoders.encoder import (
    Encoder,
    Pca,
    RandomProjection,
    Rest,
    WhitenedPca,
    build_beside,
    fit_beside,
    fit_scores,
    score,
)
from laconic.learn.nets.layers import Shape, torch_generator
from laconic.learn.nets.nets import Cnn, Mlp, Net, give_randomness, initialise, make, to_array, to_tensor, weights_of
from laconic.learn.train.semisupervised import flip, shift
from laconic.learn.train.sgd import Optimiser, Sgd, send_back
from laconic.values import Array, Rng, Settings, Weights, check_above_zero, check_least, track


class Exact(Settings, frozen=True):
    """Find the best assignment of a batch's targets to its rows."""

    def assign(self, outputs: Array, targets: Array, epoch: int) -> Array:
        """The targets in their best order, each still there exactly once."""
        ordered: Array = targets[_best_order(outputs, targets)]
        return ordered


class Swaps(Settings, frozen=True):
    """Let pairs of rows swap targets where both are each other's best partner.

    A pass looks at all pairs of the batch in one matrix product. Rows meet others every epoch, so one pass is
    enough once the targets are roughly sorted; the first epoch sorts them exactly within small blocks.

    Attributes:
        block: rows in a block that is solved exactly in the first epoch.
    """

    block: int = 25

    def __post_init__(self) -> None:
        check_least(1, block=self.block)

    def assign(self, outputs: Array, targets: Array, epoch: int) -> Array:
        """The targets in a better order, or the same, each still there exactly once."""
        targets = targets.copy()
        for start in range(0, len(targets), self.block) if epoch == 0 else ():
            rows = slice(start, start + self.block)
            targets[rows] = targets[rows][_best_order(outputs[rows], targets[rows])]
        return _swap(outputs, targets)


AnyAssignment: TypeAlias = Exact | Swaps


def _best_order(outputs: Array, targets: Array) -> Array:
    if len(targets) == 1:
        return np.zeros(1, dtype=np.intp)
    # Least squared distance is largest inner product: the squared norms are the same in every order.
    order: Array = lap.lapjvr(-(outputs @ targets.T))[-1]
    return order


def _swap(outputs: Array, targets: Array) -> Array:
    """Swap, in place, the targets of all pairs of rows that are each other's best partner."""
    rows = np.arange(len(targets))
    gain = outputs @ targets.T
    gain -= gain.diagonal().copy()
    gain = gain + gain.T
    partner = gain.argmax(axis=1)
    # The sum above is symmetric to the last bit, so that both rows of a pair agree on its gain.
    swapping = ((partner[partner] == rows) & (gain[rows, partner] > 0)).nonzero()[0]
    targets[swapping] = targets[partner[swapping]]
    return targets


class FlatMlp:
    """Trains the weights of `Mlp(final="tanh")` by numpy: on so small batches, most of torch's time is the asking.

    `benchmarks/dense_paths.py` measures it against automatic gradients and against `laconic.learn.kernels`.
    """

    def __init__(self, x: Array, weights: Weights, lr: float, weight_decay: float = 0.0) -> None:
        # Rows and hidden layers end in a one, so that biases are the last column of a layer's matrix.
        self.x = np.concatenate([x.reshape(len(x), -1), np.ones((len(x), 1))], axis=1, dtype=np.float32)
        self.lr, self.weight_decay = lr, np.float32(weight_decay)
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
        if self.weight_decay:
            self.grads += self.weight_decay * self.params
        change = self.grads * np.float32(0.1)
        self.means *= np.float32(0.9)
        self.means += change
        np.multiply(self.grads, self.grads, out=change)
        change *= np.float32(0.001)
        self.squares *= np.float32(0.999)
        self.squares += change
        np.sqrt(self.squares, out=change)
        # Both bias corrections folded into numbers, to spare two passes over the vector.
        shrink = sqrt(1 - 0.999**self.steps)
        change += np.float32(1e-8 * shrink)
        np.divide(self.means, change, out=change)
        change *= np.float32(self.lr * shrink / (1 - 0.9**self.steps))
        self.params -= change


def _cut(flat: Array, layers: list[Array]) -> list[Array]:
    """Views into a flat vector, one for each layer and of its shape."""
    edges = np.cumsum([0, *(layer.size for layer in layers)])
    return [flat[start:end].reshape(layer.shape) for (start, end), layer in zip(pairwise(edges), layers, strict=True)]


class Nat(Encoder, frozen=True):
    """Noise as targets.

    Attributes:
        rows_net: the net for columns; it should end in tanh, as targets have norm 1.
        image_net: the net for images.
        epochs: how often every row is seen.
        batch: rows per step, and rows that trade targets with each other.
        lr: Adam's learning rate.
        weight_decay: weight of the L2 penalty.
        shift: images are moved by up to so many pixels, anew each time they are seen.
        flips: whether images are mirrored left to right, one time in two; digits should not be.
        every: trade targets in every so many epochs.
        assignment: how targets are traded.
    """

    rows_net: Mlp = msgspec.field(default_factory=lambda: Mlp(hidden=(30, 30), final="tanh"))
    image_net: Cnn = msgspec.field(default_factory=Cnn)
    epochs: int = 30
    batch: int = 100
    lr: float = 1e-3
    weight_decay: float = 0.0
    shift: int = 0
    flips: bool = False
    every: int = 1
    assignment: AnyAssignment = msgspec.field(default_factory=Swaps)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, epochs=self.epochs, batch=self.batch, every=self.every)
        check_least(0, weight_decay=self.weight_decay, shift=self.shift)
        check_above_zero(lr=self.lr)

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the rows' targets while the rows trade them."""
        targets = sphere(len(x), self.sized(x).dim_for(x.shape[1:]), rng)
        weights, _ = self.chase(x, targets, rng)
        return weights

    def chase(self, x: Array, targets: Array, rng: Rng) -> tuple[Weights, Array]:
        """Learn to hit these targets, a row each; the weights, and the targets as the rows own them in the end."""
        learner = self._learner(x, rng)
        targets = targets.copy()
        for epoch in track(self.epochs, "noise as targets"):
            order = rng.permutation(len(x))
            for start in range(0, len(x), self.batch):
                rows = order[start : start + self.batch]
                outputs, owned = learner.outputs(rows), targets.take(rows, axis=0)
                if epoch % self.every == 0:
                    owned = self.assignment.assign(outputs, owned, epoch // self.every)
                    targets[rows] = owned
                learner.learn((outputs - owned) * np.float32(2 / len(rows)))
        return learner.weights(), targets

    def _learner(self, x: Array, rng: Rng) -> "FlatMlp | _ModuleLearner":
        shape = x.shape[1:]
        module = make(self.net(shape), shape, self.sized(x).dim_for(shape), rng)
        if len(shape) == 1 and self.rows_net.final == "tanh" and not self.rows_net.dropout:
            if is_on_cpu():
                return FlatMlp(x, weights_of(module), self.lr, self.weight_decay)
            return _ModuleLearner(x, module, self)
        return _ModuleLearner(x, give_randomness(module, rng), self, rng)


def sphere(rows: int, dim: int, rng: Rng) -> Array:
    """Random points, uniform on the unit sphere."""
    points = rng.standard_normal((rows, dim), dtype=np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


class _ModuleLearner:
    """Any net, by automatic gradients; as `FlatMlp`."""

    def __init__(self, x: Array, module: nn.Module, nat: Nat, rng: Rng | None = None) -> None:
        self.x, self.nat = to_tensor(x), nat
        self.module = module.train()
        settings = Sgd(lr=nat.lr, weight_decay=nat.weight_decay)
        self.optimiser = Optimiser(settings, self.module, settings.begin(self.module))
        # Only what is drawn takes randomness, so that runs without views are what they were.
        self.views = torch_generator(rng) if rng is not None and x.ndim == 4 and (nat.shift or nat.flips) else None
        self.last: Tensor = torch.empty(0, device=device_now())

    def outputs(self, rows: Array) -> Array:
        x = self.x[torch.from_numpy(rows).to(device_now())]
        if self.views is not None:
            x = shift(x, self.nat.shift, self.views)
            x = flip(x, self.views) if self.nat.flips else x
        self.last = self.module(x)
        return to_array(self.last)

    def learn(self, grads: Array) -> None:
        self.module.zero_grad()
        send_back(self.last, to_tensor(grads))
        self.optimiser.step(self.nat.lr)

    def weights(self) -> Weights:
        return weights_of(self.module)


class Autoencoder(Encoder, frozen=True):
    """The narrow middle of a net trained to restore its rows; with convolutions for images.

    Attributes:
        rows_net: squeezes columns.
        image_net: squeezes images.
        restore: widens the numbers back into the row, columns or images.
        trainer: how both are trained, on the mean squared error.
    """

    rows_net: Mlp = msgspec.field(default_factory=Mlp)
    image_net: Cnn = msgspec.field(default_factory=lambda: Cnn(channels=(16, 32), hidden=(128,)))
    restore: Mlp = msgspec.field(default_factory=lambda: Mlp(hidden=(128,)))
    trainer: Sgd = msgspec.field(default_factory=lambda: Sgd(epochs=20, decay="cosine"))

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to restore these rows, and keep the squeezing half."""
        shape, dim = x.shape[1:], self.sized(x).dim_for(x.shape[1:])
        squeeze = self.net(shape).build(shape, dim)
        both = initialise(nn.Sequential(squeeze, self.restore.build((dim,), prod(shape))), rng)
        rows = to_tensor(x)
        self.trainer.fit(both, [rows], torch.flatten(rows, 1), functional.mse_loss, rng, what="autoencoder")
        return weights_of(squeeze)


class BestEncoder(Encoder, frozen=True):
    """Some columns by rank, and beside them components or learnt numbers of all columns, chosen on rows held out.

    Half of the numbers allowed, at most, or eight, are the columns from which the others follow best, as rank scores. A
    party of few columns so sends all of them. Whoever receives a rank score has the column's order: `Pca` sends no
    column as it is, at a cost in score. Up to `dim` it goes on with principal components, or with the middle of an
    autoencoder if trees rebuild clearly more of the party's columns with its help, on rows held out. That needs no
    labels; docs/decisions/0044 says how it was found. Images get components alone, and so does everything with `dim=0`,
    as in plans of earlier versions.

    Attributes:
        beside: what comes beside the ranks; None chooses on rows held out.
    """

    most_rows: ClassVar[int | None] = 250_000

    beside: Rest | None = None

    def net(self, shape: Shape) -> Net:
        """The net of what images get, and of what tables got in models saved by earlier versions."""
        return Mlp(hidden=())

    def form(self, shape: Shape, weights: Weights) -> nn.Module:
        """Scores beside sums or a small net, or sums alone."""
        return build_beside(prod(shape), weights) if "scores.knots" in weights else super().form(shape, weights)

    def spread(self, x: Array) -> Array:
        """Of rank scores, where these are sent."""
        return super().spread(x if x.ndim == 4 else score(x, *fit_scores(x)))

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find the columns, and what comes beside them; takes no randomness if columns by rank are all."""
        dim = min(self.sized(x).dim_for(x.shape[1:]), prod(x.shape[1:]))
        return Pca(dim=dim).fit(x, rng) if x.ndim == 4 or self.dim == 0 else fit_beside(x, dim, self.beside, rng)


AnyEncoder: TypeAlias = BestEncoder | Nat | Pca | WhitenedPca | RandomProjection | Autoencoder
