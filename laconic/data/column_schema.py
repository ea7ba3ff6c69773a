"""A schema: what parties with other people agree on beforehand, in a file that all have, so that nothing is asked.

It names the columns, how numbers are scaled, which levels there are, and the classes. A person writes it, or corrects
what one party drafts from its own rows; whoever signs an answer signs for the plan and for a digest of what it says.
"""

import math
import tomllib
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec import UNSET

from laconic.data.readers.horizontal_frames import PublicRows
from laconic.data.readers.source_rows import KnownColumns
from laconic.data.schema import ColumnKind
from laconic.errors import DataError
from laconic.tables.columns import Column, Level, Missing, Part, Recipe, Scaled, date_parts
from laconic.tables.task import LabelScale, Task
from laconic.values import Settings


class ColumnSchema(Settings, frozen=True, tag=False):
    """What all parties know of one column.

    Attributes:
        kind: numeric, categorical or date.
        mean, spread: of a number (dates are days since 1970), by which it is centred and scaled.
        levels: of a categorical column; any other level counts as none of these.
        missing: the share of its cells that may be missing; 0 if none is, and then a missing cell is the mean.
    """

    kind: ColumnKind = "numeric"
    mean: float = 0.0
    spread: float = 1.0
    levels: tuple[str, ...] = ()
    missing: float = 0.0

    def __post_init__(self) -> None:
        """Refuse scales and levels that mean nothing."""
        if not (math.isfinite(self.mean) and 0 < self.spread < math.inf):
            raise ValueError(f"mean must be a number and spread one above 0, not {self.mean} and {self.spread}")
        if (self.kind == "categorical") != bool(self.levels):
            raise ValueError("a categorical column names its levels, and no other column does")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"levels names one level twice: {', '.join(self.levels)}")
        if not 0 <= self.missing < 1:
            raise ValueError(f"missing is a share from 0 and below 1, not {self.missing}")


class Schema(Settings, frozen=True, tag=False):
    """Columns by name, in their order, and the classes of the label; no classes if the label is a number.

    Attributes:
        label_mean, label_spread: of a label that is a number, by which nets learn it; other methods need neither.
        label_counts: whether that number is a count; then nets and trees learn its logarithm.
    """

    columns: dict[str, ColumnSchema]
    label: str
    classes: tuple[str, ...] = ()
    label_mean: float = 0.0
    label_spread: float | None = None
    label_counts: bool = False

    def __post_init__(self) -> None:
        """Refuse a schema without columns, and one class."""
        if not self.columns:
            raise ValueError("columns is empty; name those to learn from")
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must be two or more, all different, not {', '.join(self.classes)}")
        if self.classes and (self.label_mean or self.label_spread is not None):
            raise ValueError("label_mean and label_spread are of a label that is a number; leave them out, or classes")
        if self.label_counts and not self.label_mean > 0:
            raise ValueError("label_counts needs label_mean, above 0, and label_spread")
        if self.label_mean and self.label_spread is None:
            raise ValueError("label_mean stands beside label_spread; say both")

    @property
    def task(self) -> Task:
        """What is predicted."""
        if not self.classes:
            scale = UNSET if self.label_spread is None else LabelScale(self.label_mean, self.label_spread)
            counts = True if self.label_counts else UNSET
            return Task(kind="regression", label=self.label, scale=scale, counts=counts)
        two = len(self.classes) == 2
        return Task(kind="binary" if two else "multiclass", classes=self.classes, label=self.label)

    @property
    def known(self) -> KnownColumns:
        """The columns, and how they are prepared."""
        columns = tuple(
            Column(name, "categorical" if one.levels else "numeric", one.levels, _prepared(one))
            for name, one in self.columns.items()
        )
        parts = [part for at, (name, one) in enumerate(self.columns.items()) for part in _parts(name, at, one)]
        recipe = Recipe(columns=columns, parts=tuple(parts))
        return KnownColumns(PublicRows(columns, np.empty((0, len(columns))), recipe), self.task)


def read_schema(path: Path) -> Schema:
    """The schema in a TOML file; an error names the file and what does not fit."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Schema)
    except FileNotFoundError as problem:
        raise DataError(f"there is no schema {path}; put the file there that all agreed on (docs/data.md)") from problem
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise DataError(f"the schema {path} cannot be used: {problem}; docs/data.md shows one") from problem


def _prepared(one: ColumnSchema) -> Literal["usual", "date"]:
    return "date" if one.kind == "date" else "usual"


def _parts(name: str, source: int, one: ColumnSchema) -> list[Part]:
    found: list[Part] = [
        Level(name=f"{name}={level}", source=source, code=code, share=1 / len(one.levels))
        for code, level in enumerate(one.levels)
    ]
    if not one.levels:
        found.append(Scaled(name=name, source=source, centre=one.mean, scale=one.spread))
        found += date_parts(name, source, None) if one.kind == "date" else ()
    if one.missing:
        found.append(Missing(name=f"{name} is missing", source=source, share=one.missing))
    return found
