"""Rows that are exactly alike, as the blank borders of images and rows of categories often are: worked on once."""

from typing import NamedTuple

import numpy as np
import torch

from laconic.core.values import Array


class Alike(NamedTuple):
    """Which rows of a batch are alike.

    Attributes:
        first: the place of one row of each kind.
        kind: the kind of each row, as a place in `first`.
        counts: how many rows there are of each kind.
    """

    first: Array
    kind: Array
    counts: Array

    def means(self, values: Array) -> Array:
        """The mean of the rows of each kind, of an array with as many rows as the batch."""
        sums = torch.zeros(len(self.first), values.shape[1]).index_add_(0, *map(torch.from_numpy, (self.kind, values)))
        found: Array = sums.numpy() / self.counts[:, None].astype(np.float32)
        return found


def find_alike(x: Array) -> Alike:
    """Sort rows into kinds by their bytes."""
    blob, size = x.tobytes(), x[0].nbytes
    numbers: dict[bytes, int] = {}
    kind = [numbers.setdefault(blob[at : at + size], len(numbers)) for at in range(0, len(blob), size)]
    first = np.unique(kind, return_index=True)[1]
    return Alike(first, np.array(kind), np.bincount(kind))


def each_alone(rows: int) -> Alike:
    """Every row a kind of its own, for when rows may not be put together."""
    return Alike(np.arange(rows), np.arange(rows), np.ones(rows, np.int64))
