"""How one party's raw columns become numbers a model can use, by statistics of its own training rows only.

Each prepared column is one small fitted part: a scaled number, a flag for missing cells, a flag for one level of a
category, a flag for all rarer levels together, or where in the year, the week or the day a date is. Flags are centred
and divided by 0.5 rather than by their standard deviation, so that a rare flag does not become a huge number. The
same holds for a number that has one value in most rows: it is divided by half the usual distance of the other rows
from that value, where that is more than the standard deviation. A column that never varies among the training rows
says nothing and is dropped.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from laconic.errors import DataError
from laconic.values import Array

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
        return np.asarray((_inside(cells, self.low, self.high) - self.share) / _HALF)


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
            found = np.asarray(self.weights)[np.searchsorted(self.edges, cells)]
        return np.where(np.isnan(cells), self.missing, found)

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        return (self.weigh(cells) - self.centre) / self.scale


def fit_bins(name: str, source: int, cells: Array) -> Iterator[Binned]:
    """A flag for each quantile bin of a number, but for a number with one bin only, which says nothing."""
    ends: list[float | None] = [None, *_edges(cells[~np.isnan(cells)]), None]
    if len(ends) == 2:
        return
    for low, high in pairwise(ends):
        where = f"{'' if low is None else f'{low:g} < '}{name}{'' if high is None else f' <= {high:g}'}"
        share = float(_inside(cells, low, high).sum() / len(cells))
        yield Binned(name=where, source=source, low=low, high=high, share=share)


def fit_weights(name: str, source: int, cells: Array, positive: Array, *, levels: bool) -> Iterator[Weighed]:
    """The weight of evidence of a column's bins, by labelled training rows; nothing where all bins weigh the same.

    Args:
        cells: of the labelled training rows.
        positive: which of these rows are of the second class.
        levels: whether cells are codes of levels rather than numbers.
    """
    known = cells[~np.isnan(cells)]
    edges, codes = ((), _frequent(known, len(cells))) if levels else (_edges(known), ())
    # Bins of numbers or frequent levels, then of rare levels, then of missing cells.
    last = len(codes) if levels else len(edges) + 1
    bins = np.where(np.isnan(cells), last + 1, _place(cells, codes) if levels else np.searchsorted(edges, cells))
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


def _inside(cells: Array, low: float | None, high: float | None) -> Array:
    above = ~np.isnan(cells) if low is None else cells > low
    return above if high is None else above & (cells <= high)


def _edges(known: Array) -> tuple[float, ...]:
    if known.size == 0:
        return ()
    edges = np.unique(np.quantile(known, np.arange(1, BINS) / BINS, method="lower"))
    return tuple(edges[edges < known.max()].tolist())


def _frequent(known: Array, rows: int) -> tuple[int, ...]:
    codes, counts = np.unique(known.astype(np.int64), return_counts=True)
    return tuple(codes[counts >= max(_FEWEST, RARE * rows)].tolist())


def _place(cells: Array, codes: tuple[int, ...]) -> Array:
    """The place of each cell among rising codes, and the place after the last for a cell that is none of them."""
    places = np.searchsorted(codes, cells)
    return np.where(np.append(codes, -1)[np.minimum(places, len(codes))] == cells, places, len(codes))


MOST_LEVELS = 64
"""A category keeps its most frequent levels, this many; the rest share one column."""

SQUARABLE = 1e150
"""Cells beyond this count as this in sums of squares, which would overflow otherwise."""

_FARTHEST = 1e4  # standard deviations; no training row of fewer than 1e8 can be farther out, new rows are cut here
_PLAIN = (1e-100, 1e100)  # numbers of a size between these can be squared and added up as they are


class Column(msgspec.Struct, frozen=True):
    """One raw column.

    Attributes:
        name: as in the file it came from.
        kind: `numeric` cells are numbers; `categorical` cells are codes of `levels`; `pixels` is a whole image.
            NaN is a missing cell. A code outside `levels` is a level nobody had seen when codes were given.
        levels: the names behind the codes of a categorical column.
        prepare: `usual` scales numbers and gives levels a flag each; `bins` gives each quantile bin of a number a flag;
            `woe` takes the weight of evidence of its bin or level, for two classes at the party that has the labels;
            `date` scales the number of the day, and adds where in the year, the week and the day it is.
        written: how its file writes numbers or dates, as an example such as 1.234,5 or 31.01.2013, so that new rows are
            read in the same way; unset where nothing had to be decided.
    """

    name: str
    kind: Literal["numeric", "categorical", "pixels"] = "numeric"
    levels: tuple[str, ...] = ()
    prepare: Literal["usual", "bins", "woe", "date"] = "usual"
    written: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def notation(self) -> str:
        """How its file writes numbers or dates; empty if that is not known."""
        return "" if isinstance(self.written, msgspec.UnsetType) else self.written


class Scaled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A number less `centre`, over `scale`; a missing cell becomes 0, the mean."""

    name: str
    source: int
    centre: float
    scale: float

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        numbers, unit = cells.astype(np.float64), 1.0
        if self.scale > _PLAIN[1]:
            # Halves, as the difference of two huge numbers may be infinite.
            numbers, unit = (np.clip(cells, -SQUARABLE, SQUARABLE) if self.scale <= SQUARABLE else cells) / 2, _HALF
        with np.errstate(over="ignore"):  # An infinite quotient is cut off, as others that are too large.
            prepared = (numbers - self.centre * unit) / (self.scale * unit)
        return np.nan_to_num(np.clip(prepared, -_FARTHEST, _FARTHEST), nan=0.0)


class Missing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A flag for missing cells, of which training rows had `share`."""

    name: str
    source: int
    share: float

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        return (np.isnan(cells) - self.share) / _HALF


class Level(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A flag for one level of a category, which `share` of the training rows had."""

    name: str
    source: int
    code: int
    share: float

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        return np.asarray(((cells == self.code) - self.share) / _HALF)


class Other(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A flag for every level but those that have a column of their own."""

    name: str
    source: int
    named: tuple[int, ...]
    share: float

    def apply(self, cells: Array) -> Array:
        """The prepared column for raw cells."""
        return ((~np.isin(cells, self.named) & ~np.isnan(cells)) - self.share) / _HALF


_IN_A_YEAR, _IN_A_WEEK = 365.2425, 7
_FIRST_WEEKDAY = 3  # 1 January 1970 was a Thursday; weeks begin on Monday


class Cycle(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where in the year, the week or the day a date is, on a circle: its sine or cosine; a missing one is 0.

    It needs no statistics of rows, so that all parties prepare a date in the same way.
    """

    name: str
    source: int
    unit: Literal["year", "week", "day"]
    turn: Literal["sin", "cos"]

    def apply(self, cells: Array) -> Array:
        """The prepared column for days since 1970."""
        angle = 2 * np.pi * _place_in(self.unit, cells)
        return np.nan_to_num(np.sin(angle) if self.turn == "sin" else np.cos(angle), nan=0.0)


class Weekend(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A flag for Saturdays and Sundays."""

    name: str
    source: int

    def apply(self, cells: Array) -> Array:
        """The prepared column for days since 1970."""
        flags = (_place_in("week", cells) * _IN_A_WEEK >= 5) - 2 / 7
        return np.where(np.isnan(cells), 0.0, flags) / _HALF


def date_parts(name: str, source: int, known: Array | None) -> "Iterator[Cycle | Weekend]":
    """What a date says beside the number of its day: where it is in the year, the week and, with times, the day.

    Args:
        known: the dates of training rows, of which parts that never vary are left out; None where nobody sees all rows,
            for all parts but the time of day.
    """
    words = {"year": "time of year", "week": "day of week", "day": "time of day"}
    units: tuple[Literal["year", "week", "day"], ...] = ("year", "week", "day")
    for unit in units:
        if known is None:
            varies = unit != "day"
        else:
            varies = bool(known.size) and np.ptp(_place_in(unit, known)) > 0 and (unit != "year" or np.ptp(known) > 30)
        if varies:
            yield Cycle(name=f"{name}: {words[unit]} (sine)", source=source, unit=unit, turn="sin")
            yield Cycle(name=f"{name}: {words[unit]} (cosine)", source=source, unit=unit, turn="cos")
        if varies and unit == "week":
            yield Weekend(name=f"{name} is at the weekend", source=source)


def _place_in(unit: str, days: Array) -> Array:
    """How far into its year, week (by whole days) or day each date is, from 0 to 1."""
    if unit == "year":
        return np.asarray(days % _IN_A_YEAR / _IN_A_YEAR)
    if unit == "week":
        return np.asarray((np.floor(days) + _FIRST_WEEKDAY) % _IN_A_WEEK / _IN_A_WEEK)
    return np.asarray(days % 1.0)


class Shaded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Pixels from 0 to 1, less their mean over training rows, over their standard deviation."""

    mean: float
    sd: float

    def apply(self, images: Array) -> Array:
        """The prepared images; shape is kept."""
        shades = ((np.arange(256) / 255 - self.mean) / self.sd).astype(np.float32)
        return shades[images]


Part: TypeAlias = Scaled | Missing | Level | Other | Binned | Weighed | Cycle | Weekend


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What was learnt from training rows about how to prepare rows; plain values, so that it can be stored.

    Attributes:
        columns: the raw columns it expects, in order; their levels say how new text is to be coded.
        parts: one for each prepared column, in order; empty for images.
        shades: how to prepare images; None for a table.
    """

    columns: tuple[Column, ...]
    parts: tuple[Part, ...] = ()
    shades: Shaded | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the prepared columns, such as `age`, `age is missing`, `town=Ulm`, `town is other`."""
        return tuple(part.name for part in self.parts)

    @property
    def sources(self) -> tuple[str, ...]:
        """For each prepared column, the raw column it came from."""
        return tuple(self.columns[part.source].name for part in self.parts)


def fit_recipe(
    raw: Array, columns: Sequence[Column], rows: Array, *, party: str = "", classes: Array | None = None
) -> Recipe:
    """Learn from the given rows how to prepare a table or a stack of images.

    Args:
        rows: which rows are for training; no other row is looked at.
        classes: for each row 0, 1, or below 0 if not known, where the label has two classes; None without such labels.
    """
    if raw.ndim == 4:
        return Recipe(columns=tuple(columns), shades=_fit_shades(raw, rows, party))
    labels = None if classes is None else classes[rows]
    parts: list[Part] = []
    for i, column in enumerate(columns):
        # By column, as a copy of all training rows may be more than memory holds.
        cells = raw[:, i][rows]
        refuse_infinity(cells[:, None], [column], party)
        parts += _fit_column(column, i, cells, labels, party)
    if columns and not parts:
        raise DataError(
            f"party {party!r}: no column varies among its {len(rows)} training rows, so nothing can be learnt "
            f"from {', '.join(column.name for column in columns[:5])}; give it other columns or leave it out"
        )
    return Recipe(columns=tuple(columns), parts=tuple(parts))


def apply_recipe(recipe: Recipe, raw: Array, *, party: str = "") -> Array:
    """Prepare rows, known or new, as float32; their columns and levels are those that the recipe was fitted on."""
    if recipe.shades is not None:
        return recipe.shades.apply(raw)
    if raw.ndim != 2 or raw.shape[1] != len(recipe.columns):
        raise DataError(
            f"party {party!r}: the recipe was fitted on {len(recipe.columns)} columns but the rows have shape "
            f"{raw.shape}; give the columns it was fitted on, in the same order"
        )
    refuse_infinity(raw, recipe.columns, party)
    prepared = np.empty((len(raw), len(recipe.parts)), dtype=np.float32)
    for i, part in enumerate(recipe.parts):
        prepared[:, i] = part.apply(raw[:, part.source])
    return prepared


def refuse_infinity(raw: Array, columns: Sequence[Column], party: str) -> None:
    """Raise a `DataError` naming the first infinite cell, if there is one."""
    found = [(int(endless.argmax()), at) for at, cells in enumerate(raw.T) if (endless := np.isinf(cells)).any()]
    if not found:
        return
    row, column = min(found)
    raise DataError(
        f"party {party!r}, column {columns[column].name!r}: found {raw[row, column]} in row {row + 1}; "
        "replace infinity by a number, or leave the cell empty to mark it missing"
    )


def _fit_column(column: Column, source: int, cells: Array, labels: Array | None, party: str) -> Iterator[Part]:
    known = cells[~np.isnan(cells)]
    if column.prepare == "woe":
        if labels is None:
            raise DataError(
                f"party {party!r}, column {column.name!r}: a weight of evidence needs labels of two classes, which "
                "this party does not have; say prepare = 'bins' or leave it out"
            )
        labelled, levels = labels >= 0, column.kind == "categorical"
        yield from fit_weights(column.name, source, cells[labelled], labels[labelled] == 1, levels=levels)
        return
    if column.prepare == "bins" and column.kind == "numeric":
        yield from fit_bins(column.name, source, cells)
    elif column.kind == "categorical":
        yield from _fit_levels(column, source, known.astype(np.int64), len(cells))
    else:
        yield from _fit_scale(column, source, known.astype(np.float64))
        if column.prepare == "date":
            yield from date_parts(column.name, source, known)
    if 0 < known.size < cells.size:
        yield Missing(name=f"{column.name} is missing", source=source, share=1 - known.size / cells.size)


def _fit_scale(column: Column, source: int, known: Array) -> Iterator[Scaled]:
    if known.size == 0 or known.min() == known.max():
        return  # Asked of the cells themselves: rounding can part a large constant from its own mean.
    farthest = float(np.abs(known).max())
    unit = 1.0 if _PLAIN[0] < farthest < _PLAIN[1] else farthest
    known = known / unit
    centre = float(known.mean())
    usual = np.median(known)  # a value that more than half of the rows have is their median
    scale = _spread(known - centre)
    if (known == usual).mean() > _HALF:
        scale = max(scale, _HALF * _spread(known[known != usual] - usual))
    if scale * unit > 0:
        yield Scaled(name=column.name, source=source, centre=centre * unit, scale=scale * unit)


def _spread(away: Array) -> float:
    """The root of the mean square; scaled before squaring, or tiny distances would underflow to 0."""
    farthest = np.abs(away).max(initial=0)
    return float(farthest * np.sqrt(np.mean((away / farthest) ** 2))) if farthest > 0 else 0.0


def _fit_levels(column: Column, source: int, known: Array, rows: int) -> Iterator[Level | Other]:
    codes, counts = np.unique(known, return_counts=True)
    if len(codes) == 1 and counts[0] == rows:
        return
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
    for code, count in zip(codes[kept].tolist(), counts[kept].tolist(), strict=True):
        level = column.levels[code] if 0 <= code < len(column.levels) else str(code)
        yield Level(name=f"{column.name}={level}", source=source, code=code, share=count / rows)
    if len(kept) < len(codes):
        named = tuple(codes[kept].tolist())
        share = 1 - (counts[kept].sum() + rows - known.size) / rows
        yield Other(name=f"{column.name} is other", source=source, named=named, share=float(share))


def _fit_shades(raw: Array, rows: Array, party: str) -> Shaded:
    counts = np.zeros(256, dtype=np.int64)
    for some in np.array_split(rows, len(rows) // 4096 + 1):
        counts += np.bincount(raw[some].ravel(), minlength=256)
    shades, weights = np.arange(256) / 255, counts / counts.sum()
    mean = float(shades @ weights)
    sd = float(np.sqrt((shades - mean) ** 2 @ weights))
    if sd == 0:
        raise DataError(f"party {party!r}: every pixel of its training images is the same; give it other images")
    return Shaded(mean=mean, sd=sd)
