"""Matrices with columns of zeros at the end, so that a processor works on full lanes of numbers all the way."""

import torch
from torch import Tensor

from laconic.core.values import Array

LANES = 16
"""Matrix products are fastest where the number of columns is a multiple of this."""


def widened(count: int) -> int:
    """The next multiple of `LANES`."""
    return -(-count // LANES) * LANES


def widen(values: Array, *, rows: bool = False) -> Tensor:
    """A matrix with columns of zeros up to the next multiple of `LANES`, and rows of zeros likewise if asked."""
    height, width = values.shape
    found = torch.zeros(widened(height) if rows else height, widened(width))
    found[:height, :width] = torch.tensor(values)
    return found
