"""Look for raw columns and labels in what crossed the wire."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from laconic.core.wire import decode
from laconic.tables.table import Table
from laconic.values import Array

_VARIED = 20
"""A column with at least so many different values is known by them, in whatever order they come."""


class Leak(NamedTuple):
    """What was found: `raw columns` or `labels`, and which."""

    kind: str
    name: str


def find_leak(blob: bytes, owner: Table) -> Leak | None:
    """The first raw column, or the labels, of `owner` found in a blob, whole, in any order; None if there is none."""
    arrays = [array for array in _arrays(decode(blob)) if array.size >= _VARIED]
    if not arrays:
        return None
    for name, column in _columns(owner):
        if any(_holds(array, column) for array in arrays):
            return Leak("raw columns", name)
    if owner.y is not None and any(_holds(array, owner.y[rows]) for rows in owner.cuts.values() for array in arrays):
        return Leak("labels", owner.task.label if owner.task else "label")
    return None


def _arrays(value: object) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _arrays(inner)
    elif isinstance(value, list):
        if value and all(isinstance(one, int | float) for one in value):
            yield np.array(value, dtype=np.float64)
        for inner in value:
            yield from _arrays(inner)


def _columns(owner: Table) -> Iterator[tuple[str, Array]]:
    """Every raw column, and every column as models see it, for each cut."""
    raw = owner.raw.reshape(owner.rows, -1)
    prepared = owner.x.reshape(owner.rows, -1)
    names = [column.name for column in owner.columns] if raw.shape[1] == len(owner.columns) else []
    for rows in owner.cuts.values():
        for place in range(raw.shape[1]):
            yield names[place] if names else f"pixel {place}", raw[rows, place]
        for place in range(prepared.shape[1]):
            yield f"prepared column {place}", prepared[rows, place]


def _holds(array: Array, column: Array) -> bool:
    column = column[np.isfinite(column)] if column.dtype.kind == "f" else column
    if column.size < _VARIED or array.dtype.kind not in "fiu" or len(np.unique(column)) < 2:
        return False
    cast = column.astype(array.dtype) if array.dtype.kind == "f" else column
    distinct = np.unique(cast)
    if len(distinct) >= _VARIED and array.dtype != np.float16:
        return bool(np.isin(distinct, array).mean() > 0.9)
    # Few values, or coarse ones, may match by coincidence: the column must be there row by row.
    table = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    return len(table) == len(cast) and bool((table == cast[:, None]).all(axis=0).any())
