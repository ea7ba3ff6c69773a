"""Rows that are exactly alike, as the blank borders of images and rows of categories often are: worked on once."""

from functools import cache
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
    """Sort rows into kinds, in the order in which they come, by their bytes.

    Each row's bytes are summed with random weights, the same for all rows, so that rows alike have the same sum; where
    rows that are not alike have it too, as good as never, every row is left alone.
    """
    rows = np.ascontiguousarray(x, dtype=np.float32).reshape(len(x), -1)
    words = rows.view(np.uint32 if rows.shape[1] % 2 else np.uint64)
    sums = words @ _weights(words.shape[1])
    in_order = np.sort(sums)
    if (in_order[1:] != in_order[:-1]).all():
        return each_alone(len(x))
    _, first, kind, counts = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = Alike(first[order], place[kind], counts[order])
    model = found.first[found.kind]
    again = np.flatnonzero(model != np.arange(len(x)))
    return found if np.array_equal(words[again], words[model[again]]) else each_alone(len(x))


def each_alone(rows: int) -> Alike:
    """Every row a kind of its own, for when rows may not be put together."""
    return Alike(np.arange(rows), np.arange(rows), np.ones(rows, np.int64))


@cache
def _weights(words: int) -> Array:
    """Random weights for so many words of a row."""
    return np.random.default_rng(0).integers(2**64, size=words, dtype=np.uint64)
