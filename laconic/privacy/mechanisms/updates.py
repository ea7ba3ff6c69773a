"""Noise on what parties' models learnt: of all rows of a party (clipped updates), or of single rows (private training).

McMahan, Ramage, Talwar, Zhang: Learning Differentially Private Recurrent Language Models (2018), with the noise put on
by parties themselves: each alone, or under a secure sum each a share.
"""

from collections.abc import Mapping
from math import inf

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.learn.train.sgd import Sgd
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import gaussian_noise
from laconic.privacy.private_sgd import DpSgd
from laconic.privacy.randomness import randomness_from
from laconic.privacy.row_releases import write_noise
from laconic.values import Array, Settings, Weights, check_above_zero

UNIT = "all rows of one party: there, or all blanked"
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
        return gaussian_noise(self.sigma * self.clip, self.clip, UNIT, _CAVEAT, seeded=self.seeded)

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
