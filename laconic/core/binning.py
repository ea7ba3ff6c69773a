"""Columns in bins: quantile bins as flags, and weight of evidence, which needs two classes of labels.

The weight of evidence of a bin is the logarithm of the share of all positive training rows that fall into it over the
share of all negative ones. A missing cell is a bin of its own. Levels that few rows have share one bin, and so does a
level that nobody had seen. Half a row is added to every count, so that no share is zero.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np

from laconic.core.values import Array

BINS = 10
"""Numbers are cut into this many bins of equally many training rows, fewer where many rows have the same number."""

RARE = 0.01
"""A level that fewer than this share of the training rows have, or fewer than 20 of them, is rare."""

_FEWEST = 20
_HALF = 0.5


class Binned(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A flag for numbers above `low` and up to `high`, which `share` of the training rows had; None has no end."""

    name: str
    source: int
    low: float | None
    high: float | None
    share: float

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        above = ~np.isnan(cells) if self.low is None else cells > self.low
        inside = above if self.high is None else above & (cells <= self.high)
        return np.asarray((inside - self.share) / _HALF)


class Weighed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The weight of evidence of a cell's bin, less `centre`, over `scale`.

    Attributes:
        levels: whether cells are codes of levels rather than numbers.
        edges: upper ends of all bins of numbers but the last; empty for levels.
        codes: levels with a bin of their own; empty for numbers.
        weights: of the bins, in order.
        missing: of a missing cell. other: of a rare or unseen level.
    """

    name: str
    source: int
    levels: bool
    edges: tuple[float, ...] = ()
    codes: tuple[int, ...] = ()
    weights: tuple[float, ...]
    missing: float
    other: float
    centre: float
    scale: float

    def weigh(self, cells: Array) -> Array:
        """The weights themselves."""
        if self.levels:
            found = np.array([*self.weights, self.other])[_place(cells, self.codes)]
        else:
            found = np.asarray(self.weights)[np.searchsorted(self.edges, cells, side="left")]
        return np.where(np.isnan(cells), self.missing, found)

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        return (self.weigh(cells) - self.centre) / self.scale


def fit_bins(name: str, source: int, cells: Array) -> Iterator[Binned]:
    """A flag for each quantile bin of a number, but for a number with one bin only, which says nothing."""
    known = cells[~np.isnan(cells)]
    ends: list[float | None] = [None, *_edges(known), None]
    if len(ends) == 2:
        return
    for low, high in pairwise(ends):
        above = np.ones(known.shape, dtype=bool) if low is None else known > low
        inside = above if high is None else above & (known <= high)
        where = f"{'' if low is None else f'{low:g} < '}{name}{'' if high is None else f' <= {high:g}'}"
        yield Binned(name=where, source=source, low=low, high=high, share=float(inside.sum() / len(cells)))


def fit_weights(name: str, source: int, cells: Array, positive: Array, *, levels: bool) -> Iterator[Weighed]:
    """The weight of evidence of a column's bins, by labelled training rows; nothing where all bins weigh the same.

    Args:
        name: of the column. source: its place among the raw columns.
        cells: of the labelled training rows.
        positive: which of these rows are of the second class.
        levels: whether cells are codes of levels rather than numbers.
    """
    known = ~np.isnan(cells)
    edges = () if levels else _edges(cells[known])
    codes = _frequent(cells[known], len(cells)) if levels else ()
    bins = _bin_of(cells, edges, codes, levels=levels)
    last = len(codes) if levels else len(edges) + 1  # Rare levels; then missing cells.
    ups = np.bincount(bins[positive], minlength=last + 2) + _HALF
    downs = np.bincount(bins[~positive], minlength=last + 2) + _HALF
    found = np.log(ups / ups.sum()) - np.log(downs / downs.sum())
    # A bin without any row has no evidence either way: half a row of each class only looks like some.
    found[np.bincount(bins, minlength=last + 2) == 0] = 0.0
    each = found[bins]
    if each.max() > each.min():
        yield Weighed(
            name=f"{name} (weight of evidence)",
            source=source,
            levels=levels,
            edges=edges,
            codes=codes,
            weights=tuple(found[:last].tolist()),
            missing=float(found[last + 1]),
            other=float(found[last]),
            centre=float(each.mean()),
            scale=float(each.std()),
        )


def _edges(known: Array) -> tuple[float, ...]:
    if known.size == 0:
        return ()
    edges = np.unique(np.quantile(known, np.arange(1, BINS) / BINS, method="lower"))
    return tuple(edges[edges < known.max()].tolist())


def _frequent(known: Array, rows: int) -> tuple[int, ...]:
    codes, counts = np.unique(known.astype(np.int64), return_counts=True)
    return tuple(codes[counts >= max(_FEWEST, RARE * rows)].tolist())


def _bin_of(cells: Array, edges: tuple[float, ...], codes: tuple[int, ...], *, levels: bool) -> Array:
    """The bin of each cell: those of numbers or frequent levels, then rare levels, then missing cells."""
    if levels:
        return np.where(np.isnan(cells), len(codes) + 1, _place(cells, codes))
    bins = np.searchsorted(edges, cells, side="left")
    return np.where(np.isnan(cells), len(edges) + 2, bins)


def _place(cells: Array, codes: tuple[int, ...]) -> Array:
    """The place of each cell among rising codes, and the place after the last for a cell that is none of them."""
    places = np.searchsorted(codes, cells)
    return np.where(np.append(codes, -1)[np.minimum(places, len(codes))] == cells, places, len(codes))
