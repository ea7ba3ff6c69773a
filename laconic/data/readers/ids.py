"""Ids as all parties of a federation write them, so that the same person is the same text everywhere."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laconic.data.readers.cells import as_whole_numbers
from laconic.data.schema import IdRules, OwnData
from laconic.errors import DataError
from laconic.tables.columns import Column
from laconic.tables.on_disk import taken
from laconic.tables.table import has_repeated
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


_MISSING = ("", "nan", "<NA>", "NaT", "None")  # what a missing id becomes as text
_BETWEEN, _ESCAPE = "|", "\\"


def read_ids(frame: "DataFrame", keys: Sequence[str], rules: IdRules, party: str) -> Array:
    """One text for each row from the columns of its key; empty where any of them is missing.

    Several columns are joined by `|`, in the order of the key, which all parties must use.
    """
    texts = [_normalise(frame[key], rules, party) for key in keys]
    if len(texts) == 1:
        return texts[0].to_numpy(dtype=object)
    gaps = np.logical_or.reduce([(text == "").to_numpy() for text in texts])
    joined = _escape(texts[0])
    for other in texts[1:]:
        joined = joined + _BETWEEN + _escape(other)
    return np.where(gaps, "", joined.to_numpy(dtype=object))


def _normalise(series: "Series", rules: IdRules, party: str) -> "Series":
    """One column of ids as text, written as the rules say; empty where missing."""
    text = plain_text(series)
    if series.name in rules.dates:
        return _dates(series, text, rules.dates[str(series.name)], party)
    if rules.spaces == "drop":
        text = text.str.replace(r"\s+", "", regex=True)
    if rules.case == "lower":
        text = text.str.casefold()
    if rules.zeros == "drop":
        text = text.str.replace(r"^0+(?=\d+$)", "", regex=True)
    return text


def plain_text(series: "Series") -> "Series":
    """Cells as text without white space around it: whole numbers without a point, letters in Unicode's one way."""
    from pandas.api import types

    series = as_whole_numbers(series)
    if types.is_datetime64_any_dtype(series.dtype):
        return _written(series)
    text = series.astype("string").str.strip().fillna("")
    text = text.mask(text.isin(_MISSING) & series.isna(), "")
    if bool(text.str.endswith(".0").any()) and bool(text.str.fullmatch(r"-?\d+\.0+|").all()):
        text = text.str.replace(r"\.0+$", "", regex=True)  # Whole numbers that a program wrote as decimals.
    if not text.str.isascii().all():
        text = text.map(lambda one: unicodedata.normalize("NFC", one))
    return text.astype(object)


def _dates(series: "Series", text: "Series", form: str, party: str) -> "Series":
    import pandas
    from pandas.api import types

    if types.is_datetime64_any_dtype(series.dtype):
        return _written(series)
    known = text != ""
    formats = {"iso": "ISO8601", "day_first": "mixed", "month_first": "mixed"}
    moments = pandas.to_datetime(
        text.where(known, None),
        format=formats[form],
        dayfirst=form == "day_first",
        errors="coerce",
        utc=bool(text.str.contains(r"(?:Z|[+-]\d\d:?\d\d)$", regex=True).any()),
    )
    bad = (moments.isna() & known).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"party {party!r}, key {series.name!r}: found {text.iloc[row]!r} in row {row + 1}, which is no date "
            f"written as {form} ({int(bad.sum())} of {len(text)}); correct it, or say another "
            f"data.ids.dates.{series.name}"
        )
    return _written(moments)


def _written(moments: "Series") -> "Series":
    """2013-01-31, with T14:00 if any of the column's times is not midnight: the same for dates however they came."""
    if moments.dt.tz is not None:
        moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    text: Series = moments.dt.strftime("%Y-%m-%dT%H:%M:%S")
    return text.str.replace("T00:00:00", "", regex=False).str.replace(r":00$", "", regex=True).fillna("").astype(object)


def _escape(text: "Series") -> "Series":
    for sign in (_ESCAPE, _BETWEEN):
        text = text.str.replace(sign, _ESCAPE + sign, regex=False)
    return text


class UsableRows(NamedTuple):
    """Rows that have an id, one for each id.

    Attributes:
        places: where they are among all rows, in rising order.
        raw: their cells.
        left_out: how many other rows there were, by reason.
    """

    places: Array
    raw: Array
    left_out: dict[str, int]


def usable_rows(
    party: str,
    data: OwnData,
    ids: Array,
    raw: Array,
    columns: Sequence[Column],
    y: Array | None,
    task: Task | None,
    notes: list[str],
) -> UsableRows:
    """Leave out or refuse rows without an id, and leave out, join or refuse rows of the same id, as the party says.

    Joining takes the mean of the known numbers (dates are numbers), and the most frequent of the known levels, the
    first of several that are as frequent. Labels are never averaged: they must agree.

    Where the party says nothing, the first row of each id is kept, and what is left out is noted. Ids are whole
    numbers, or text that is empty where missing.
    """
    name = " + ".join(data.keys)
    there = _with_id(party, name, ids, data.on_empty, notes)
    left_out = {"no id": len(ids) - len(there)} if len(there) < len(ids) else {}
    if left_out:
        ids, raw, y = ids[there], taken(raw, there), None if y is None else y[there]
    if not has_repeated(ids):
        return UsableRows(there, raw, left_out)
    _, first, groups = np.unique(ids, return_index=True, return_inverse=True)
    kept = np.sort(first)
    if data.on_duplicate == "error":
        twice = [str(one) for one in dict.fromkeys(ids[first[groups] != np.arange(len(ids))].tolist())]
        raise DataError(
            f"party {party!r}, id {name!r}: {len(twice)} ids occur more than once, such as {', '.join(twice[:3])}; "
            "keep one row for each id, or say data.on_duplicate = 'first' or 'aggregate'"
        )
    if data.on_duplicate == "aggregate":
        left_out["made one with another row of the same id"] = len(ids) - len(kept)
        if y is not None:
            _refuse_disagreement(party, ids, y, first[groups], task)
        raw = _joined(raw, columns, groups)[np.argsort(first)]
        return UsableRows(there[kept], raw, left_out)
    if data.on_duplicate is None:
        _note_duplicates(party, name, ids, raw, y, first[groups], notes)
    left_out["same id as an earlier row"] = len(ids) - len(kept)
    return UsableRows(there[kept], taken(raw, kept), left_out)


def _with_id(party: str, name: str, ids: Array, rule: str | None, notes: list[str]) -> Array:
    """Where the rows with an id are."""
    gaps = ids == "" if ids.dtype.kind == "U" else np.zeros(len(ids), dtype=bool)
    if gaps.all():
        raise DataError(f"party {party!r}, id {name!r}: no row has an id; fill the column in, or name another")
    found = f"{int(gaps.sum())} of {len(ids)} rows have no id, the first is row {int(gaps.argmax()) + 1}"
    if gaps.any() and rule == "error":
        remedy = "fill them in, or say data.on_empty = 'drop' to leave those rows out"
        raise DataError(f"party {party!r}, id {name!r}: {found}; {remedy}")
    if gaps.any() and rule is None:
        notes.append(f"{party}, id {name!r}: {found}, and are left out")
    return np.flatnonzero(~gaps)


def _note_duplicates(
    party: str, name: str, ids: Array, raw: Array, y: Array | None, origin: Array, notes: list[str]
) -> None:
    """Note rows of the same id, of which the first will be kept, and how many of them are not the same as the first."""
    later = np.flatnonzero(origin != np.arange(len(ids)))
    one, other = raw[later], raw[origin[later]]
    same = ((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    if y is not None:
        same &= y[later] == y[origin[later]]
    differ = later[~same]
    words = f"{party}, id {name!r}: {len(later)} rows have the id of an earlier row and are left out"
    if len(differ):
        words += (
            f"; {len(differ)} of them differ from it, such as the id {ids[differ[0]]}: say what to do with them in "
            "data.on_duplicate of a party file, or make them one row first"
        )
    notes.append(words)


def _joined(raw: Array, columns: Sequence[Column], groups: Array) -> Array:
    """One row for each group."""
    count = int(groups.max()) + 1
    cells = [
        (_most_frequent if column.kind == "categorical" else _mean)(raw[:, at], groups, count)
        for at, column in enumerate(columns)
    ]
    return np.column_stack(cells) if cells else np.empty((count, 0))


def _mean(cells: Array, groups: Array, count: int) -> Array:
    known = ~np.isnan(cells)
    sums = np.bincount(groups[known], cells[known], count)
    counts = np.bincount(groups[known], minlength=count)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _most_frequent(cells: Array, groups: Array, count: int) -> Array:
    known = ~np.isnan(cells)
    found = np.full(count, np.nan)
    pairs, times = np.unique(np.column_stack([groups[known], cells[known]]), axis=0, return_counts=True)
    # The most frequent last, and of equals the first level last, so that it is what stays.
    for at in np.lexsort((-pairs[:, 1], times)):
        found[int(pairs[at, 0])] = pairs[at, 1]
    return found


def _refuse_disagreement(party: str, ids: Array, y: Array, origin: Array, task: Task | None) -> None:
    differs = y != y[origin]
    if differs.any():
        raise DataError(
            f"party {party!r}, label {task.label if task else ''!r}: rows of the id "
            f"{str(ids[int(differs.argmax())])!r} have different labels and cannot be made one; give each id one "
            "label, or say data.on_duplicate = 'first'"
        )
