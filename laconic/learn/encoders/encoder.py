"""What every encoder is: settings that learn, without labels, a net which puts a row into a few numbers."""

from math import prod

import numpy as np
from torch import nn

from laconic.core.ledger import Noise
from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Mlp, Net, load, to_array, to_tensor
from laconic.learn.train.sgd import evaluate
from laconic.values import Array, Rng, Settings, Weights


class Encoder(Settings, frozen=True):
    """Abstract: learns from unlabelled rows the weights of a net that puts a row into at most `dim` numbers.

    Rows are float32 and already standardised: (rows, columns), or (rows, channels, height, width) for images.
    Linear encoders put out min(`dim`, numbers in a row): more would carry nothing new. Others put out `dim` exactly.

    What is learnt is always a net, so any encoder can be trained on with labels: `load(encoder.build(shape), weights)`
    is exactly what `encode` applies.

    Attributes:
        dim: how many numbers stand for a row; 0 takes 8 for columns and 32 for images, and at most half as many as a
            row has (a single column apart): as many as there are columns would be the columns themselves, turned round.
    """

    dim: int = 16

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ValueError(f"dim must be 1 or more, or 0 for what suits the data, not {self.dim}")

    def net(self, shape: Shape) -> Net:
        """The net, for rows of this shape, whose weights `fit` learns."""
        raise NotImplementedError

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn the net's weights from these rows."""
        raise NotImplementedError

    def noise(self, rows: int) -> tuple[Noise, ...] | None:
        """The noise that `fit` puts on what it learns from so many rows; None if rows enter without noise.

        Nothing at all (an empty tuple) means that `fit` learns nothing from rows, and so has nothing to hide.
        """
        return None

    def dim_for(self, shape: Shape) -> int:
        """How many numbers stand for a row of this shape: as asked for, or what suits."""
        return self.dim or max(1, min(32 if len(shape) == 3 else 8, prod(shape) // 2))

    def build(self, shape: Shape) -> nn.Module:
        """The net for rows of this shape as a module, its weights unset."""
        return self.net(shape).build(shape, self.dim_for(shape))

    def encode(self, weights: Weights, x: Array) -> Array:
        """The numbers that stand for each row: float32, (rows, `dim_for` the row's shape)."""
        return to_array(evaluate(load(self.build(x.shape[1:]), weights), [to_tensor(x)]))


class LinearEncoder(Encoder, frozen=True):
    """Abstract: (row - mean) times a matrix; `fit` finds the two."""

    def net(self, shape: Shape) -> Mlp:
        """A net of one linear layer."""
        return Mlp(hidden=())

    def dim_for(self, shape: Shape) -> int:
        """`dim`, or the numbers in a row if those are fewer."""
        return min(super().dim_for(shape), prod(shape))


def flat(x: Array) -> Array:
    """Rows of float64 numbers, whatever the rows' shape."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def as_layer(mean: Array, directions: Array) -> Weights:
    """The weights of one linear layer that takes `mean` off a row and multiplies it by the columns of `directions`."""
    return {"1.weight": directions.T.astype(np.float32), "1.bias": (-mean @ directions).astype(np.float32)}


class Pca(LinearEncoder, frozen=True):
    """The first `dim` principal components, in units of the columns."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and components; takes no randomness."""
        mean, components, _ = principal_components(x, self.dim_for(x.shape[1:]))
        return as_layer(mean, components)


class WhitenedPca(LinearEncoder, frozen=True):
    """The first `dim` principal components, each scaled to unit variance; those without variance become zeros."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and scaled components; takes no randomness."""
        mean, components, variances = principal_components(x, self.dim_for(x.shape[1:]))
        carries = variances > 1e-9 * max(variances[0], np.finfo(np.float64).tiny)
        scales = np.where(carries, 1 / np.sqrt(np.where(carries, variances, 1.0)), 0.0)
        return as_layer(mean, components * scales)


def principal_components(x: Array, count: int) -> tuple[Array, Array, Array]:
    """The mean, the first `count` components as columns, and their variances, largest first.

    A component's sign is chosen so that its largest entry is positive: the sign that a solver happens to
    return may differ from machine to machine.
    """
    rows = flat(x)
    mean = rows.mean(axis=0)
    rows = rows - mean
    covariance = rows.T @ rows / max(len(rows) - 1, 1)
    variances, components = np.linalg.eigh(covariance)
    components = components[:, ::-1][:, :count]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, np.arange(components.shape[1])])
    return mean, np.ascontiguousarray(components * signs), variances[::-1][:count].clip(min=0)


class RandomProjection(LinearEncoder, frozen=True):
    """`dim` random orthonormal directions, uniform over all such; the cheapest encoder there is."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Draw the directions; of the rows only the mean is used."""
        width = prod(x.shape[1:])
        directions, upper = np.linalg.qr(rng.standard_normal((width, self.dim_for(x.shape[1:]))))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthonormal matrices.
        return as_layer(flat(x).mean(axis=0), directions * np.sign(np.diag(upper)))
