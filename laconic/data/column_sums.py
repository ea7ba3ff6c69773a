"""A recipe for parties with other rows from sums of their columns: enough to scale alike, and no row of anyone.

Each party tells, of each column, five numbers. Together they give the mean and the standard deviation over all rows,
and how many cells are 0, so that a number which is 0 in most rows is not divided by next to nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from laconic.core.columns import LARGEST, Column, Level, Missing, Part, Recipe, Scaled
from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.values import Array

LEAST = 5
"""A level, or a column, that fewer training rows than this have is not told: it would tell of single people."""

SUMS = ("rows", "known", "mean", "squares", "zeros")
"""What is told of a column: how many rows, how many know it, their mean, the squares about it, how many are 0."""

_HALF = 0.5


def sums_of(table: Table) -> Array:
    """The numbers of `SUMS` for each column of a party's training rows, float64; zeros for a column not to be told."""
    rows = table.raw[table.cut("train")]
    found = [_sums(column, rows[:, at]) for at, column in enumerate(table.columns)]
    return np.array(found, dtype=np.float64).reshape(-1, len(SUMS))


def told_columns(table: Table) -> tuple[Column, ...]:
    """The columns of a party, with those of their levels that enough of its training rows have."""
    rows = table.raw[table.cut("train")]
    return tuple(
        msgspec.structs.replace(column, levels=_common(column, rows[:, at])) for at, column in enumerate(table.columns)
    )


def add_sums(parts: Sequence[Array]) -> Array:
    """The same numbers for all parties' rows together.

    Means and squares about them are put together two parties at a time, which loses no digits to large numbers.
    """
    total = parts[0].copy()
    for part in parts[1:]:
        rows, known, mean, squares, zeros = part.T
        both = total[:, 1] + known
        share = np.divide(known, both, out=np.zeros_like(both), where=both > 0)
        away = mean - total[:, 2]
        total[:, 3] += squares + away**2 * total[:, 1] * share
        total[:, 2] += away * share
        total[:, [0, 1, 4]] += np.stack([rows, known, zeros], axis=1)
    return total


def recipe_from(columns: Sequence[Column], sums: Array) -> Recipe:
    """How all parties prepare their columns: numbers by the mean and the spread over all rows, a flag for each level.

    A flag is centred by one over the number of levels, as how frequent each is was not told.

    Raises:
        DataError: no column varies.
    """
    parts = tuple(part for at, column in enumerate(columns) for part in _parts(column, at, sums[at]))
    if not parts:
        raise DataError(
            f"no column varies among the training rows of all parties, as far as they tell: a column that fewer than "
            f"{LEAST} rows of a party have is not told. Give more rows, or public rows (--public FILE), by which "
            "columns are prepared then"
        )
    return Recipe(columns=tuple(columns), parts=parts)


def _sums(column: Column, cells: Array) -> tuple[float, ...]:
    known = cells[~np.isnan(cells)]
    if len(known) < LEAST:
        return (0.0,) * len(SUMS)
    if column.kind == "categorical":
        return float(len(cells)), float(len(known)), 0.0, 0.0, 0.0
    # A constant is its own mean: rounding can part a large one from the mean of its copies.
    mean = float(known[0] if known.min() == known.max() else known.mean())
    return float(len(cells)), float(len(known)), mean, float(((known - mean) ** 2).sum()), float((known == 0).sum())


def _common(column: Column, cells: Array) -> tuple[str, ...]:
    codes = cells[~np.isnan(cells)].astype(np.int64)
    times = np.bincount(codes, minlength=len(column.levels))
    return tuple(level for level, count in zip(column.levels, times, strict=False) if count >= LEAST)


def _parts(column: Column, source: int, sums: Array) -> Iterator[Part]:
    rows, known, mean, squares, zeros = sums.tolist()
    if known == 0:
        return
    if column.kind == "categorical":
        if len(column.levels) > 1 or known < rows:
            for code, level in enumerate(column.levels):
                share = 1 / len(column.levels)
                yield Level(name=f"{column.name}={level}", source=source, code=code, share=share)
    elif squares > 0:
        scale = float(np.sqrt(squares / known))
        if zeros > _HALF * known:
            # Decision 6, for the value 0: half the usual distance of the other cells from it.
            scale = max(scale, _HALF * float(np.sqrt((squares + known * mean**2) / (known - zeros))))
        if scale > 1 / LARGEST:
            yield Scaled(name=column.name, source=source, centre=mean, scale=scale)
    if known < rows:
        yield Missing(name=f"{column.name} is missing", source=source, share=1 - known / rows)
