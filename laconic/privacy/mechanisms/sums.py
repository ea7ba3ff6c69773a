"""Noise on sums of products of rows: one release from which a linear model can be made, with an epsilon.

The release is joint: the Gram matrix, the moments with the labels and, through the constant in every row, the count.
"""

from collections.abc import Mapping, Sequence
from math import inf, sqrt

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.learn.models.least_squares import pack, unpack, width_of
from laconic.learn.train.sgd import Sgd
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import gaussian_noise
from laconic.privacy.private_sgd import NEVER_COVERED, UNIT, DpSgd
from laconic.privacy.randomness import randomness_from
from laconic.privacy.row_releases import write_noise
from laconic.values import Array, Settings, Weights, check_above_zero

_CONSTANT = 0.3
"""The constant in each row of length 1: its square is the share of the length that is spent on the count."""

_COVERS = (
    "covers the sums sent, and the model made from them; "
    f"{NEVER_COVERED}; exchanging a row for another moves the sums {{:.2f}} times as far"
)

IN_SUM = (
    "parties put this noise together, each a share, under the masks of a secure sum: it holds as long as fewer collude "
    "with the server than the sum's words say, and numbers are rounded to whole steps beneath it"
)


class GaussianSums(Settings, frozen=True):
    """Rows brought to length 1, their products summed, and Gaussian noise on the sums.

    **Sensitivity.** A row enters as a vector `u` with `|u| <= 1`, of its features and a constant, and a target `t` with
    `|t| <= 1`. Released is the sum over rows of

        v(u, t) = (u_i^2 for each i;  root(2) u_i u_j for each i < j;  w u_i t_k for each i and k),

    where `w` is `moments_weight`. Taking the row away moves the sum by exactly `v(u, t)`, and

        |v|^2 = sum_i u_i^4 + 2 sum_(i<j) u_i^2 u_j^2 + w^2 sum_i u_i^2 sum_k t_k^2
              = |u|^4 + w^2 |u|^2 |t|^2 <= 1 + w^2,

    with equality for every row of full length: the L2 sensitivity of the joint release is exactly `root(1 + w^2)`, not
    a bound. Only one half of the symmetric matrix is sent. The factor root(2) on what is beside the diagonal makes
    that half as long as the whole matrix; without it, each such number would bear noise for two. Sent is the vector
    divided by these factors, which changes nothing: so numbers beside the diagonal bear noise that is less by root(2).

    What is printed is for that: a row there, or taken away. Replacing it by any other moves the sum by more, as two
    such vectors may point apart: with `s = u u'` and, at worst, `t t' = -1` or `s < 0`,

        |v - v'|^2 = 2 (1 + w^2) - 2 (s^2 - w^2 |s|) <= 2 (1 + w^2) + w^4 / 2,

    at `|s| = w^2 / 2`: for `w = 1` 1.5 times as far as taking it away, as the ledger says (`when_replaced`).

    Attributes:
        sigma: standard deviation of the noise, in units of the sensitivity; None to have it worked out from a budget.
        moments_weight: w above; greater spares the moments and puts more noise on the Gram matrix.
        bounds: the least and greatest number that a label is taken to be, needed where numbers are predicted; they
            must not be read off the rows.
        seeded: take the noise from the run's seed, so that a study can be repeated; whoever knows the seed can then
            take it off. Otherwise it comes from a secure generator.
    """

    sigma: float | None = None
    moments_weight: float = 1.0
    bounds: tuple[float, float] | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse what bounds nothing."""
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.moments_weight < inf:
            raise ValueError(f"moments_weight must be above 0, not {self.moments_weight}")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"bounds must rise, not {self.bounds}")

    @property
    def sensitivity(self) -> float:
        """How far one row can move the release: see above."""
        return sqrt(1 + self.moments_weight**2)

    @property
    def when_replaced(self) -> float:
        """How far replacing one row by another can move it: see above."""
        square = self.moments_weight**2
        most = min(square / 2, 1.0)
        return sqrt(2 * (1 + square) + 2 * most * (square - most))

    def rows(self, features: Array) -> Array:
        """Features brought to a length that, with the constant beside them, is 1; a row of zeros stays short."""
        return unit_rows(features)

    def numbers(self, y: Array) -> Array:
        """Numbers to be predicted, brought to -1 to 1 by the bounds."""
        low, high = self._needed_bounds()
        return np.asarray((np.clip(y, low, high) - (low + high) / 2) / ((high - low) / 2))

    def numbers_back(self, scaled: Array) -> Array:
        """The inverse of `numbers`."""
        low, high = self._needed_bounds()
        return np.asarray(scaled * ((high - low) / 2) + (low + high) / 2)

    def count(self, gram: Array) -> float:
        """About how many rows a noisy Gram matrix, whole, is of: 1 at least."""
        return max(float(gram[-1, -1]) / _CONSTANT**2, 1.0)

    def with_ones(self, gram: Array, moments: Array) -> tuple[Array, Array]:
        """Sums, whole, as if the constant had been 1."""
        factors = np.ones(len(gram))
        factors[-1] = 1 / _CONSTANT
        return gram * np.outer(factors, factors), moments * factors[:, None]

    def intercept(self, coefficients: Array) -> Array:
        """What the constant adds to every score."""
        return np.asarray(coefficients[-1] * _CONSTANT)

    def release(self, rows: Array, targets: Array, party: Party, share: float = 1.0) -> Noised[dict[str, Array]]:
        """The noisy sums of rows of length up to 1, and of targets of length up to 1, ready to leave a party.

        With a `share` below 1 they bear less noise than they need: only for a secure sum, in which others add the rest.
        """
        gram, moments = pack(rows.T @ rows), rows.T @ targets
        on_gram, on_moments = (share * scale for scale in self.scales())
        randomness = randomness_from(party.rng, self.seeded, gram, moments)
        drawn = randomness.normal(gram.size + moments.size).numpy().astype(np.float64)
        gram = gram + drawn[: gram.size] * _scale_of_half(gram.size, on_gram)
        moments = moments + drawn[gram.size :].reshape(moments.shape) * on_moments
        sent = {"gram": gram.astype(np.float32), "moments": moments.astype(np.float32)}
        return Noised(sent, self.words() if share == 1.0 else self.words_in_sum())

    def scales(self) -> tuple[float, float]:
        """The noise on the diagonal of the Gram matrix (beside it, less by root 2), and on the moments."""
        scale = self._needed_sigma() * self.sensitivity
        return scale, scale / self.moments_weight

    def words(self) -> Noise:
        """The noise as ledgers write it down."""
        return Noise(
            mechanism="gaussian",
            scale=self._needed_sigma() * self.sensitivity,
            sensitivity=self.sensitivity,
            unit=UNIT,
            caveat=_COVERS.format(self.when_replaced / self.sensitivity),
            secure=not self.seeded,
        )

    def words_in_sum(self) -> Noise:
        """The noise on a secure sum to which every party adds its share."""
        noise = self.words()
        return replace(noise, caveat=f"{noise.caveat}; {IN_SUM}")

    def demand(self) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "GaussianSums":
        """The same with this noise."""
        return replace(self, sigma=sigma)

    def _needed_sigma(self) -> float:
        if self.sigma is None:
            raise ValueError("GaussianSums has no sigma; give sigma=..., or a plan with budget.epsilon to work it out")
        return self.sigma

    def _needed_bounds(self) -> tuple[float, float]:
        if self.bounds is None:
            raise ValueError("private sums of numbers need privacy.bounds: the least and greatest that a label can be")
        return self.bounds


class GaussianMoments(Settings, frozen=True):
    """Rows brought to length 1, their products summed class by class, and Gaussian noise on all these sums.

    A row enters the sums of its own class alone, as `u_i^2` and `root(2) u_i u_j`, whose squares sum to `|u|^4 <= 1`.
    So taking it away moves the release of all classes together by 1 at most. Replacing it by any other row
    moves it by the root of 2 at most, as `v(u) v(u') = (u u')^2` is never negative. Count, mean and covariance of each
    class follow from its sums.

    Attributes:
        sigma: standard deviation of the noise; None to have it worked out from a budget.
        seeded: as of `GaussianSums`.
    """

    sigma: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse noise that is none."""
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")

    def release(self, groups: Sequence[Array], party: Party) -> Noised[Array]:
        """The noisy halves of the Gram matrices of groups of rows of length up to 1, shape (groups, half)."""
        halves = np.stack([pack(rows.T @ rows) for rows in groups])
        drawn = randomness_from(party.rng, self.seeded, halves).normal(halves.size).numpy().astype(np.float64)
        noise = drawn.reshape(halves.shape) * _scale_of_half(halves.shape[1], self.scale)
        return Noised((halves + noise).astype(np.float32), self.words())

    @property
    def scale(self) -> float:
        """The noise on the diagonals; beside them it is less by the root of 2."""
        if self.sigma is None:
            raise ValueError("GaussianMoments has no sigma; give sigma=..., or a plan with budget.epsilon")
        return self.sigma

    def words(self) -> Noise:
        """The noise as ledgers write it down."""
        return Noise(
            mechanism="gaussian",
            scale=self.scale,
            sensitivity=1.0,
            unit=UNIT,
            caveat=_COVERS.format(sqrt(2)),
            secure=not self.seeded,
        )

    def demand(self) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "GaussianMoments":
        """The same with this noise."""
        return replace(self, sigma=sigma)


def unit_rows(features: Array) -> Array:
    """Features brought to a length that, with a constant beside them, is 1; a row of zeros stays short.

    So does a row with a feature that is no finite number: it would show past any noise, in all that is summed.
    """
    values = np.asarray(features, dtype=np.float64)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    values = values * (sqrt(1 - _CONSTANT**2) / np.maximum(lengths, 1e-12))
    return np.concatenate([values, np.full((len(values), 1), _CONSTANT)], axis=1)


def moments_from(half: Array) -> tuple[float, Array, Array]:
    """Count, mean and second moment of unit rows without their constant, from the half of a Gram matrix."""
    gram = unpack(half)
    count = float(gram[-1, -1]) / _CONSTANT**2
    safe = max(count, 1.0)
    return count, gram[:-1, -1] / (_CONSTANT * safe), gram[:-1, :-1] / safe


def _scale_of_half(half: int, scale: float) -> Array:
    """The noise on each number of a packed half: less by the root of 2 beside the diagonal."""
    return np.asarray(scale / np.where(_on_diagonal(half), 1.0, sqrt(2)))


def _on_diagonal(half: int) -> Array:
    """Which numbers of a packed half are on the diagonal."""
    width = width_of(half)
    found = np.zeros(half, dtype=bool)
    found[np.cumsum([0, *range(width, 1, -1)])] = True
    return found


_ALL_ROWS = "all rows of one party: there, or all blanked"
_CAVEAT = (
    "covers what a party's model learnt in an exchange, however many rows it has; not covered: how columns and labels "
    "were scaled, who takes part, how settings were chosen; noise is in floating point"
)
_MADE_FROM = "made from what parties sent under noise, whose own price covers it"
FINAL = "final model"


class GaussianUpdates(Settings, frozen=True):
    """The change of a party's model, clipped in length as a whole, and Gaussian noise on it.

    **Sensitivity.** A party sends `c(v) + noise`, where v is all that it changed, one vector, and c shortens it to
    length `clip` at most. A party whose rows are blanked sends 0 + noise. So all its rows together move the release by
    `clip` at most, in every exchange. Parties count the same, since how many rows each has would tell of them.

    Attributes:
        clip: the greatest length of a change.
        sigma: standard deviation of the noise in units of `clip`; None to have it worked out from a budget. Under
            secure sums it is the noise of the whole sum; otherwise each party adds all of it.
        seeded: take the noise from the run's seed, for studies; see `DpSgd`.
    """

    clip: float = 1.0
    sigma: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse what bounds nothing."""
        check_above_zero(clip=self.clip)
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")

    def release(
        self, party: Party, starts: Mapping[str, Weights], ends: Mapping[str, Weights], share: float = 1.0
    ) -> Noised[dict[str, Weights]]:
        """What a party ends with, its change from where it started clipped and under this share of the noise."""
        change = np.concatenate([_flat(ends[part]) - _flat(starts[part]) for part in starts])
        # A net that left all finite numbers would show past any noise.
        change = change if np.isfinite(change).all() else np.zeros_like(change)
        short = change * min(1.0, self.clip / max(float(np.linalg.norm(change)), 1e-300))
        drawn = randomness_from(party.rng, self.seeded, change).normal(change.size).numpy().astype(np.float64)
        noisy, at = short + drawn * (share * self.words().scale), 0
        found: dict[str, Weights] = {}
        for part, start in starts.items():
            found[part] = {}
            for name, values in start.items():
                moved = noisy[at : at + values.size].reshape(values.shape)
                found[part][name] = (values + moved).astype(values.dtype)
                at += values.size
        return Noised(found, self.words())

    def words(self) -> Noise:
        """The noise as ledgers write it down."""
        if self.sigma is None:
            raise ValueError("GaussianUpdates has no sigma; give sigma=..., or a plan with budget.epsilon")
        return gaussian_noise(self.sigma * self.clip, self.clip, _ALL_ROWS, _CAVEAT, seeded=self.seeded)

    def demand(self, exchanges: int) -> Demand:
        """One answer about all rows in every exchange."""
        return Demand(rate=1.0, answers=exchanges)

    def with_sigma(self, sigma: float) -> "GaussianUpdates":
        """The same with this noise."""
        return replace(self, sigma=sigma)


def under_training_noise(
    trainer: Sgd | DpSgd, rows: int, models: dict[str, Weights]
) -> dict[str, Weights] | Noised[dict[str, Weights]]:
    """Models and what follows from them, with the noise that their training put on them, if it did."""
    noises = trainer.noise(max(rows, 1))
    return models if not noises else Noised(models, noises[0])


def made_from_noised(model: Weights, noise: Noise | None) -> Weights | Noised[Weights]:
    """A model that the server made from what parties sent under noise: sending it costs nothing more."""
    return model if noise is None else Noised(model, _free(noise))


def note_final_model(hub: Party, model: Weights, noise: Noise | None) -> None:
    """Write in the ledger that the final model, made from what parties sent under noise, may be given to anyone."""
    if noise is not None:
        form = f"{sum(values.size for values in model.values())} weights"
        write_noise(hub, FINAL, "the final model, made from what parties sent under noise", form, _free(noise))


def _free(noise: Noise) -> Noise:
    return replace(noise, count=0, once=True, caveat=_MADE_FROM)


def _flat(weights: Weights) -> Array:
    return np.concatenate([values.astype(np.float64).ravel() for values in weights.values()])
