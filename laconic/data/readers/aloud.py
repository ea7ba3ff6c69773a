"""A file read aloud: for each column what it is, how much is missing, how many values it has, and what looks odd."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from laconic.data.readers.cells import fold
from laconic.data.readers.columns import COMMA, DAY_FIRST, GROUPS, LEFT_OUT, MONTH_FIRST, Look, look_at
from laconic.data.schema import ColumnKind
from laconic.shown import counted
from laconic.tables.columns import MOST_LEVELS, Column
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_FEW_COLUMNS = 8  # as many have a line each; of more, only those with something odd
_MOSTLY = 0.5
_MOST_CLASSES = 20  # a label of as many different values is shown as one of classes
_SERIAL = 20  # with fewer rows, numbers that all differ are no sign of an id
_ID_NAME = re.compile(r"(?:^|[\W_])(?:id|ids|nr|no|number|key|uuid|code)$", re.IGNORECASE)
_CODES = (-1, -9, -99, -999, -9999, 99, 999, 9999, 99999, 999999)


class ColumnReading(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a file, as it was read. For its owner's eyes: it quotes cells, and is in no result.

    Attributes:
        name: of the column.
        role: what it is for; a `left out` column is not learnt from.
        kind: what it holds.
        missing: share of the rows that have no value.
        different: how many values there are.
        odd: what its owner should look at, in words; empty if nothing.
    """

    name: str
    role: Literal["id", "label", "column", "left out"]
    kind: ColumnKind
    missing: float
    different: int
    odd: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The column in one line."""
        missing = f", {self.missing:.0%} missing" if self.missing >= 0.005 else ", few missing" if self.missing else ""
        values = counted(self.different, "level" if self.kind == "categorical" else "value")
        role = "" if self.role in ("column", "left out") else f"{self.role}, "
        return "; ".join((f"{self.name}: {role}{self.kind}, {values}{missing}", *self.odd))


class FileReading(msgspec.Struct, frozen=True, kw_only=True):
    """All columns of one party's file, as they were read."""

    rows: int
    columns: tuple[ColumnReading, ...]

    def lines(self, party: str, *, every: bool = False) -> Iterator[str]:
        """What to show: a line for each column of a few, or if `every`; else for each with something odd."""
        kinds = [one.kind for one in self.columns if one.role == "column"]
        counts = [f"{kinds.count(kind)} {kind}" for kind in ("numeric", "categorical", "date") if kind in kinds]
        yield f"{party}: {counted(self.rows, 'row')}, {counted(len(kinds), 'column')} ({', '.join(counts) or 'none'})"
        every = every or len(self.columns) <= _FEW_COLUMNS
        plain = [one.name for one in self.columns if not (every or one.odd)]
        yield from (f"  {one.line}" for one in self.columns if every or one.odd)
        if plain:
            names = ", ".join(plain) if len(plain) <= _FEW_COLUMNS else f"{', '.join(plain[:_FEW_COLUMNS])} ..."
            noun = "other column" if len(plain) < len(self.columns) else "column"
            yield f"  nothing odd in {counted(len(plain), noun)}: {names} (--columns shows each)"


def reading_of(
    frame: "DataFrame",
    looks: Mapping[str, Look],
    columns: Sequence[Column],
    raw: Array,
    *,
    ids: Sequence[str] = (),
    label: str | None = None,
    own_kinds: Mapping[str, ColumnKind],
) -> FileReading:
    """All that was read of a frame.

    Args:
        looks: the columns looked at, to be learnt from or left out.
        columns: those that are learnt from. raw: their cells.
        own_kinds: what each of these is, dates included.
    """
    read = {column.name: (column, raw[:, at]) for at, column in enumerate(columns)}
    found = [_of_id(frame[name]) for name in ids]
    found += [] if label is None else [_of_label(frame[label])]
    for name, look in looks.items():
        found.append(_of_column(look, *read[name], own_kinds[name]) if name in read else _of_left_out(look))
    return FileReading(rows=len(frame), columns=tuple(found))


def frame_reading(frame: "DataFrame", ids: Sequence[str] = ()) -> FileReading:
    """The same for a file by itself, of which it is not known what it is for."""
    from laconic.data.readers.columns import kinds_of, read_columns

    looks = {str(name): look_at(frame[name]) for name in frame.columns if name not in ids}
    kinds = kinds_of("", looks, {}, [])
    columns, raw = read_columns("", looks, kinds, said={}, frame=frame, notes=[])
    return reading_of(frame, looks, columns, raw, ids=ids, own_kinds=kinds)


def _of_column(look: Look, column: Column, cells: Array, kind: ColumnKind) -> ColumnReading:
    known = cells[~np.isnan(cells)]
    values, times = np.unique(known, return_counts=True)
    odd = list(_odd_in_levels(look, column, len(values)) if kind == "categorical" else ())
    odd += _odd_in_numbers(look, column, values, times, known) if kind == "numeric" else ()
    odd += _odd_in_dates(column, known) if kind == "date" else ()
    missing = 1 - known.size / max(1, cells.size)
    if len(values) <= 1 and missing in (0, 1):
        odd.append("it never varies, so it is not used")
    elif missing > _MOSTLY:
        odd.append("mostly missing")
    return ColumnReading(
        name=look.name, role="column", kind=kind, missing=missing, different=len(values), odd=tuple(odd)
    )


def _of_left_out(look: Look) -> ColumnReading:
    missing = float((look.cells.places < 0).mean())
    different = len(look.cells.words)
    return ColumnReading(
        name=look.name, role="left out", kind=look.kind, missing=missing, different=different, odd=(LEFT_OUT,)
    )


def _of_id(series: "Series") -> ColumnReading:
    look = look_at(series)
    cells = look.cells
    missing, different = float((cells.places < 0).mean()), len(cells.words)
    again = int((cells.places >= 0).sum()) - different
    odd = (f"{counted(again, 'row')} with an id that an earlier row has",) if again else ()
    return ColumnReading(
        name=str(series.name), role="id", kind=look.kind, missing=missing, different=different, odd=odd
    )


def _of_label(series: "Series") -> ColumnReading:
    look = look_at(series)
    cells = look.cells
    different, known = len({fold(word) for word in cells.words.to_pylist()}), int((cells.places >= 0).sum())
    odd = _spellings(look) if look.kind == "categorical" else []
    whole = look.values is not None and bool((look.values == np.floor(look.values)).all())
    if different == known > _SERIAL and (look.kind == "categorical" or whole):
        odd.append("every row has another, as an id does: is this what should be predicted?")
    return ColumnReading(
        name=str(series.name),
        role="label",
        kind="categorical" if different <= _MOST_CLASSES else look.kind,
        missing=1 - known / max(1, len(series)),
        different=different,
        odd=tuple(odd),
    )


def _odd_in_levels(look: Look, column: Column, different: int) -> Iterator[str]:
    yield from _spellings(look)
    if look.fixed is None and look.tally.mixed:
        yield "most cells are numbers or dates, but not all, so that all are levels"
    if different > MOST_LEVELS and column.prepare != "woe":
        yield f"the {MOST_LEVELS} most frequent levels get a column each, all others share one"


def _spellings(look: Look) -> list[str]:
    """Levels that are written in several ways, such as yes and YES."""
    ways: dict[str, list[str]] = {}
    for word in look.cells.words.to_pylist():
        ways.setdefault(fold(word), []).append(word)
    several = [words for words in ways.values() if len(words) > 1]
    if not several:
        return []
    more = f", and {len(several) - 1} more such" if len(several) > 1 else ""
    return [f"{'/'.join(several[0][:3])} are taken as one level{more}"]


def _odd_in_numbers(look: Look, column: Column, values: Array, times: Array, known: Array) -> Iterator[str]:
    if column.notation in (COMMA, GROUPS):
        # Whichever sign it is: '1.234' is a thousand and more where others have a comma before fractions.
        signed = [(at, one) for at, one in enumerate(look.cells.words.to_pylist()) if "," in one or "." in one]
        for at, word in signed[:1]:
            number = look.numbers.values("," if column.notation == COMMA else ".")[at]
            yield f"{word!r} is read as {number:.15g}"
    if look.values is None and look.fixed is None:
        if look.numbers.currencies:
            yield f"amounts in {' and '.join(look.numbers.currencies)}"
        if look.numbers.percent.any():
            yield "percentages, read as shares: 12 % is 0.12"
        strange = ~look.numbers.numbers
        if strange.any():
            word = look.cells.word_at(look.cells.first_row(strange))
            yield f"{int(look.cells.counts[strange].sum())} cells are no numbers, such as {word!r}: missing"
    whole = bool((values == np.floor(values)).all())
    if whole and len(values) == known.size >= _SERIAL and _like_ids(column.name, known):
        yield "every row has another whole number, as an id does: drop it from the file if it is one"
    code = _missing_code(values, times)
    if code is not None:
        yield f"{code:g} is far from all other values: if it means missing, leave those cells empty"


def _like_ids(name: str, known: Array) -> bool:
    """Whether whole numbers that all differ are numbered in a row, or rise down the file, or are called an id."""
    dense = np.ptp(known) < 2 * known.size
    return bool(dense or (np.diff(known) > 0).all() or _ID_NAME.search(name))


def _missing_code(values: Array, times: Array) -> float | None:
    """A number such as -999 at one end of the values, several times and far from the next."""
    if len(values) < 5:
        return None
    for end, inner in ((0, values[1:]), (-1, values[:-1])):
        far = abs(values[end] - inner[end]) > 2 * max(np.ptp(inner), 1.0)
        if float(values[end]) in _CODES and far and times[end] > 1:
            return float(values[end])
    return None


def _odd_in_dates(column: Column, known: Array) -> Iterator[str]:
    if not known.size:
        return
    first, last = (np.datetime64(int(day), "D") for day in (np.floor(known.min()), np.floor(known.max())))
    order = {DAY_FIRST: ", written with the day first", MONTH_FIRST: ", written with the month first"}
    yield f"dates from {first} to {last}{order.get(column.notation, '')}"
