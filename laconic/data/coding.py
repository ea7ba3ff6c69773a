"""Frame columns as raw cells: numbers stay numbers, text becomes codes of its sorted levels, gaps become NaN."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.columns import Column
from laconic.core.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def code_frame(frame: "DataFrame", categorical: Collection[str] = ()) -> tuple[Array, tuple[Column, ...]]:
    """All columns of a frame as one matrix of raw cells, and what they are.

    Args:
        frame: one row a person.
        categorical: names of the columns whose cells are levels; the others must be numbers.
    """
    cells = np.empty(frame.shape, dtype=np.float64)
    columns = []
    for i, name in enumerate(frame.columns):
        if name in categorical:
            cells[:, i], levels = code_levels(frame[name])
            columns.append(Column(str(name), "categorical", levels))
        else:
            cells[:, i] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            columns.append(Column(str(name)))
    return cells, tuple(columns)


def code_levels(series: "Series", levels: Sequence[str] | None = None) -> tuple[Array, tuple[str, ...]]:
    """A code for each cell, NaN for a missing one, and the levels the codes stand for.

    Args:
        series: cells of any kind; compared as text without white space around it, empty text is missing.
        levels: those of an earlier coding, for rows that come later; a level not among them gets the next code after
            them, which no recipe knows. None to take the levels found here, in sorted order.
    """
    text = series.astype("string").str.strip()
    text = text.mask((text == "").fillna(False))
    if levels is None:
        levels = sorted(text.dropna().unique().tolist())
    codes = {level: float(code) for code, level in enumerate(levels)}
    coded = text.map(codes).to_numpy(dtype=np.float64, na_value=np.nan)
    unseen = np.isnan(coded) & text.notna().to_numpy()
    return np.where(unseen, len(levels), coded), tuple(levels)
