"""Autoencoder: a net squeezes a row into a few numbers from which a second net, then thrown away, restores it."""

from math import prod

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.core.values import Array, Rng, Weights
from laconic.learn.encoder import Encoder
from laconic.learn.nets import Cnn, Mlp, Net, Shape, initialise, to_tensor, weights_of
from laconic.learn.sgd import Sgd


class Autoencoder(Encoder, frozen=True):
    """The narrow middle of a net trained to restore its rows; with convolutions for images.

    Attributes:
        rows_net: squeezes columns.
        image_net: squeezes images.
        restore: widens the numbers back into the row, columns and images alike.
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
        shape = x.shape[1:]
        squeeze = self.net(shape).build(shape, self.dim)
        both = initialise(nn.Sequential(squeeze, self.restore.build((self.dim,), prod(shape))), rng)
        rows = to_tensor(x)
        self.trainer.fit(both, [rows], torch.flatten(rows, 1), _squared_error, rng, what="autoencoder")
        return weights_of(squeeze)


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.mse_loss(outputs, targets)
