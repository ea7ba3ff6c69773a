"""Encoders with a price, or with nothing to hide."""

from math import inf, prod, sqrt
from typing import Self, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from laconic.core.ledger import Noise
from laconic.learn.device import device_now
from laconic.learn.encoders.encoder import Encoder, LinearEncoder, as_layer, flat
from laconic.learn.encoders.learnt import AnyAssignment, Exact, sphere
from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Cnn, Mlp, Net, give_randomness, make, to_array, to_tensor, weights_of
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import clip_rows, gaussian_noise
from laconic.privacy.private_sgd import UNCOVERED, UNIT, DpSgd, PrivateStep
from laconic.privacy.randomness import poisson_sample, randomness_from
from laconic.values import Array, Rng, Weights, check_least, track


class DpPca(LinearEncoder, frozen=True):
    """The first `dim` principal components of rows under differential privacy, each scaled to about unit variance.

    Rows are clipped in length and not centred: they come standardised, so that their mean is near zero already.

    Attributes:
        sigma: standard deviation of the noise on the covariance, in units of what one row can change; None to have it
            worked out from a budget.
        clip: the greatest length of a row; None takes the root of its columns, the length of a typical one.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    dim: int = 0
    sigma: float | None = None
    clip: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma is not None and not 0 <= self.sigma < inf:
            raise ValueError(f"sigma must be 0 or more, not {self.sigma}; leave it out to have a budget decide")
        if self.clip is not None and not 0 < self.clip < inf:
            raise ValueError(f"clip must be above 0, not {self.clip}; leave it out for the root of the columns")

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find the components of the noised sum of all rows' squares."""
        variances, components = np.linalg.eigh(self.noised_squares(x, rng))
        width, count = len(variances), self.dim_for(x.shape[1:])
        components, variances = components[:, ::-1][:, :count], variances[::-1][:count]
        # Below this, a variance is what noise alone would show (the edge of Wigner's semicircle).
        floor = max(self.needed_sigma() * self._clip(width) ** 2 * sqrt(2 * width), 1e-6 * len(x))
        return as_layer(np.zeros(width), components * np.sqrt(len(x) / np.maximum(variances, floor)))

    def noised_squares(self, x: Array, rng: Rng) -> Array:
        """The sum over rows of each clipped row times itself, with noise: all that `fit` learns of the rows."""
        clip = self._clip(flat(x).shape[1])
        rows = clip_rows(flat(x), clip).astype(np.float64)
        squares: Array = rows.T @ rows
        return squares + self._noise_matrix(squares, self.needed_sigma() * clip**2, rng)

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """One answer, of which one row changes at most the square of its clipped length."""
        caveat = f"covers the components found, and all that is made from them alone; {UNCOVERED}"
        return (gaussian_noise(self.needed_sigma(), 1.0, UNIT, caveat, seeded=self.seeded),)

    def demand(self, rows: int) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "DpPca":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def needed_sigma(self) -> float:
        """The noise's scale; not having one yet is an error."""
        if self.sigma is None:
            raise ValueError("DpPca has no sigma; give sigma=..., or a plan with budget.epsilon to work it out")
        return self.sigma

    def _clip(self, width: int) -> float:
        return self.clip or sqrt(width)

    def _noise_matrix(self, squares: Array, scale: float, rng: Rng) -> Array:
        # A symmetric matrix has each number off the diagonal twice: seen as a vector of the same length, such a pair is
        # one number times the root of 2, so that noise of one scale on that vector is scale / root 2 on the pair.
        randomness = randomness_from(rng, self.seeded, squares)
        drawn = randomness.normal(squares.size).numpy().astype(np.float64).reshape(squares.shape)
        upper = np.triu(drawn, 1) * (scale / sqrt(2))
        return upper + upper.T + np.diag(np.diag(drawn)) * scale


class PublicProjection(LinearEncoder, frozen=True):
    """`dim` random orthonormal directions, uniform over all such, and not even the rows' mean.

    It learns nothing from rows, so the whole budget is left to the label holder.
    """

    dim: int = 0

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Draw the directions; of the rows only their width is used."""
        width = prod(x.shape[1:])
        directions, upper = np.linalg.qr(rng.standard_normal((width, self.dim_for(x.shape[1:]))))
        return as_layer(np.zeros(width), directions * np.sign(np.diag(upper)))

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """None is needed: nothing is learnt from rows."""
        return ()

    def demand(self, rows: int) -> None:
        """It asks for nothing."""
        return

    def with_sigma(self, sigma: float) -> "PublicProjection":
        """The same: there is nothing to noise."""
        return self


_CAVEAT = (
    "NOT PROVEN, the published claim: rows of a batch trade targets, so one row moves the gradients of others, which "
    "clipping does not bound; the epsilon from this noise does not hold"
)


class _PrivateNet(Encoder, frozen=True):
    """Abstract: a net that learns by private steps to put rows near points of length 1.

    Attributes:
        rows_net: the net for columns; it should end in tanh, as the points have length 1.
        image_net: the net for images.
        trainer: how the net is learnt.
    """

    dim: int = 16
    rows_net: Mlp = Mlp(hidden=(30,), final="tanh")
    image_net: Net = Cnn(channels=(16, 32), hidden=())
    trainer: DpSgd = DpSgd(epochs=10)

    def net(self, shape: Shape) -> Net:
        """The net for columns or the net for images."""
        return self.image_net if len(shape) == 3 else self.rows_net

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The trainer's."""
        return self.trainer.noise(rows)

    def demand(self, rows: int) -> Demand:
        """As the trainer's."""
        return self.trainer.demand(rows)

    def with_sigma(self, sigma: float) -> Self:
        """The same with this noise."""
        return msgspec.structs.replace(self, trainer=self.trainer.with_sigma(sigma))


class DpNat(_PrivateNet, frozen=True):
    """Noise as targets with clipped and noised gradients, whose published proof does not cover it.

    Attributes:
        assignment: how the rows of a batch trade targets.
    """

    assignment: AnyAssignment = Exact()

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the rows' targets while the rows of a batch trade them."""
        shape, dim = x.shape[1:], self.dim_for(x.shape[1:])
        module = give_randomness(make(self.net(shape), shape, dim, rng), rng)
        targets = to_tensor(sphere(len(x), dim, rng))
        randomness, inputs = randomness_from(rng, self.trainer.seeded, x), to_tensor(x)
        step = PrivateStep(self.trainer, module, _distance, len(x), randomness)
        for _ in track(self.trainer.steps(len(x)), "noise as targets"):
            rows = poisson_sample(len(x), self.trainer.rate(len(x)), randomness)
            if len(rows):
                outputs = to_array(module(inputs[rows]))
                targets[rows] = to_tensor(self.assignment.assign(outputs, to_array(targets[rows]), 0))
            step.take([inputs[rows]], targets[rows], self.trainer.lr)
        return weights_of(module)

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The trainer's, marked as not proven."""
        return tuple(msgspec.structs.replace(noise, proven=False, caveat=_CAVEAT) for noise in self.trainer.noise(rows))


def _distance(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(dim=1).mean()


class Codebook(_PrivateNet, frozen=True):
    """A net that learns to put rows near the words of a public codebook, all words about equally often.

    The words' prices are learnt, clipped and noised together with the weights.

    Attributes:
        words: how many code words there are.
        pressure: how strongly a row's choice raises the price of its word, beside how it changes the net.
    """

    words: int = 64
    pressure: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(2, words=self.words)
        check_least(0, pressure=self.pressure)

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn to hit the nearest words while prices keep them evenly used."""
        shape, dim = x.shape[1:], self.dim_for(x.shape[1:])
        words = to_tensor(sphere(self.words, dim, rng))
        module = _Priced(make(self.net(shape), shape, dim, rng), self.words)
        give_randomness(module, rng)
        randomness, rows = randomness_from(rng, self.trainer.seeded, x), to_tensor(x)
        step = PrivateStep(self.trainer, module, self._loss, len(x), randomness)
        for _ in track(self.trainer.steps(len(x)), "codebook"):
            batch = rows[poisson_sample(len(x), self.trainer.rate(len(x)), randomness)]
            chosen = module.choose(batch, words)
            step.take([batch, torch.nn.functional.one_hot(chosen, self.words).float()], words[chosen], self.trainer.lr)
        return weights_of(module.net)

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared distance to the word; and, by its slope alone, a rise in the price of each word chosen."""
        distance = (outputs[:, :-1] - targets).square().sum(dim=1)
        return (distance - self.pressure * outputs[:, -1]).mean()


class _Priced(nn.Module):
    """The net, and beside it a linear layer without bias whose weights are the words' prices."""

    def __init__(self, net: nn.Module, words: int) -> None:
        super().__init__()
        self.net, self.prices = net, nn.Linear(words, 1, bias=False, device=device_now())
        nn.init.zeros_(self.prices.weight)

    def forward(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """Outputs for the rows, and as a last number the price of each one's word."""
        return torch.cat((self.net(rows), self.prices(chosen)), dim=1)

    @torch.no_grad()
    def choose(self, rows: Tensor, words: Tensor) -> Tensor:
        """For each row, the word that is nearest to its output and cheapest."""
        return (torch.cdist(self.net(rows), words).square() + self.prices.weight).argmin(dim=1)


PrivateEncoder: TypeAlias = DpPca | Codebook | DpNat | PublicProjection
