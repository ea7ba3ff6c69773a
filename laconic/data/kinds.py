"""Whether a column holds numbers or levels, and what to say about a cell that does not fit."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from laconic.core.errors import DataError
from laconic.core.values import Array
from laconic.data.own_data import ColumnKind

if TYPE_CHECKING:
    from pandas import Series

_MOSTLY = 0.5  # a text column with at least this share of numbers was meant to be numeric


def guess_kind(series: "Series", party: str) -> Literal["numeric", "categorical"]:
    """Numbers and dates are numeric; text, true/false and categories are categorical.

    Text whose every cell is a number is numeric.

    Raises:
        DataError: the cells are text and most are numbers, so the others look like mistakes.
    """
    from pandas.api import types

    if types.is_bool_dtype(series.dtype) or series.dtype == "category":
        return "categorical"
    if types.is_numeric_dtype(series.dtype) or types.is_datetime64_any_dtype(series.dtype):
        return "numeric"
    known = _text(series).dropna()
    share = float(_numbers(known).notna().mean()) if len(known) else 1.0
    if share == 1:
        return "numeric"
    if share >= _MOSTLY:
        _refuse_text(series, party)
    return "categorical"


def tell_kind(series: "Series", party: str) -> ColumnKind:
    """As `guess_kind`, but text whose every cell is a date is a date."""
    kind: ColumnKind = guess_kind(series, party)
    return "date" if kind == "categorical" and are_dates(series) else kind


def as_numbers(series: "Series", party: str, before: int = 0) -> Array:
    """The cells as float64, NaN where missing; dates as days since 1970.

    Args:
        series: the cells, or some of them.
        party: whose they are, for errors.
        before: how many rows came before these, for errors.

    Raises:
        DataError: a cell is not a number; says which.
    """
    from pandas.api import types

    if types.is_datetime64_any_dtype(series.dtype):
        return days_since_1970(series)
    if types.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse_text(series, party, before)
    return _numbers(_text(series)).to_numpy(dtype=np.float64, na_value=np.nan)


def days_since_1970(series: "Series") -> Array:
    """Moments as numbers of days, NaN where missing."""
    days = series.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")
    numbers = days.astype(np.int64) / (24 * 3600 * 1e9)
    return np.where(np.isnat(days), np.nan, numbers)


def are_dates(series: "Series") -> bool:
    """Whether every known cell is written as a date, as 2013-01-31, with or without a time."""
    known = _text(series).dropna()
    return len(known) > 0 and bool(known.str.match(r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$").all())


def as_days(series: "Series", party: str, before: int = 0) -> Array:
    """Dates as numbers of days since 1970, NaN where missing; arguments as for `as_numbers`.

    Raises:
        DataError: a cell is no date that there is; says which.
    """
    import pandas
    from pandas.api import types

    if types.is_datetime64_any_dtype(series.dtype):
        return days_since_1970(series)
    text = _text(series)
    moments = pandas.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    bad = (moments.isna() & text.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"party {party!r}, column {series.name!r}: found {text.iloc[row]!r} in row {before + row + 1}, "
            f"which is no date ({int(bad.sum())} such cells); write dates as 2013-01-31, leave the cell empty if "
            "it is missing, or say another kind in data.columns (kinds for tables without a party file)"
        )
    return days_since_1970(moments)


def _text(series: "Series") -> "Series":
    text = series.astype("string").str.strip()
    return text.mask((text == "").fillna(False))


def _numbers(text: "Series") -> "Series":
    import pandas

    return pandas.to_numeric(text, errors="coerce")


def _refuse_text(series: "Series", party: str, before: int = 0) -> None:
    text = _text(series)
    stray = (text.notna() & _numbers(text).isna()).to_numpy(dtype=bool)
    if stray.any():
        row = int(stray.argmax())
        raise DataError(
            f"party {party!r}, column {series.name!r}: found {text.iloc[row]!r} in row {before + row + 1} among "
            f"numbers ({int(stray.sum())} such cells of {len(text)}); correct the cell, leave it empty if it is "
            f"missing, or say kinds={{{series.name!r}: 'categorical'}} (data.columns in a party file) if it holds names"
        )
