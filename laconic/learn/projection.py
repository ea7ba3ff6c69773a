"""Random projection: a few random directions at right angles, learnt from nothing but the columns' mean."""

from math import prod

import numpy as np

from laconic.core.values import Array, Rng, Weights
from laconic.learn.linear import LinearEncoder, as_layer, flat


class RandomProjection(LinearEncoder, frozen=True):
    """`dim` random orthonormal directions, uniform over all such; the cheapest encoder there is."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Draw the directions; of the rows only the mean is used."""
        width = prod(x.shape[1:])
        directions, upper = np.linalg.qr(rng.standard_normal((width, self.dim_for(x.shape[1:]))))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthonormal matrices.
        return as_layer(flat(x).mean(axis=0), directions * np.sign(np.diag(upper)))
