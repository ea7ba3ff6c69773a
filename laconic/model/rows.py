"""New rows, read and prepared as the rows that a model was trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.values import Array
from laconic.data.coding import code_levels
from laconic.data.files import read_file
from laconic.data.kinds import are_dates, as_days, as_numbers
from laconic.data.labels import read_labels
from laconic.model.part import About

if TYPE_CHECKING:
    from pandas import DataFrame


def read_rows(about: About, frame: "DataFrame") -> Table:
    """A party's new rows as a table; the columns are those it was trained on, in whatever order, others are ignored.

    Raises:
        DataError: the id or a column is missing, or a cell does not fit; says whose, which, and what to do.
    """
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    wanted = [*([about.id] if about.id else []), *(column.name for column in about.columns)]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise DataError(
            f"party {about.party!r}: the model was trained on the column {missing[0]!r}, which is not among "
            f"{', '.join(frame.columns[:20])}; add it, with empty cells if it is not known any more"
        )
    if len(frame) == 0:
        raise DataError(f"party {about.party!r} has no rows to predict, only column names; give it rows")
    cells = [
        code_levels(frame[column.name], column.levels)[0]
        if column.kind == "categorical"
        else (as_days if are_dates(frame[column.name]) else as_numbers)(frame[column.name], about.party)
        for column in about.columns
    ]
    raw = np.column_stack(cells) if cells else np.empty((len(frame), 0))
    ids = frame[about.id].to_numpy() if about.id else np.arange(1, len(frame) + 1)
    return Table(raw, about.columns, ids=ids, task=about.task, party=about.party, recipe=about.recipe)


def read_row_labels(about: About, frame: "DataFrame") -> Array | None:
    """The labels of new rows, as the model codes them; None if the file has no label column."""
    if about.task is None or about.task.label not in frame.columns:
        return None
    return read_labels(frame[about.task.label], about.task, about.party)[0]


def read_files(parts: Mapping[str, About], files: Mapping[str, Path]) -> dict[str, Table]:
    """The new rows of each party that a file is given for."""
    found = {}
    for name, path in files.items():
        if name not in parts:
            raise DataError(f"{path} would be party {name!r}, but the model's parties are {', '.join(parts)}")
        try:
            found[name] = read_rows(parts[name], read_file(name, path, parts[name].id))
        except DataError as problem:
            raise DataError(f"{path}: {problem}") from problem
    return found
