"""Noise as targets: a net learns to spread its rows evenly over a sphere, like rows close together.

Every row owns a random point on the unit sphere; the net learns to hit it, while rows of a batch trade points
whenever that brings them closer. P. Bojanowski and A. Joulin, "Unsupervised learning by predicting noise", ICML 2017;
used for one-shot vertical learning by Z. Wu, Q. Li and B. He, "Practical vertical federated learning with unsupervised
representation learning", 2022.
"""

from typing import Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor

from laconic.core.values import Array, Rng, Weights
from laconic.learn.assignment import AnyAssignment, Swaps
from laconic.learn.encoder import Encoder
from laconic.learn.flat_mlp import FlatMlp
from laconic.learn.nets import Cnn, Mlp, Net, Shape, give_chance, make, to_tensor, weights_of
from laconic.learn.progress import track
from laconic.learn.sgd import Optimiser, Sgd, send_back


class Nat(Encoder, frozen=True):
    """Noise as targets.

    Attributes:
        rows_net: the net for columns; it should end in tanh, as targets have norm 1.
        image_net: the net for images.
        epochs: how often every row is seen.
        batch: rows a step, and rows that trade targets with each other.
        lr: Adam's learning rate.
        every: trade targets in every so many epochs.
        assignment: how targets are traded.
    """

    rows_net: Mlp = msgspec.field(default_factory=lambda: Mlp(hidden=(30, 30), final="tanh"))
    image_net: Cnn = msgspec.field(default_factory=Cnn)
    epochs: int = 30
    batch: int = 100
    lr: float = 1e-3
    every: int = 1
    assignment: AnyAssignment = msgspec.field(default_factory=Swaps)

    def __post_init__(self) -> None:
        """Refuse counts below 1 and a learning rate that is not above 0."""
        super().__post_init__()
        for name, count in {"epochs": self.epochs, "batch": self.batch, "every": self.every}.items():
            if count < 1:
                raise ValueError(f"{name} must be 1 or more, not {count}")
        if not self.lr > 0:
            raise ValueError(f"lr must be above 0, not {self.lr}")

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the rows' targets while the rows trade them."""
        weights, _ = self.chase(x, sphere(len(x), self.dim, rng), rng)
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

    def _learner(self, x: Array, rng: Rng) -> "_Learner":
        shape = x.shape[1:]
        if len(shape) == 1 and self.rows_net.final == "tanh" and not self.rows_net.dropout:
            return FlatMlp(x, weights_of(make(self.rows_net, shape, self.dim, rng)), self.lr)
        return _TorchNet(x, self.net(shape), self.dim, self.lr, rng)


def sphere(rows: int, dim: int, rng: Rng) -> Array:
    """Random points, uniform on the unit sphere."""
    points = rng.standard_normal((rows, dim), dtype=np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


class _Learner(Protocol):
    """A net that is shown some rows, then told how its outputs should change."""

    def outputs(self, rows: Array) -> Array: ...

    def learn(self, grads: Array) -> None: ...

    def weights(self) -> Weights: ...


class _TorchNet:
    """Any net, trained by torch."""

    def __init__(self, x: Array, net: Net, dim: int, lr: float, rng: Rng) -> None:
        self.x = to_tensor(x)
        self.module = give_chance(make(net, x.shape[1:], dim, rng), rng).train()
        settings = Sgd(lr=lr, weight_decay=0.0)
        self.lr, self.optimiser = lr, Optimiser(settings, self.module, settings.begin(self.module))
        self.last: Tensor = torch.empty(0)

    def outputs(self, rows: Array) -> Array:
        self.last = self.module(self.x[torch.from_numpy(rows)])
        return self.last.detach().numpy()

    def learn(self, grads: Array) -> None:
        self.module.zero_grad()
        send_back(self.last, torch.from_numpy(grads))
        self.optimiser.step(self.lr)

    def weights(self) -> Weights:
        return weights_of(self.module)
