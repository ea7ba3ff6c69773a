"""A public data set in one piece, before it is dealt among parties."""

from dataclasses import dataclass, field

import numpy as np

from laconic.core.columns import Column
from laconic.core.task import Task
from laconic.core.values import Array


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """All rows and columns of a public data set, with its labels.

    Attributes:
        name: as `laconic data` lists it.
        raw: cells, shape (rows, columns), or uint8 images, shape (rows, channels, height, width).
        columns: what the raw columns are; one of kind `pixels` for images.
        y: class codes or numbers.
        task: what `y` is.
        ids: one a row; None stands for the row's position.
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

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.raw)

    @property
    def is_image(self) -> bool:
        """Whether rows are images rather than rows of a table."""
        return self.raw.ndim == 4

    def keys(self) -> Array:
        """One id a row: those of the set, or row positions."""
        return np.arange(self.rows) if self.ids is None else self.ids
