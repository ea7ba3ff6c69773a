"""Local differential privacy of rows: each row is clipped and noised at its party before it is sent.

The noise is calibrated exactly (Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy, 2018), not by
the older bound, which is wrong above epsilon 1 and loose below.
"""

from collections.abc import Iterable
from math import exp, inf, log, sqrt

import numpy as np

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.privacy.randomness import Randomness, randomness_from
from laconic.privacy.row_releases import by_people
from laconic.values import Array, Settings

_CAVEAT = (
    "covers a row's own numbers each time they are sent, by this party alone; not the means and spreads by which rows "
    "are scaled, not labels, and a person known to several parties pays at each"
)


class LocalGaussian(Settings, frozen=True):
    """Rows clipped in length, then Gaussian noise for a stated epsilon: any row could have been any other.

    Attributes:
        epsilon: the privacy loss of one row sent once by one party.
        delta: the probability of a larger loss.
        clip: the greatest length of a row; None takes the root of the number of columns, the length of a typical
            standardised row.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    epsilon: float
    delta: float = 1e-6
    clip: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < inf and 0 < self.delta < 1):
            raise ValueError(f"epsilon must be above 0 and delta in (0, 1), not {self.epsilon} and {self.delta}")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"clip must be above 0, not {self.clip}; leave it out for the root of the columns")

    def put_on(self, values: Array, party: Party, rows: str) -> Noised[Array]:
        """The values, a row each, of the cut `rows`, clipped and with fresh noise."""
        clip = self.clip or sqrt(values.shape[1])
        # Replacing a row by any other moves it at most from one end of the ball to the opposite one.
        scale = gaussian_scale(self.epsilon, self.delta, 2 * clip)
        noisy = add_noise(clip_rows(values, clip), scale, randomness_from(party.rng, self.seeded, values), values)
        noise = gaussian_noise(scale, 2 * clip, "one row at this party", _CAVEAT, seeded=self.seeded)
        return Noised(noisy, by_people(noise, party, rows))


def gaussian_noise(scale: float, sensitivity: float | None, unit: str, caveat: str, *, seeded: bool) -> Noise:
    """The noise for the ledger."""
    return Noise(
        mechanism="gaussian", scale=scale, sensitivity=sensitivity, unit=unit, caveat=caveat, secure=not seeded
    )


def clip_rows(rows: Array, clip: float) -> Array:
    """Rows no longer than `clip`, in the same direction."""
    lengths = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, clip / np.maximum(lengths, 1e-12)), dtype=np.float32)


def add_noise(clipped: Array, scale: float, randomness: Randomness, like: Array) -> Array:
    """The numbers with Gaussian noise on each, in the number type of `like`."""
    drawn = randomness.normal(clipped.size).numpy().reshape(clipped.shape)
    return (clipped + drawn * np.float32(scale)).astype(like.dtype)


def gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation of Gaussian noise that gives (epsilon, delta) for one release."""
    low, high = 0.0, sensitivity
    while gaussian_delta(epsilon, high, sensitivity) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(epsilon, middle, sensitivity) <= delta else (middle, high)
    return high


def gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> float:
    """The least delta of one release with noise of this standard deviation (Theorem 8 of the paper above)."""
    from scipy.special import log_ndtr, ndtr

    if scale == 0:
        return 1.0
    shift, slope = sensitivity / (2 * scale), epsilon * scale / sensitivity
    return float(ndtr(shift - slope)) - exp(epsilon + float(log_ndtr(-shift - slope)))


def compose(mus: Iterable[float]) -> float:
    """The mu of several releases together."""
    return sqrt(sum(mu * mu for mu in mus))


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta for which a mu-GDP release is (epsilon, delta)-DP."""
    if mu == 0:
        return 0.0
    if mu == inf:
        return 1.0
    return gaussian_delta(epsilon, 1.0, mu)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon for which a mu-GDP release is (epsilon, delta)-DP, exactly; infinite where mu is."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, not {delta}")
    if mu == inf:
        return inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * sqrt(2 * log(1 / delta))  # where the plain tail bound of a Gaussian already suffices
    from scipy.optimize import brentq

    return float(brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, most, xtol=1e-10))


def mu_of(epsilon: float, delta: float) -> float:
    """The greatest mu whose releases are still (epsilon, delta)-DP."""
    if epsilon <= 0:
        raise ValueError(f"epsilon must be above 0, not {epsilon}")
    return 1 / gaussian_scale(epsilon, delta, 1.0)
