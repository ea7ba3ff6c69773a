"""Encoders that are one linear map after centring: what they share."""

from math import prod

import numpy as np

from laconic.core.values import Array, Weights
from laconic.learn.encoder import Encoder
from laconic.learn.nets import Mlp, Shape


class LinearEncoder(Encoder, frozen=True):
    """Abstract: (row - mean) times a matrix; `fit` finds the two."""

    def net(self, shape: Shape) -> Mlp:
        """A net of one linear layer."""
        return Mlp(hidden=())

    def dim_for(self, shape: Shape) -> int:
        """`dim`, or the numbers in a row if those are fewer."""
        return min(self.dim, prod(shape))


def flat(x: Array) -> Array:
    """Rows of float64 numbers, whatever the rows' shape."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def as_layer(mean: Array, directions: Array) -> Weights:
    """The weights of one linear layer that takes `mean` off a row and multiplies it by the columns of `directions`."""
    return {"1.weight": directions.T.astype(np.float32), "1.bias": (-mean @ directions).astype(np.float32)}
