"""Ids as all parties of a federation write them, so that the same person is the same text everywhere."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from laconic.data.schema import IdRules
from laconic.errors import DataError
from laconic.tables.columns import Column
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


MISSING_IDS = ("", "nan", "<NA>", "NaT", "None")
"""Texts that a missing id becomes when it is made text."""

_BETWEEN, _ESCAPE = "|", "\\"


def read_ids(frame: "DataFrame", keys: Sequence[str], rules: IdRules, party: str) -> Array:
    """One text for each row from the columns of its key; empty where any of them is missing.

    Several columns are joined by `|`, in the order of the key.

    Args:
        frame: rows with the key columns.
        keys: their names, in the order that all parties use.
        rules: how ids are written.
        party: whose rows these are, for errors.

    Raises:
        DataError: an id is not a date although the rules say it is.
    """
    texts = [normalise(frame[key], rules, party) for key in keys]
    if len(texts) == 1:
        return texts[0].to_numpy(dtype=object)
    gaps = np.logical_or.reduce([(text == "").to_numpy() for text in texts])
    safe = [_escape(text) for text in texts]
    joined = safe[0].to_numpy(dtype=object)
    for other in safe[1:]:
        joined = joined + _BETWEEN + other.to_numpy(dtype=object)
    return np.where(gaps, "", joined)


def normalise(series: "Series", rules: IdRules, party: str) -> "Series":
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

    if types.is_float_dtype(series.dtype):
        known = series.dropna()
        if bool((known == np.floor(known)).all()):
            series = series.astype("Int64")
    if types.is_datetime64_any_dtype(series.dtype):
        return _written(series)
    text = series.astype("string").str.strip().fillna("")
    text = text.mask(text.isin(MISSING_IDS) & series.isna(), "")
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


def join_duplicates(
    party: str,
    ids: Array,
    raw: Array,
    columns: Sequence[Column],
    y: Array | None,
    task: Task | None,
    rule: Literal["first", "aggregate"],
) -> tuple[Array, Array, Array | None]:
    """Ids, cells and labels with one row for each id, in the order in which ids first occur; empty ids are left alone.

    `aggregate` takes the mean of the known numbers (dates are numbers), and the most frequent of the known levels, the
    first of several that are as frequent. Labels are never averaged: they must agree.

    Raises:
        DataError: rows of one id have different labels.
    """
    _, first, groups = np.unique(ids, return_index=True, return_inverse=True)
    groups = np.where(ids == "", len(first) + np.arange(len(ids)), groups)  # A missing id is nobody's second row.
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)
    kept = first[order]
    if len(kept) == len(ids):
        return ids, raw, y
    if rule == "first":
        return ids[kept], raw[kept], None if y is None else y[kept]
    if y is not None:
        _refuse_disagreement(party, ids, y, groups, first, task)
    cells = [
        (_most_frequent if column.kind == "categorical" else _mean)(raw[:, at], groups, len(first))
        for at, column in enumerate(columns)
    ]
    joined = np.column_stack(cells)[order] if cells else raw[kept]
    return ids[kept], joined, None if y is None else y[kept]


def usable_rows(party: str, series: "Series", raw: Array, y: Array | None, notes: list[str]) -> tuple[Array, Array]:
    """The ids of the rows that have one, the first row of each, and where these rows are; the others are noted.

    Raises:
        DataError: no row has an id.
    """
    from pandas.api import types

    name = str(series.name)
    text = plain_text(series).to_numpy(dtype=object).astype(str)
    gaps = text == ""
    if gaps.all():
        raise DataError(f"party {party!r}, id {name!r}: no row has an id; fill the column in, or name another")
    if gaps.any():
        notes.append(
            f"{party}, id {name!r}: {int(gaps.sum())} of {len(text)} rows have no id, the first is row "
            f"{int(gaps.argmax()) + 1}, and are left out"
        )
    there = np.flatnonzero(~gaps)
    note_duplicates(party, name, text[there], raw[there], None if y is None else y[there], notes)
    kept = there[np.sort(np.unique(text[there], return_index=True)[1])]
    # Whole numbers stay numbers: as text they would take more bytes to send.
    return (series.to_numpy() if types.is_integer_dtype(series.dtype) and not gaps.any() else text)[kept], kept


def note_duplicates(party: str, key: str, ids: Array, raw: Array, y: Array | None, notes: list[str]) -> None:
    """Note rows of the same id, of which the first will be kept, and how many of them are not the same as the first."""
    _, first, groups = np.unique(ids, return_index=True, return_inverse=True)
    origin = first[groups]
    later = np.flatnonzero(origin != np.arange(len(ids)))
    if not len(later):
        return
    same = ((raw[later] == raw[origin[later]]) | (np.isnan(raw[later]) & np.isnan(raw[origin[later]]))).all(axis=1)
    if y is not None:
        same &= y[later] == y[origin[later]]
    other = later[~same]
    words = f"{party}, key {key!r}: {len(later)} rows have the id of an earlier row and are left out"
    if len(other):
        words += (
            f"; {len(other)} of them differ from it, such as the id {ids[other[0]]}: say what to do with them in "
            "data.on_duplicate of a party file, or make them one row first"
        )
    notes.append(words)


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


def _refuse_disagreement(party: str, ids: Array, y: Array, groups: Array, first: Array, task: Task | None) -> None:
    differs = y != y[first][groups]
    if differs.any():
        twice = str(ids[int(differs.argmax())])
        raise DataError(
            f"party {party!r}, label {task.label if task else ''!r}: rows of the id {twice!r} have different labels, "
            "which cannot be made one; give each id one label, or say data.on_duplicate = 'first'"
        )
