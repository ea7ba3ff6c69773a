"""Ids as all parties of a federation write them, so that the same person is the same text everywhere."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.errors import DataError
from laconic.core.values import Array
from laconic.data.own_data import IdRules

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
