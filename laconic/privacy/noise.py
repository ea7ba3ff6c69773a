"""Noise on what a party sends, written in its ledger."""

from math import inf
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.core.values import Array, Settings
from laconic.privacy.budget import Demand
from laconic.privacy.chance import chance_from
from laconic.privacy.dpsgd import UNCOVERED, UNIT
from laconic.privacy.local import clip_rows
from laconic.privacy.told import by_people


class Perturb(Settings, frozen=True):
    """Gaussian noise of a chosen scale on every number sent, with no bound on what one row can change.

    It makes numbers less exact; it proves nothing, and so it has no epsilon.

    Attributes:
        scale: standard deviation of the noise.
        rows: `all` noises what is sent for training and for prediction alike, as anyone who means it must;
            `training` leaves predictions clean, as the published experiments do.
    """

    scale: float
    rows: Literal["all", "training"] = "all"

    def __post_init__(self) -> None:
        """Refuse a scale that adds nothing."""
        if self.scale <= 0:
            raise ValueError(f"scale must be above 0, not {self.scale}; leave the noise out for none")

    def put_on(self, values: Array, party: Party) -> Noised[Array] | Array:
        """The values with fresh noise, or as they are where this setting leaves them clean."""
        if self.rows == "training" and party.phase != "fit":
            return values
        noisy = values + party.rng.normal(0.0, self.scale, values.shape).astype(np.float32)
        return Noised(noisy.astype(values.dtype), self._words())

    def put_on_rows(
        self, values: Array, party: Party, rows: str, learnt: tuple[Noise, ...] | None
    ) -> Noised[Array] | Array:
        """As `put_on`: what the rows are, and how their encoder was learnt, makes no difference without a bound."""
        return self.put_on(values, party)

    def _words(self) -> Noise:
        return Noise(
            mechanism="gaussian",
            scale=self.scale,
            sensitivity=None,
            unit="each number sent",
            caveat="noise without a bound on what a row can change: no epsilon can be stated",
        )


class ClippedGaussian(Settings, frozen=True):
    """Every row's numbers clipped in length, then Gaussian noise: a representation with an epsilon.

    All rows of a cut are one release. Asking for a cut again is another release of the same rows, and is priced so; and
    so is asking for someone again after training, in whatever group.
    The bound holds if a row moves its own numbers only: if the encoder was learnt privately, or from no rows at all.

    Attributes:
        sigma: standard deviation of the noise in units of `clip`; None to have it worked out from a budget.
        clip: the greatest length of one row's numbers.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    sigma: float | None = None
    clip: float = 1.0
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse what bounds nothing."""
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
        if self.sigma is None:
            raise ValueError("ClippedGaussian has no sigma; give sigma=..., or a plan with budget.epsilon")
        drawn = chance_from(party.rng, self.seeded, values).normal(values.size).numpy().reshape(values.shape)
        noisy = clip_rows(values, self.clip) + drawn * np.float32(self.sigma * self.clip)
        return Noised(noisy.astype(values.dtype), by_people(self._words(self.sigma, learnt), party, rows))

    def demand(self) -> Demand:
        """One answer about all rows."""
        return Demand(rate=1.0, answers=1)

    def with_sigma(self, sigma: float) -> "ClippedGaussian":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def _words(self, sigma: float, learnt: tuple[Noise, ...] | None) -> Noise:
        proven = learnt is not None and all(noise.proven for noise in learnt)
        covers = "covers each row's own numbers" if proven else f"NOT PROVEN: {COUPLED}"
        return Noise(
            mechanism="gaussian",
            scale=sigma * self.clip,
            sensitivity=self.clip,
            unit=UNIT,
            caveat=f"{covers}; {UNCOVERED}",
            proven=proven,
            secure=not self.seeded,
        )


RowNoise: TypeAlias = Perturb | ClippedGaussian

COUPLED = "an encoder was learnt from rows without proven noise, so that one row moves the numbers of all others"
"""Why a bound on one row's own numbers may not be a bound on what that row can change."""
