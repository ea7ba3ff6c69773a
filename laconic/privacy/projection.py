"""Random directions that know nothing of the rows: an encoder that costs no privacy at all."""

from math import prod

import numpy as np

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Weights
from laconic.learn.linear import as_layer
from laconic.privacy.sized import SizedEncoder


class PublicProjection(SizedEncoder, frozen=True):
    """`dim` random orthonormal directions, uniform over all such, and not even the rows' mean.

    It learns nothing from rows, so the whole budget is left to the label holder.
    """

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
