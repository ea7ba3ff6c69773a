"""Principal components of a covariance with noise on it: one private answer, and an encoder follows.

Dwork, Talwar, Thakurta, Zhang: Analyze Gauss: optimal bounds for privacy-preserving principal component analysis
(2014).
"""

from math import inf, sqrt

import msgspec
import numpy as np

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Weights
from laconic.learn.linear import as_layer, flat
from laconic.privacy.budget import Demand
from laconic.privacy.chance import chance_from
from laconic.privacy.dpsgd import UNCOVERED, UNIT
from laconic.privacy.local import clip_rows
from laconic.privacy.sized import SizedEncoder


class DpPca(SizedEncoder, frozen=True):
    """The first `dim` principal components of rows under differential privacy, each scaled to about unit variance.

    Rows are clipped in length and not centred: they come standardised, so that their mean is near zero already.

    Attributes:
        sigma: standard deviation of the noise on the covariance, in units of what one row can change; None to have it
            worked out from a budget.
        clip: the greatest length of a row; None takes the root of its columns, the length of a typical one.
        seeded: take the noise from the run's seed, so that a study can be repeated; see `DpSgd`.
    """

    sigma: float | None = None
    clip: float | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse noise below 0 and a length that nothing has."""
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
        return (
            Noise(
                mechanism="gaussian",
                scale=self.needed_sigma(),
                sensitivity=1.0,
                unit=UNIT,
                caveat=f"covers the components found, and all that is made from them alone; {UNCOVERED}",
                secure=not self.seeded,
            ),
        )

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
        chance = chance_from(rng, self.seeded, squares)
        drawn = chance.normal(squares.size).numpy().astype(np.float64).reshape(squares.shape)
        upper = np.triu(drawn, 1) * (scale / sqrt(2))
        return upper + upper.T + np.diag(np.diag(drawn)) * scale
