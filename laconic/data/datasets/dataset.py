"""A public data set in one piece, before it is dealt among parties."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laconic.errors import DataError
from laconic.shown import counted
from laconic.tables.columns import Column
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """All rows and columns of a public data set, with its labels.

    Attributes:
        name: as `laconic data` lists it.
        raw: cells, shape (rows, columns), or uint8 images, shape (rows, channels, height, width).
        columns: what the raw columns are; one of kind `pixels` for images.
        y: class codes or numbers.
        task: what `y` is.
        ids: one per row; None stands for the row's position.
        test: row positions of the official test set; None where the publishers gave none.
        groups: natural owners of the columns, by name, where the set has some.
        note: what differs from the set as published, for reports.
    """

    name: str
    raw: Array
    columns: tuple[Column, ...]
    y: Array
    task: Task
    ids: Array | None = None
    test: Array | None = None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    def __repr__(self) -> str:
        size = "images" if self.is_image else f"{counted(len(self.columns), 'column')}"
        return f"<Dataset {self.name}: {counted(self.rows, 'row')}, {size}, to predict {self.task.label}>"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.raw)

    @property
    def is_image(self) -> bool:
        """Whether rows are images rather than rows of a table."""
        return self.raw.ndim == 4

    def keys(self) -> Array:
        """One id per row: those of the set, or row positions."""
        return np.arange(self.rows) if self.ids is None else self.ids


VARIABLE = "LACONIC_DATA"
"""The environment variable that names the folder of public data sets."""


def data_file(name: str) -> Path:
    """The path of a data file."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise DataError(
            f"this data set needs the file {name}, and {VARIABLE} does not say where it is; "
            f"run: export {VARIABLE}=/folder/with/data (breast_cancer, digits and diabetes need no files)"
        )
    path = Path(folder) / name
    if not path.is_file():
        raise DataError(f"this data set needs the file {path}, which is not there; put it there or change {VARIABLE}")
    return path


def read_parquet(*names: str) -> "DataFrame":
    """One or more Parquet files below each other, rows in the order of the files."""
    import pandas

    frames = [pandas.read_parquet(data_file(name)) for name in names]
    return pandas.concat(frames, ignore_index=True)


def code_frame(frame: "DataFrame", categorical: Collection[str] = ()) -> tuple[Array, tuple[Column, ...]]:
    """All columns of a frame as one matrix of raw cells, and what they are: numbers, or levels if named categorical."""
    from laconic.data.readers.cells import code_levels

    cells = np.empty(frame.shape, dtype=np.float64)
    columns = []
    for at, name in enumerate(frame.columns):
        if name in categorical:
            cells[:, at], levels = code_levels(frame[name])
            columns.append(Column(str(name), "categorical", levels))
        else:
            cells[:, at] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
            columns.append(Column(str(name)))
    return cells, tuple(columns)
