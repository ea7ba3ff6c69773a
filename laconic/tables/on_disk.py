"""Cells that lie in a file instead of in memory, for tables larger than a party wants to hold.

The file has no name, so that nothing stays when a process ends or is killed. An array in it is one like any other: the
system reads pages of it when they are looked at, and forgets them when memory is wanted for something else. Columns lie
one after the other, as statistics are taken by column.
"""

import os
import re
import tempfile
from mmap import mmap

import numpy as np

from laconic.errors import DataError
from laconic.shown import counted
from laconic.values import Array

_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_LEAST = 10**9
_PER_ROW = 150
"""Bytes per row of what stays in memory: ids, labels, cuts, and a column at a time."""


def bytes_of(memory: str) -> int:
    """How many bytes a text such as `4 GB` means.

    Example:
        >>> bytes_of("1.5 GB")
        1500000000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(MB|GB|TB)\s*", memory)
    if found is None:
        raise ValueError(f"memory must be a number and MB, GB or TB, such as '4 GB', not {memory!r}")
    size = int(float(found[1]) * _UNITS[found[2]])
    if size < _LEAST:
        raise ValueError(f"memory must be 1 GB or more, not {memory!r}: Python and its libraries take half of one")
    return size


def check_memory(memory: str | None) -> None:
    """Refuse a text that names no amount of memory; None is no limit."""
    if memory is not None:
        bytes_of(memory)


def refuse_too_little(memory: str, rows: int, party: str) -> None:
    """Refuse rows of which not even ids, labels and one column at a time fit."""
    needed = _LEAST // 2 + rows * _PER_ROW
    if needed > bytes_of(memory):
        raise DataError(
            f"party {party!r}: memory = {memory!r} is too little for {counted(rows, 'row')}, of which ids, labels and "
            f"one column at a time take about {needed / 1e9:.1f} GB; say memory = '{needed / 1e9 + 0.1:.1f} GB' or more"
        )


def empty_on_disk(shape: tuple[int, ...], dtype: "np.dtype[np.generic] | type") -> Array:
    """An array in a file without a name, which goes when the array does; a full disk is an error here and not later."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(prefix="laconic-") as file:
        try:
            # Written to later, a file without room on the disk would end the process and not raise an error.
            os.posix_fallocate(file.fileno(), 0, max(size, 1))
        except OSError as problem:
            raise no_room(problem, size) from problem
        return np.asarray(np.memmap(file, dtype, "r+", shape=shape, order="F"))


def no_room(problem: OSError, size: int) -> DataError:
    """The error for a file of cells that could not be written."""
    return DataError(
        f"cells cannot be put on disk: {size / 1e9:.2f} GB in {tempfile.gettempdir()}: {problem.strerror or problem}; "
        "make room there, or name a folder on another disk in the environment variable TMPDIR"
    )


def is_on_disk(cells: Array) -> bool:
    """Whether an array lies in a file."""
    base: object = cells
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap)


def beside(columns: list[Array], rows: int) -> Array:
    """Columns as one matrix; on disk if any of them is."""
    if not any(map(is_on_disk, columns)):
        return np.column_stack(columns) if columns else np.empty((rows, 0))
    found = empty_on_disk((rows, len(columns)), np.float64)
    for at, column in enumerate(columns):
        found[:, at] = column
    return found


def taken(cells: Array, rows: Array) -> Array:
    """Some rows, in this order; on disk if the cells are."""
    if cells.ndim != 2 or not is_on_disk(cells):
        return np.asarray(cells[rows])
    found = empty_on_disk((len(rows), cells.shape[1]), cells.dtype)
    for at in range(cells.shape[1]):
        found[:, at] = cells[:, at][rows]
    return found
