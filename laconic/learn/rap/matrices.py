"""The secret square matrix that mixes a party's columns, and what it does to distances."""

from math import exp
from typing import TypeAlias

import numpy as np

from laconic.core.values import Array, Rng, Settings


class Orthogonal(Settings, frozen=True):
    """A random rotation, uniform over all: every distance is kept exactly, and a model learns as fast as before."""

    def draw(self, width: int, rng: Rng) -> Array:
        """A matrix for rows of `width` numbers."""
        directions, upper = np.linalg.qr(rng.standard_normal((width, width)))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthogonal matrices.
        return np.asarray(directions * np.sign(np.diag(upper)))


class Gaussian(Settings, frozen=True):
    """Independent normal numbers, as published; often nearly singular, which slows learning.

    Attributes:
        scaled: divide by the root of the width, so that distances are kept on average and not only in proportion.
    """

    scaled: bool = False

    def draw(self, width: int, rng: Rng) -> Array:
        """A matrix for rows of `width` numbers."""
        return rng.standard_normal((width, width)) / (np.sqrt(width) if self.scaled else 1.0)


AnyMatrix: TypeAlias = Orthogonal | Gaussian


def chance_to_keep(width: int, error: float) -> float:
    """At least how likely a scaled Gaussian matrix keeps one squared distance within `error` of it (Corollary 2).

    The bound of Johnson and Lindenstrauss for a square matrix. For error 0.5 it says nothing up to 16 columns.
    """
    if not 0 < error < 1:
        raise ValueError(f"error must be between 0 and 1, not {error}")
    return max(0.0, 1.0 - 2.0 * exp(-width * (3 * error**2 - 2 * error**3) / 12))
