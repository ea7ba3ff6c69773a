"""Columns of a file as raw cells: what each is, how it writes numbers and dates, and notes on what was decided.

What is decided is kept with the column (`Column.written`), so that rows that come later are read in the same way.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow
import pyarrow.compute as pc

from laconic.data.readers.cells import (
    MARKS,
    NO_VALUE,
    Cells,
    Dates,
    DayOrder,
    Decimal,
    Written,
    arrow_text,
    cells_of,
    code_cells,
    could_be_groups,
    days_of,
    looked_at,
    written,
)
from laconic.data.schema import ColumnKind
from laconic.errors import DataError
from laconic.tables.columns import MOST_LEVELS, Column
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


_MOSTLY = 0.5  # the share of cells that must be numbers, or dates, for the others to be mistakes
_FEW = 0.1  # with more mistakes than this share, a column of few different cells holds levels
_SAMPLE = 1000


@dataclass(frozen=True)
class Look:
    """One column, looked at.

    Attributes:
        series: its cells.
        values: its numbers, or days since 1970, where no cell needs to be interpreted; None if some do.
        fixed: what the column is by its type; None for text.
    """

    series: "Series"
    values: Array | None
    fixed: ColumnKind | None

    @cached_property
    def cells(self) -> Cells:
        """The cells as text."""
        return cells_of(self.series)

    @cached_property
    def numbers(self) -> Written:
        """The different words as numbers."""
        return written(self.cells.words)

    @cached_property
    def dates(self) -> Dates:
        """The different words as dates."""
        return looked_at(self.cells.words)

    @cached_property
    def no_value(self) -> Array:
        """Which of the different words stand for a missing cell among numbers and dates."""
        return np.array([word.lower() in NO_VALUE for word in self.cells.words.to_pylist()], dtype=bool)

    @property
    def name(self) -> str:
        """The column's name."""
        return str(self.series.name)

    @property
    def empty(self) -> bool:
        """Whether no cell is known."""
        return bool(np.isnan(self.values).all()) if self.values is not None else not self.series.notna().any()

    @cached_property
    def tally(self) -> "Tally":
        """How many known cells there are, and how many are numbers, dates or neither."""
        if self.values is not None:
            known = int((~np.isnan(self.values)).sum())
            return Tally(known, 0 if self.fixed == "date" else known, known if self.fixed == "date" else 0, known)
        counts = self.cells.counts
        real = counts * ~self.no_value
        marks = all(word in MARKS for word in self.cells.words.to_pylist())
        numbers, dates = int(real[self.numbers.numbers].sum()), int(real[self.dates.dates].sum())
        return Tally(0 if marks else int(real.sum()), numbers, dates, len(counts))

    @property
    def kind(self) -> ColumnKind:
        """What the column is."""
        return self.fixed or self.tally.kind

    def could_be_groups(self) -> bool:
        """Whether all points of these plain numbers could be between groups of three digits."""
        if self.fixed is not None or self.values is None or not len(self.series):
            return False
        text = arrow_text(self.series)
        return could_be_groups(text[:_SAMPLE].drop_null()) and could_be_groups(text.drop_null())


class Tally(NamedTuple):
    """Of a column of text: its cells but those that stand for missing ones, its numbers, its dates, its words."""

    known: int
    numbers: int
    dates: int
    different: int

    @property
    def kind(self) -> ColumnKind:
        """Numbers or dates if all cells are, or most and the others look like mistakes; levels otherwise."""
        if self.known == 0:
            return "categorical" if self.numbers == 0 and self.different > 1 else "numeric"
        best: Literal["numeric", "date"] = "date" if self.dates > self.numbers else "numeric"
        odd = 1 - max(self.dates, self.numbers) / self.known
        mistaken = odd <= _FEW or (odd <= _MOSTLY and self.different > MOST_LEVELS)
        return best if mistaken else "categorical"

    @property
    def mixed(self) -> bool:
        """Whether most cells are numbers or dates and yet the column holds levels."""
        return self.kind == "categorical" and 2 * max(self.dates, self.numbers) >= self.known > 0


class Evidence(NamedTuple):
    """What the other columns of a file say of one that does not say it itself.

    Attributes:
        decimal: the sign before fractions in most columns that show one; None if none does.
        order: whether the day or the month is first in most columns that show it; None if none does.
        delimiter: what is between the file's columns; empty if nothing is, as in Parquet.
    """

    decimal: Decimal | None = None
    order: DayOrder | None = None
    delimiter: str = ""


def look_at(series: "Series") -> Look:
    """Look at one column."""
    import pandas
    from pandas.api import types

    if types.is_bool_dtype(series.dtype) or isinstance(series.dtype, pandas.CategoricalDtype):
        return Look(series, None, "categorical")
    if types.is_datetime64_any_dtype(series.dtype):
        return Look(series, days_of(series), "date")
    if types.is_timedelta64_dtype(series.dtype):
        return Look(series, series.dt.total_seconds().to_numpy(dtype=np.float64) / 86400, "numeric")
    if types.is_numeric_dtype(series.dtype):
        return Look(series, series.to_numpy(dtype=np.float64, na_value=np.nan), "numeric")
    return Look(series, _plain(series), None)


def _evidence_of(looks: Iterable[Look], delimiter: str) -> Evidence:
    """What the columns of one file say together."""
    decimals: list[str] = []
    orders: list[str] = []
    for look in looks:
        if look.fixed is not None:
            continue
        if look.values is not None:
            if _has_fractions(look.values) and not look.could_be_groups():
                decimals.append(".")
        elif look.kind == "numeric":
            decimals.append(look.numbers.decimal(look.cells.counts) or "")
        elif look.kind == "date":
            orders.append(look.dates.order(look.cells.counts) or "")
    return Evidence(_most(decimals, ".", ","), _most(orders, "day_first", "month_first"), delimiter)


def _has_fractions(values: Array) -> bool:
    """Whether any number is not whole."""
    known = values[np.isfinite(values)]
    return bool((known != np.floor(known)).any())


def _most(found: list[str], one: Any, other: Any) -> Any:
    ones, others = found.count(one), found.count(other)
    return None if ones == others == 0 else one if ones >= others else other


def _plain(series: "Series") -> Array | None:
    """The numbers of a column of text that has nothing but plain ones; None if any cell is something else."""
    text = arrow_text(series)
    try:
        numbers = pc.cast(text, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


POINT, GROUPS, COMMA = "1234.5", "1,234.5", "1.234,5"
ISO, DAY_FIRST, MONTH_FIRST = "2013-01-31", "31.01.2013", "01/31/2013"

DELIMITER = "delimiter"
"""The key in a frame's `attrs` under which the delimiter of its file is kept."""

LEFT_OUT = "left out, as nearly every row has another text, like an id"

_Values: TypeAlias = tuple[Array, Array, str | msgspec.UnsetType]  # per word, whether it fits, and how it is written
_MOST_UNIQUE = 20  # with more different texts than this, nearly one per row, a column names its rows
_NEARLY = 0.9


def kinds_of(
    party: str, looks: Mapping[str, Look], said: Mapping[str, ColumnKind], notes: list[str]
) -> dict[str, ColumnKind]:
    """What each column is: as said, or as its cells show. Columns that only name rows are left out, with a note."""
    kinds: dict[str, ColumnKind] = {}
    for name, look in looks.items():
        if name not in said and look.kind == "categorical" and name_rows([look]):
            notes.append(f"{_of(party, look)}: {LEFT_OUT}")
        else:
            kinds[name] = said.get(name) or look.kind
    return kinds


def read_columns(
    party: str,
    looks: Mapping[str, Look],
    kinds: Mapping[str, ColumnKind],
    *,
    said: Collection[str],
    frame: "DataFrame",
    notes: list[str],
) -> tuple[list[Column], Array]:
    """The columns that `kinds` names, and their cells as one matrix.

    Args:
        party, frame: whose rows they are, and the rows.
        looks: all columns of the file: one may show how another is written.
        kinds: what each column is that is wanted.
        said: those whose kind somebody said; a cell that does not fit is refused there.
        notes: what was decided and should be looked at is added here.
    """
    evidence = _evidence_of(looks.values(), delimiter_of(frame))
    columns, cells = [], []
    for name, kind in kinds.items():
        look = looks[name]
        if kind == "categorical":
            if name not in said:
                _note_mixed(party, look, notes)
            codes, levels = code_cells(look.cells, None, _of(party, look), notes)
            columns.append(Column(name, "categorical", levels))
            cells.append(codes)
        else:
            values, how = read_values(party, look, kind, evidence, notes, said=name in said)
            columns.append(Column(name, written=how))
            cells.append(values)
    return columns, np.column_stack(cells) if cells else np.empty((len(frame), 0))


def read_known(
    party: str, frame: "DataFrame", columns: Iterable[Column], *, notes: list[str], before: int = 0
) -> Array:
    """The cells of columns that a model was trained on, read as they were then, as one matrix.

    Args:
        party, frame: whose rows they are, and the rows, which may have other columns too.
        columns: what the model knows of them.
        notes: what was decided and should be looked at is added here.
        before: how many rows came before these, for errors.
    """
    looks = {column.name: look_at(frame[column.name]) for column in columns}
    counted = [looks[column.name] for column in columns if column.kind != "categorical"]
    evidence = _evidence_of(counted, delimiter_of(frame))
    found = []
    for column in columns:
        look, how = looks[column.name], column.notation
        if column.kind == "categorical":
            found.append(code_cells(look.cells, column.levels, "", [])[0])
            continue
        dated = how in (ISO, DAY_FIRST, MONTH_FIRST) or (not how and look.kind == "date")
        kind: ColumnKind = "date" if dated else "numeric"
        found.append(read_values(party, look, kind, evidence, notes, said=False, known=how, before=before)[0])
    return np.column_stack(found) if found else np.empty((len(frame), 0))


def read_values(
    party: str,
    look: Look,
    kind: ColumnKind,
    evidence: Evidence,
    notes: list[str],
    *,
    said: bool,
    known: str = "",
    before: int = 0,
) -> tuple[Array, str | msgspec.UnsetType]:
    """A column of numbers or dates: its values, NaN where missing, and how they are written.

    Args:
        party: whose it is. look: its cells. kind: what it is. evidence: of the other columns.
        notes: what was decided is added here.
        said: whether somebody said what it is; then a cell that does not fit is refused.
        known: how the column was written when a model was trained; empty if that is not known.
        before: how many rows came before these, for errors.
    """
    if look.values is not None and (kind == "date") == (look.fixed == "date") and not look.could_be_groups():
        fraction = look.fixed is None and _has_fractions(look.values)
        return look.values, ISO if kind == "date" else POINT if fraction else msgspec.UNSET
    if look.fixed == "categorical":
        look = Look(look.series, None, None)
    values, fits, how = (_days if kind == "date" else _numbers)(party, look, evidence, notes, known)
    _check_odd(party, look, kind, ~fits, notes, said=said, late=before, strict=said or bool(known))
    return look.cells.spread(values), how


def name_rows(looks: Collection[Look]) -> bool:
    """Whether a column, at one party or several, has another text in nearly every row, as an id or a name does."""
    different = sum(len(look.cells.words) for look in looks)
    known = sum(int((look.cells.places >= 0).sum()) for look in looks)
    text = all(look.fixed is None for look in looks)
    return text and different > _MOST_UNIQUE and different >= _NEARLY * known


def _note_mixed(party: str, look: Look, notes: list[str]) -> None:
    """Note a column of levels most of which are numbers or dates."""
    if look.fixed is None and look.tally.mixed:
        odd = ~(look.numbers.numbers | look.dates.dates | look.no_value)
        row = look.cells.first_row(odd)
        notes.append(
            f"{_of(party, look)}: most cells are numbers, but {int(look.cells.counts[odd].sum())} are text, such as "
            f"{_short(look.cells.word_at(row))} in row {row + 1}; all are taken as levels"
        )


def delimiter_of(frame: "DataFrame") -> str:
    """What was between the columns of the file that a frame was read from; empty if nothing was."""
    return str(frame.attrs.get(DELIMITER, ""))


def _numbers(party: str, look: Look, evidence: Evidence, notes: list[str], known: str) -> _Values:
    found, counts = look.numbers, look.cells.counts
    own = found.decimal(counts)
    before = None if not known else "," if known == COMMA else "."
    by_delimiter = {";": ",", ",": "."}.get(evidence.delimiter)
    decimal = own or before or evidence.decimal or found.likely_decimal() or by_delimiter or "."
    values = found.values("," if decimal == "," else ".")
    if own is None and found.either.any() and not before and (decimal == "," or found.has_commas):
        row = look.cells.first_row(found.either)
        number = values[int(look.cells.places[row])]
        why = "as other columns of the file are written" if evidence.decimal else "as nothing shows otherwise"
        notes.append(
            f"{_of(party, look)}: {look.cells.word_at(row)!r} in row {row + 1} is read as {number:.15g}, {why}; if "
            "that is wrong, write the column without signs between thousands"
        )
    if own is not None and before is not None and own != before and (found.comma.any() or found.either.any()):
        notes.append(f"{_of(party, look)}: numbers are written differently from training, with {own!r} for fractions")
    if found.point.any() and found.comma.any():
        notes.append(f"{_of(party, look)}: some numbers have a point before the fraction and some a comma")
    if len(found.currencies) > 1:
        notes.append(
            f"{_of(party, look)}: amounts are in {' and '.join(found.currencies)}, and are taken as they are; "
            "convert them to one currency first"
        )
    how = COMMA if decimal == "," else GROUPS if found.has_commas else POINT if found.point.any() else msgspec.UNSET
    return values, found.numbers, how


def _days(party: str, look: Look, evidence: Evidence, notes: list[str], known: str) -> _Values:
    found = look.dates
    own = found.order(look.cells.counts)
    before = {DAY_FIRST: "day_first", MONTH_FIRST: "month_first"}.get(known)
    order = own or before or evidence.order or "day_first"
    values = found.days("month_first" if order == "month_first" else "day_first")
    if own is None and found.needs_order and not before:
        row = look.cells.first_row(found.year_last)
        why = "as other columns of the file are written" if evidence.order else "as nothing shows otherwise"
        first = "month" if order == "month_first" else "day"
        notes.append(
            f"{_of(party, look)}: {look.cells.word_at(row)!r} in row {row + 1} is read with the {first} first, {why}; "
            "if that is wrong, write dates as 2013-01-31"
        )
    how = ISO if not found.year_last.any() else MONTH_FIRST if order == "month_first" else DAY_FIRST
    return values, found.dates & ~np.isnan(values), how


def _check_odd(
    party: str, look: Look, kind: ColumnKind, odd: Array, notes: list[str], *, said: bool, late: int, strict: bool
) -> None:
    """Note cells that are no numbers, or no dates, and count as missing; refuse them where nobody would expect them."""
    if not odd.any():
        return
    counts = look.cells.counts
    row = look.cells.first_row(odd & ~look.no_value if (odd & ~look.no_value).any() else odd)
    word = _short(look.cells.word_at(row))
    mistakes, times = int(counts[odd & ~look.no_value].sum()), int(counts[odd].sum())
    what = "numbers" if kind == "numeric" else "dates"
    known = int(counts[~look.no_value].sum())
    if mistakes and (said or (strict and 2 * mistakes > known)):
        remedy = "write dates as 2013-01-31" if kind == "date" else "correct the cell"
        raise DataError(
            f"party {party!r}, column {look.name!r}: found {word} in row {late + row + 1} among {what} "
            f"({mistakes} such cells of {len(look.series)}); {remedy}, leave it empty if it is missing, or say "
            f"kinds={{{look.name!r}: 'categorical'}} (data.columns in a party file) if it holds names"
        )
    notes.append(
        f"{_of(party, look)}: {times} of {len(look.series)} cells are no {what}, such as {word} in row "
        f"{late + row + 1}, and count as missing"
    )


def _of(party: str, look: Look) -> str:
    return f"{party}, column {look.name!r}"


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:37] + "...")
