"""One column of a party's source, read batch by batch into raw cells."""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from laconic.core.columns import Column
from laconic.core.values import Array
from laconic.data.kinds import are_dates, as_days, as_numbers
from laconic.data.own_data import ColumnKind

if TYPE_CHECKING:
    from pandas import Series


class ColumnReader(Protocol):
    """Takes a column's cells as they come, and gives them as raw cells in the end."""

    @property
    def name(self) -> str:
        """The column's name in the source."""
        ...

    def add(self, series: "Series", before: int) -> None:
        """Take the cells of one batch, before which there were so many rows."""
        ...

    def finish(self) -> tuple[Column, Array]:
        """What the column is, and all its cells."""
        ...


def reader_of(column: Column, kind: ColumnKind | None, party: str, *, new: bool) -> ColumnReader:
    """The reader for a column: of levels, of dates, or of numbers; known levels are kept unless the column is new."""
    if column.kind == "categorical":
        return LevelReader(column.name, () if new else column.levels)
    return NumberReader(column.name, party, dates=None if kind is None else kind == "date")


class NumberReader:
    """Numbers as they are, dates as days since 1970; `dates` is None to tell which of the two from the cells."""

    def __init__(self, name: str, party: str, *, dates: bool | None) -> None:
        self.name = name
        self._party, self._dates = party, dates
        self._parts: list[Array] = []

    def add(self, series: "Series", before: int) -> None:
        """Take one batch."""
        dates = are_dates(series) if self._dates is None else self._dates
        read = as_days if dates else as_numbers
        self._parts.append(read(series, self._party, before))

    def finish(self) -> tuple[Column, Array]:
        """All numbers."""
        return Column(self.name), np.concatenate(self._parts)


class LevelReader:
    """Text as codes: of known levels, or of those found, in sorted order."""

    def __init__(self, name: str, levels: tuple[str, ...]) -> None:
        self.name = name
        self._known = bool(levels)
        self._codes: dict[str, int] = {level: code for code, level in enumerate(levels)}
        self._levels = levels
        self._parts: list[Array] = []

    def add(self, series: "Series", before: int) -> None:
        """Take one batch; new levels get codes in the order found, or one code for all where levels are known."""
        import pandas

        text = series.astype("string").str.strip()
        text = text.mask((text == "").fillna(False))
        places, found = pandas.factorize(text)
        codes = np.array([self._code(level) for level in found], dtype=np.float64)
        cells = np.full(len(text), np.nan)
        cells[places >= 0] = codes[places[places >= 0]]
        self._parts.append(cells)

    def finish(self) -> tuple[Column, Array]:
        """All codes, and the levels they stand for."""
        cells = np.concatenate(self._parts)
        if self._known:
            return Column(self.name, "categorical", self._levels), cells
        levels = tuple(sorted(self._codes))
        # Sorted, so that the codes do not depend on the order of rows.
        new = np.empty(len(levels) + 1)
        new[[self._codes[level] for level in levels]] = np.arange(len(levels))
        known = ~np.isnan(cells)
        cells[known] = new[cells[known].astype(np.int64)]
        return Column(self.name, "categorical", levels), cells

    def _code(self, level: str) -> int:
        if self._known:
            return self._codes.get(level, len(self._levels))
        return self._codes.setdefault(level, len(self._codes))
