"""What every encoder is: settings that learn, without labels, a net which puts a row into a few numbers."""

from math import prod
from typing import ClassVar, Self

import msgspec
import numpy as np
from torch import Tensor, nn

from laconic.core.ledger import Noise
from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Mlp, Net, load, make, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import evaluate
from laconic.values import Array, Rng, Settings, Weights

_KEPT = 0.99
"""The share of the variance that is kept where the width is not given."""

_BRANCH = Mlp(hidden=(64, 64))
_DIRECT, _BRANCH_END = "direct.", "branch.5.bias"
"""How the weights of a net with a branch are called; saved models depend on these names and on the branch's form."""


def most_numbers(shape: Shape) -> int:
    """The most numbers that stand for a row of this shape where nobody says how many."""
    return 32 if len(shape) == 3 else 16


class Encoder(Settings, frozen=True):
    """Abstract: learns from unlabelled rows the weights of a net that puts a row into at most `dim` numbers.

    Rows are float32 and already standardised: (rows, columns), or (rows, channels, height, width) for images.
    Linear encoders put out min(`dim`, numbers in a row): more would carry nothing new. Others put out `dim` exactly.

    What is learnt is always a net, so any encoder can be trained on with labels:
    `load(encoder.build(shape, weights), weights)` is exactly what `encode` applies.

    Attributes:
        dim: how many numbers stand for a row. None takes as few as keep 99 % of the rows' variance, at most 16, or 32
            for images; `FedOnce` has an allowance of its own. 0 does not look at rows, as an encoder with noise must
            not, nor did earlier versions: 8, or 32 for images, and at most half as many as a row has.
    """

    most_rows: ClassVar[int | None] = 1_000_000
    """The most rows that it learns from, drawn at random where a party has more; None, as with noise, for all."""

    dim: int | None = None

    def __post_init__(self) -> None:
        if self.dim is not None and self.dim < 0:
            raise ValueError(f"dim must be 1 or more, or left out for what suits the data, not {self.dim}")

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
        """How many numbers stand for a row of this shape: `dim`, or what is taken without a look at rows."""
        return self.dim or max(1, min(32 if len(shape) == 3 else 8, prod(shape) // 2))

    def sized(self, x: Array, most: int | None = None) -> Self:
        """The same with `dim` set, if it was None, to what keeps nearly all of these rows' variance.

        Args:
            x: the rows.
            most: the most numbers that may stand for a row; None for 16, or 32 for images.
        """
        if self.dim is not None:
            return self
        return msgspec.structs.replace(self, dim=_enough(self.spread(x), most or most_numbers(x.shape[1:])))

    def spread(self, x: Array) -> Array:
        """The variances along the principal components of what the encoder works on, largest first."""
        return principal_components(x, prod(x.shape[1:]))[2]

    def build(self, shape: Shape, weights: Weights) -> nn.Module:
        """The net for rows of this shape as a module that such weights fit; they are not put into it."""
        direct = {name.removeprefix(_DIRECT): values for name, values in weights.items() if name.startswith(_DIRECT)}
        if not direct:
            return self.form(shape, weights)
        return Branched(self.form(shape, direct), _BRANCH.build(shape, len(weights[_BRANCH_END])))

    def form(self, shape: Shape, weights: Weights) -> nn.Module:
        """As `build`, for what `fit` returned."""
        return self.net(shape).build(shape, next(len(weights[name]) for name in reversed(weights) if "bias" in name))

    def able_to_learn(self, weights: Weights, shape: Shape, rng: Rng) -> Weights:
        """The same function as weights of a net that can learn more than sums of columns.

        A net without hidden layers gets a branch beside it that has two, and that starts at zero.
        """
        if sum(name.endswith("weight") and values.ndim > 1 for name, values in weights.items()) > 1:
            return weights
        outputs = len(self.encode(weights, np.zeros((1, *shape), np.float32))[0])
        branch = weights_of(make(_BRANCH, shape, outputs, rng))
        found = {_DIRECT + name: values for name, values in weights.items()}
        found |= {f"branch.{name}": values.copy() for name, values in branch.items()}
        for end in (_BRANCH_END, _BRANCH_END.replace("bias", "weight")):
            found[end] = np.zeros_like(found[end])
        return found

    def encode(self, weights: Weights, x: Array) -> Array:
        """The numbers that stand for each row: float32, (rows, `dim`)."""
        return to_array(evaluate(load(self.build(x.shape[1:], weights), weights), [to_tensor(x)]))


class Branched(nn.Module):
    """The sum of a net and of another one beside it."""

    def __init__(self, direct: nn.Module, branch: nn.Module) -> None:
        super().__init__()
        self.direct, self.branch = direct, branch

    def forward(self, x: Tensor) -> Tensor:
        """The sum of what both put out."""
        found: Tensor = self.direct(x) + self.branch(x)
        return found


class LinearEncoder(Encoder, frozen=True):
    """Abstract: (row - mean) times a matrix; `fit` finds the two."""

    def net(self, shape: Shape) -> Mlp:
        """A net of one linear layer."""
        return Mlp(hidden=())

    def dim_for(self, shape: Shape) -> int:
        """`dim`, or the numbers in a row if those are fewer."""
        return min(super().dim_for(shape), prod(shape))


def _enough(variances: Array, most: int) -> int:
    """How many of these variances, largest first, make up nearly all of their sum; at most `most`."""
    total = max(float(variances.sum()), np.finfo(np.float64).tiny)
    needed = int(np.searchsorted(np.cumsum(variances) / total, _KEPT - 1e-9)) + 1
    return max(1, min(needed, most, len(variances)))


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
        mean, components, _ = principal_components(x, self.sized(x).dim_for(x.shape[1:]))
        return as_layer(mean, components)


class WhitenedPca(LinearEncoder, frozen=True):
    """The first `dim` principal components, each scaled to unit variance; those without variance become zeros."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and scaled components; takes no randomness."""
        mean, components, variances = principal_components(x, self.sized(x).dim_for(x.shape[1:]))
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
        width, dim = prod(x.shape[1:]), self.sized(x).dim_for(x.shape[1:])
        directions, upper = np.linalg.qr(rng.standard_normal((width, dim)))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthonormal matrices.
        return as_layer(flat(x).mean(axis=0), directions * np.sign(np.diag(upper)))
