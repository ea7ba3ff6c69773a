"""Noise on what a party sends, written in its ledger."""

from math import exp, inf
from typing import Literal, TypeVar

import msgspec
import numpy as np

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.privacy.accounting import PURE
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import add_noise, clip_rows, gaussian_noise
from laconic.privacy.private_sgd import UNCOVERED, UNIT
from laconic.privacy.randomness import SecureRandomness, SeededRandomness, randomness_from
from laconic.privacy.row_releases import by_people
from laconic.values import Array, Settings


class Perturb(Settings, frozen=True):
    """Gaussian noise of a chosen scale on every number sent, with no bound on what one row can change.

    It makes numbers less exact; it proves nothing, and so it has no epsilon.

    Attributes:
        scale: standard deviation of the noise.
        rows: `all` adds noise to what is sent for training and for prediction, as protection needs; `training` leaves
            predictions without noise, as the published experiments do.
    """

    scale: float
    rows: Literal["all", "training"] = "all"

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise ValueError(f"scale must be above 0, not {self.scale}; leave the noise out for none")

    def put_on(self, values: Array, party: Party) -> Noised[Array] | Array:
        """The values with fresh noise, or as they are where `rows` leaves them without."""
        if self.rows == "training" and party.phase != "fit":
            return values
        noisy = values + party.rng.normal(0.0, self.scale, values.shape).astype(np.float32)
        caveat = "noise without a bound on what a row can change: no epsilon can be stated"
        noise = gaussian_noise(self.scale, None, "each number sent", caveat, seeded=True)
        return Noised(noisy.astype(values.dtype), noise)

    def put_on_rows(
        self, values: Array, party: Party, rows: str, learnt: tuple[Noise, ...] | None
    ) -> Noised[Array] | Array:
        """As `put_on`: what the rows are, and how their encoder was learnt, makes no difference without a bound."""
        return self.put_on(values, party)


class ClippedGaussian(Settings, frozen=True):
    """Every row's numbers clipped in length, then Gaussian noise: a representation with an epsilon.

    All rows of a cut are one release. Asking for a cut again is another release of the same rows, and is priced as one;
    so is asking for a person again after training, in whatever group. The bound holds if a row moves its own numbers
    only: if the encoder was learnt privately, or from no rows at all.

    Attributes:
        sigma: standard deviation of the noise in units of `clip`; None to calculate it from a budget.
        clip: the greatest length of one row's numbers.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    sigma: float | None = None
    clip: float = 1.0
    seeded: bool = False

    def __post_init__(self) -> None:
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.clip < inf:
            raise ValueError(f"clip must be above 0, not {self.clip}; use Perturb(...) for noise without a bound")

    def put_on_rows(self, values: Array, party: Party, rows: str, learnt: tuple[Noise, ...] | None) -> Noised[Array]:
        """The values clipped, with fresh noise.

        Args:
            values: a row each.
            party: whose they are.
            rows: the cut they are of.
            learnt: the noise under which their encoder was learnt; None if rows entered it without noise.
        """
        words, randomness = self.words(learnt), randomness_from(party.rng, self.seeded, values)
        noisy = add_noise(clip_rows(values, self.clip), words.scale, randomness, values)
        return Noised(noisy, by_people(words, party, rows))

    def demand(self) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "ClippedGaussian":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def words(self, learnt: tuple[Noise, ...] | None) -> Noise:
        """The noise on the rows of a cut, for the ledger."""
        if self.sigma is None:
            raise ValueError("ClippedGaussian has no sigma; give sigma=..., or a plan with budget.epsilon")
        proven = learnt is not None and all(noise.proven for noise in learnt)
        covers = "covers each row's own numbers" if proven else f"NOT PROVEN: {COUPLED}"
        noise = gaussian_noise(self.sigma * self.clip, self.clip, UNIT, f"{covers}; {UNCOVERED}", seeded=self.seeded)
        return msgspec.structs.replace(noise, proven=proven)


COUPLED = "an encoder was learnt from rows without proven noise, so that one row moves the numbers of all others"
"""Why a bound on one row's own numbers may not be a bound on what that row can change."""

T = TypeVar("T")

_CAVEAT = (
    "covers the class of each row in what is sent while fitting, calculated from labels randomised once; not which "
    "rows are shared, not how many classes there are, not columns, and not predictions if they are shown to anyone"
)


class RandomisedResponse(Settings, frozen=True):
    """Pure label differential privacy: each label is released as it is, or now and then as another class.

    Attributes:
        epsilon: no released label is more than e^epsilon times as likely under one true class as under another.
        seeded: draw from the run's seed, so that a study can be repeated: then whoever knows the seed can undo it, and
            the ledger records that. Otherwise randomness comes from the party's secret, which a hub keeps with its
            journal: a resumed run releases the same labels. A second draw would give away as much once more.
    """

    epsilon: float
    seeded: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < inf:
            raise ValueError(
                f"epsilon must be above 0 and finite, not {self.epsilon}; leave labels out for true labels"
            )

    def truth(self, classes: int) -> float:
        """The probability that a label is released as it is."""
        return 1.0 / (1.0 + (classes - 1) * exp(-self.epsilon))

    def randomise(self, codes: Array, classes: int, party: Party) -> Array:
        """The party's labels as released: class codes from 0 in, class codes out."""
        uniform = (SeededRandomness(party.rng) if self.seeded else SecureRandomness(party.secret_bytes)).uniform
        changed = uniform(len(codes)) > self.truth(classes)
        # Any other class: one to classes - 1 codes further on.
        steps = np.ceil(uniform(len(codes)) * (classes - 1)).astype(np.int64)
        return np.where(changed, (codes + steps) % classes, codes)

    def cover(self, value: T) -> Noised[T]:
        """A value calculated from released labels alone, with its noise for the ledger."""
        words = Noise(
            mechanism=PURE,
            scale=1 / self.epsilon,
            sensitivity=1.0,
            unit="one label",
            caveat=_CAVEAT,
            secure=not self.seeded,
            once=True,
        )
        return Noised(value, words)
