"""Several rows of one id made one: the first, or one made of all."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from laconic.core.columns import Column
from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.core.values import Array


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
