"""Columns of a file as raw cells: what each is, how it writes numbers and dates, and notes on what was decided.

What is decided is kept with the column (`Column.written`), so that rows that come later are read in the same way.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

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
    fold,
    looked_at,
    written,
)
from laconic.data.schema import ColumnKind, SaidKind, notation, plain_kind
from laconic.errors import DataError
from laconic.tables.columns import MOST_LEVELS, Column
from laconic.tables.on_disk import beside
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


T = TypeVar("T")

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

    @property
    def decimal(self) -> Decimal | None:
        """The sign before fractions, as far as this text shows one."""
        if self.fixed is not None:
            return None
        if self.values is not None:
            return "." if _has_fractions(self.values) and not self.could_be_groups() else None
        return self.numbers.decimal(self.cells.counts) if self.kind == "numeric" else None

    @property
    def order(self) -> DayOrder | None:
        """Whether the day or the month is first, as far as this text shows it."""
        is_text = self.fixed is None and self.values is None
        return self.dates.order(self.cells.counts) if is_text and self.kind == "date" else None

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


def _has_fractions(values: Array) -> bool:
    """Whether any number is not whole."""
    known = values[np.isfinite(values)]
    return bool((known != np.floor(known)).any())


def _most(found: Iterable[T | None], one: T, other: T) -> T | None:
    """What most columns show; None if none does."""
    shown = list(found)
    ones, others = shown.count(one), shown.count(other)
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

_MOST_UNIQUE = 20  # with more different texts than this, nearly one per row, a column names its rows
_NEARLY = 0.9


def kinds_of(
    party: str, looks: Mapping[str, Look], said: Mapping[str, SaidKind], notes: list[str]
) -> dict[str, ColumnKind]:
    """What each column is: as said, or as its cells show. Columns that only name rows are left out, with a note."""
    kinds: dict[str, ColumnKind] = {}
    for name, look in looks.items():
        if name not in said and look.kind == "categorical" and name_rows([look]):
            notes.append(f"{_of(party, look)}: {LEFT_OUT}")
        else:
            kinds[name] = plain_kind(said[name]) if name in said else look.kind
    return kinds


def read_columns(
    party: str,
    looks: Mapping[str, Look],
    kinds: Mapping[str, ColumnKind],
    *,
    said: Mapping[str, SaidKind],
    frame: "DataFrame",
    notes: list[str],
) -> tuple[list[Column], Array]:
    """The columns that `kinds` names, and their cells as one matrix.

    Args:
        looks: all columns of the file: one may show how another is written.
        kinds: what each column is that is wanted.
        said: what somebody said that some are; a cell that does not fit is refused there.
    """
    reader = ColumnReader(party, notes, delimiter_of(frame), looks.values())
    columns, cells = [], []
    for name, kind in kinds.items():
        if kind == "categorical":
            codes, levels = reader.levels(looks[name], said=name in said)
            columns.append(Column(name, "categorical", levels))
            cells.append(codes)
        else:
            example = notation(said[name]) if name in said else ""
            values, how = reader.values(looks[name], kind, said=name in said, known=example)
            columns.append(Column(name, prepare="date" if kind == "date" else "usual", written=how))
            cells.append(values)
    return columns, beside(cells, len(frame))


def read_known(
    party: str, frame: "DataFrame", columns: Iterable[Column], *, notes: list[str], before: int = 0
) -> Array:
    """The cells of columns that a model was trained on, read as they were then, as one matrix.

    The frame may have other columns too; so many rows came before its own, for errors.
    """
    looks = {column.name: look_at(frame[column.name]) for column in columns}
    counted = [looks[column.name] for column in columns if column.kind != "categorical"]
    reader = ColumnReader(party, notes, delimiter_of(frame), counted, before)
    found = []
    for column in columns:
        look, how = looks[column.name], column.notation
        if column.kind == "categorical":
            reader.refuse_new_kind(look, column)
            found.append(code_cells(look.cells, column.levels, "", [])[0])
            continue
        dated = column.prepare == "date" or how in (ISO, DAY_FIRST, MONTH_FIRST)
        found.append(reader.values(look, "date" if dated else "numeric", said=False, known=how, later=True)[0])
    return beside(found, len(frame))


@dataclass(frozen=True)
class ColumnReader:
    """Reads columns of one file, each by what the others show where it does not show it itself.

    Attributes:
        party: whose file it is.
        notes: what was decided and should be looked at is added here.
        delimiter: what is between the file's columns; empty if nothing is, as in Parquet.
        looks: the columns that may show how another is written.
        before: how many rows came before these, for errors.
    """

    party: str
    notes: list[str]
    delimiter: str = ""
    looks: Collection[Look] = ()
    before: int = 0

    @cached_property
    def decimal(self) -> Decimal | None:
        """The sign before fractions in most columns that show one; None if none does."""
        return _most((look.decimal for look in self.looks), ".", ",")

    @cached_property
    def order(self) -> DayOrder | None:
        """Whether the day or the month is first in most columns that show it; None if none does."""
        return _most((look.order for look in self.looks), "day_first", "month_first")

    def levels(self, look: Look, *, said: bool) -> tuple[Array, tuple[str, ...]]:
        """The codes and levels of a column; notes one of mostly numbers that nobody said is of levels."""
        if not said and look.fixed is None and look.tally.mixed:
            odd = ~(look.numbers.numbers | look.dates.dates | look.no_value)
            row = look.cells.first_row(odd)
            self._note(
                look,
                f"most cells are numbers, but {int(look.cells.counts[odd].sum())} are text, such as "
                f"{_short(look.cells.word_at(row))} in row {row + 1}; all are taken as levels",
            )
        return code_cells(look.cells, None, _of(self.party, look), self.notes)

    def values(
        self, look: Look, kind: ColumnKind, *, said: bool, known: str = "", later: bool = False
    ) -> tuple[Array, str | msgspec.UnsetType]:
        """A column of numbers or dates: its values, NaN where missing, and how they are written.

        Args:
            said: whether somebody said what it is; then a cell that does not fit is refused.
            known: how the column was written when a model was trained, or is said to be; empty if that is not known.
            later: whether a model was trained on this column; then a column that is now of another kind is refused.
        """
        if look.values is not None and (kind == "date") == (look.fixed == "date") and not look.could_be_groups():
            fraction = look.fixed is None and _has_fractions(look.values)
            return look.values, ISO if kind == "date" else POINT if fraction else msgspec.UNSET
        if look.fixed == "categorical":
            look = Look(look.series, None, None)
        values, fits, how = self._days(look, known) if kind == "date" else self._numbers(look, known, said=said)
        if not fits.all():
            self._check_odd(look, kind, ~fits, said=said, later=later)
        return look.cells.spread(values), how

    def refuse_new_kind(self, look: Look, column: Column) -> None:
        """Refuse a column of levels that has become one of numbers or dates since a model was trained."""
        if look.kind == "categorical" or look.tally.known < _ENOUGH or not column.levels:
            return
        import pandas

        before = look_at(pandas.Series(column.levels, dtype="string")).kind
        known = {fold(level) for level in column.levels}
        if before == "categorical" and not any(fold(word) in known for word in look.cells.words.to_pylist()):
            raise DataError(
                f"party {self.party!r}, column {look.name!r}: it held names when the model was trained, such as "
                f"{_short(column.levels[0])}, and now holds {_KINDS[look.kind]}, such as "
                f"{_short(look.cells.word_at(look.cells.first_row(look.cells.counts > 0)))}. Correct the file, or "
                "train a new model if the column means something else now"
            )

    def _numbers(self, look: Look, known: str, *, said: bool) -> tuple[Array, Array, str | msgspec.UnsetType]:
        """Each word's number, whether it is one, and how numbers are written."""
        found = look.numbers
        own = found.decimal(look.cells.counts)
        before = None if not known else "," if known == COMMA else "."
        by_delimiter = {";": ",", ",": "."}.get(self.delimiter)
        decimal = (
            (before if said else None) or own or before or self.decimal or found.likely_decimal() or by_delimiter or "."
        )
        values = found.values("," if decimal == "," else ".")
        if found.point.any() and found.comma.any() and found.either.any() and not before:
            row = look.cells.first_row(found.either)
            raise DataError(
                f"{_of(self.party, look)}: some numbers have a point before the fraction and some a comma, so that "
                f"{_short(look.cells.word_at(row))} in row {row + 1} can be read in two ways; write them in one way, "
                + _example(look.name, "1.234,5", "1,234.5")
            )
        if own is None and found.either.any() and not before and (decimal == "," or found.has_commas):
            number = values[int(look.cells.places[look.cells.first_row(found.either)])]
            remedy = _example(look.name, "1.234,5", "1,234.5")
            self._note_guess(look, found.either, f"as {number:.15g}", self.decimal, remedy)
        if own is not None and before is not None and own != before and (found.comma.any() or found.either.any()):
            self._note(look, f"numbers are written differently from training, with {own!r} for fractions")
        if found.point.any() and found.comma.any():
            self._note(look, "some numbers have a point before the fraction and some a comma")
        if len(found.currencies) > 1:
            amounts = f"amounts are in {' and '.join(found.currencies)}"
            if not said and not known:
                raise DataError(
                    f"{_of(self.party, look)}: {amounts}; convert them to one currency, or say "
                    f"data.kinds.{look.name}=numeric to take the numbers as they are"
                )
            self._note(look, f"{amounts}, and are taken as they are")
        how = COMMA if decimal == "," else GROUPS if found.has_commas else POINT if found.point.any() else msgspec.UNSET
        return values, found.numbers, how

    def _days(self, look: Look, known: str) -> tuple[Array, Array, str]:
        """Each word as days since 1970, whether it is a date, and how dates are written."""
        found = look.dates
        own = found.order(look.cells.counts)
        before = {DAY_FIRST: "day_first", MONTH_FIRST: "month_first"}.get(known)
        order = own or before or self.order or "day_first"
        values = found.days("month_first" if order == "month_first" else "day_first")
        if own is None and found.needs_order and not before:
            first = "month" if order == "month_first" else "day"
            remedy = _example(look.name, DAY_FIRST, MONTH_FIRST)
            self._note_guess(look, found.year_last, f"with the {first} first", self.order, remedy)
        how = ISO if not found.year_last.any() else MONTH_FIRST if order == "month_first" else DAY_FIRST
        return values, found.dates & ~np.isnan(values), how

    def _note_guess(self, look: Look, which: Array, how: str, others: str | None, remedy: str) -> None:
        """Note how words that can be read in two ways are read, with the first of them."""
        row = look.cells.first_row(which)
        why = "as other columns of the file are written" if others else "as nothing shows otherwise"
        said = f"{look.cells.word_at(row)!r} in row {row + 1} is read {how}, {why}"
        self._note(look, f"{said}; if that is wrong, {remedy}")

    def _check_odd(self, look: Look, kind: ColumnKind, odd: Array, *, said: bool, later: bool) -> None:
        """Note cells that do not fit and count as missing; refuse them where nobody would expect them."""
        counts, wrong = look.cells.counts, odd & ~look.no_value
        row = look.cells.first_row(wrong if wrong.any() else odd)
        where = f"{_short(look.cells.word_at(row))} in row {self.before + row + 1}"
        mistakes, rows = int(counts[wrong].sum()), len(look.series)
        what = "numbers" if kind == "numeric" else "dates"
        if mistakes and later and 2 * mistakes > int(counts[~look.no_value].sum()):
            raise DataError(
                f"party {self.party!r}, column {look.name!r}: it held {what} when the model was trained, and now "
                f"{mistakes} of {rows} cells are none, such as {where}. Correct the file, or train a new model if the "
                "column means something else now"
            )
        if mistakes and said:
            remedy = "write dates as 2013-01-31" if kind == "date" else "correct the cell"
            raise DataError(
                f"party {self.party!r}, column {look.name!r}: found {where} among {what} ({mistakes} such cells of "
                f"{rows}); {remedy}, leave it empty if it is missing, or say kinds={{{look.name!r}: 'categorical'}} "
                "(data.columns in a party file) if it holds names"
            )
        times = int(counts[odd].sum())
        self._note(look, f"{times} of {rows} cells are no {what}, such as {where}, and count as missing")

    def _note(self, look: Look, words: str) -> None:
        self.notes.append(f"{_of(self.party, look)}: {words}")


def name_rows(looks: Collection[Look]) -> bool:
    """Whether a column, at one party or several, has another text in nearly every row, as an id or a name does."""
    different = sum(len(look.cells.words) for look in looks)
    known = sum(int((look.cells.places >= 0).sum()) for look in looks)
    text = all(look.fixed is None for look in looks)
    return text and different > _MOST_UNIQUE and different >= _NEARLY * known


_ENOUGH = 5  # known cells of a column from which its kind can be inferred
_KINDS = {"numeric": "numbers", "date": "dates", "categorical": "names"}


def _example(name: str, one: str, other: str) -> str:
    """The setting that decides how a column is read."""
    return f"say data.kinds.{name} = {one!r} or {other!r} (kinds= in Python, data.columns in a party file)"


def delimiter_of(frame: "DataFrame") -> str:
    """What was between the columns of the file that a frame was read from; empty if nothing was."""
    return str(frame.attrs.get(DELIMITER, ""))


def _of(party: str, look: Look) -> str:
    return f"{party}, column {look.name!r}"


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:37] + "...")
