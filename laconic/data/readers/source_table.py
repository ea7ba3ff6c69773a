"""A party's table from its own source, as its `party.toml` describes it, read in batches."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from laconic.data.labels import read_labels, refuse_unique
from laconic.data.readers.batches import column_names, delimiter_of_source, read_batches
from laconic.data.readers.columns import DELIMITER, delimiter_of, look_at, names_rows, read_columns, read_known
from laconic.data.readers.ids import join_duplicates, note_duplicates, read_ids
from laconic.data.schema import ColumnKind, OwnData
from laconic.errors import DataError
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """A party's table, and what became of the rows of its source.

    Attributes:
        table: the rows that can be used.
        rows: how many rows the source has.
        left_out: how many of them are not in the table, by reason.
        notes: what was decided when reading and should be looked at.
    """

    table: Table
    rows: int
    left_out: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_own(party: str, data: OwnData, *, recipe: Recipe | None = None, frame: "DataFrame | None" = None) -> OwnTable:
    """Read, check and code a party's rows.

    Args:
        party: its name.
        data: what its `party.toml` says of its data.
        recipe: that of a model, for rows that come later: its columns are read, text is coded by its levels, and a
            level that it does not know counts as unseen. None to take columns and levels from the data.
        frame: the rows themselves, where they are at hand already; `data.source` is then only a name for errors.

    Raises:
        DataError: the source cannot be used; says party, file, column, what was found and what to do.
    """
    try:
        return _read(party, data, recipe, frame)
    except DataError as problem:
        # The party knows its files by their names; a database may hold a password in its URL.
        where = f"table {data.table or 'of its query'}" if data.in_database else data.source
        raise problem if where in str(problem) else DataError(f"{problem} (in {where})") from problem


def own_table(party: str, data: OwnData, *, recipe: Recipe | None = None) -> Table:
    """As `read_own`, the table alone; what should be looked at is logged, as there is no result yet to show it with."""
    own = read_own(party, data, recipe=recipe)
    for note in own.notes:
        logging.getLogger("laconic").warning("Read: %s", note)
    return own.table


def own_columns(party: str, data: OwnData, frame: "DataFrame | None" = None) -> dict[str, ColumnKind]:
    """The columns a party would use and what they are: as approved in its file, or told from its cells.

    Raises:
        DataError: a column is missing.
    """
    there = _names_in(party, data, frame)
    _check_names(party, data, there)
    if data.columns:
        return dict(data.columns)
    names = [name for name in there if name not in (*data.keys, data.label)]
    whole = own_frame(party, data, names, frame) if names else None
    if whole is not None and not len(whole):
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(there[:20])}; give it rows")
    looks = {} if whole is None else {name: look_at(whole[name]) for name in names}
    return {name: look.kind for name, look in looks.items() if look.kind != "categorical" or not names_rows(look)}


def own_batches(party: str, data: OwnData, recipe: Recipe) -> Iterator[Table]:
    """A party's rows as tables of one batch each, prepared by a model's recipe: for more new rows than memory holds.

    An id that comes again in another batch is refused, or left out if `on_duplicate` is `first`; rows of several
    batches cannot be made one.

    Raises:
        DataError: the source cannot be used, or `on_duplicate` is `aggregate`.
    """
    if data.on_duplicate == "aggregate":
        raise DataError(f"party {party!r}: rows read in batches cannot be made one; say data.on_duplicate = 'first'")
    # A table cannot say what was left out of it, so that nothing is unless the party says so.
    data = msgspec.structs.replace(data, on_duplicate=data.on_duplicate or "error", on_empty=data.on_empty or "error")
    names = [*data.keys, *(column.name for column in recipe.columns)]
    _check_names(party, data, column_names(party, data), names)
    seen: set[str] = set()
    before = 0
    delimiter = delimiter_of_source(party, data)
    for frame in read_batches(party, data, names):
        frame.attrs[DELIMITER] = delimiter
        table = _assemble(party, data, frame, names[len(data.keys) :], recipe, before).table
        before += len(frame)
        again = np.array([key in seen for key in table.keys.tolist()])
        if again.any() and data.on_duplicate == "error":
            twice = table.keys[again][0]
            raise DataError(
                f"party {party!r}, key {' + '.join(data.keys)!r}: the id {twice} occurs more than once in "
                f"{data.source}; keep one row for each id, or say data.on_duplicate = 'first'"
            )
        seen |= set(table.keys.tolist())
        if not again.all():
            yield Table(table.raw[~again], table.columns, ids=table.keys[~again], party=party, recipe=recipe)


def _read(party: str, data: OwnData, recipe: Recipe | None, frame: "DataFrame | None") -> OwnTable:
    there = _names_in(party, data, frame)
    label = None if recipe is not None else data.label
    if recipe is not None:
        columns = [column.name for column in recipe.columns]
    else:
        _check_names(party, data, there)
        columns = list(data.columns) or [name for name in there if name not in (*data.keys, data.label)]
    names = [*data.keys, *columns, *([] if label is None else [label])]
    _check_names(party, data, there, names)
    whole = own_frame(party, data, names, frame)
    if len(whole) == 0:
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(there[:20])}; give it rows")
    return _assemble(party, data, whole, columns, recipe)


def _names_in(party: str, data: OwnData, frame: "DataFrame | None") -> list[str]:
    return column_names(party, data) if frame is None else [str(name) for name in frame.columns]


def own_frame(party: str, data: OwnData, names: Sequence[str], frame: "DataFrame | None" = None) -> "DataFrame":
    """All rows with some columns, as text: how a column is written may only show in its last cell."""
    import pandas

    if frame is not None:
        return frame.set_axis([str(name) for name in frame.columns], axis=1)[list(names)].reset_index(drop=True)
    parts = list(read_batches(party, data, names))
    found = pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=list(names))
    found.attrs[DELIMITER] = delimiter_of_source(party, data)
    return found


def _assemble(
    party: str, data: OwnData, frame: "DataFrame", names: Sequence[str], recipe: Recipe | None, before: int = 0
) -> OwnTable:
    notes: list[str] = []
    rows = len(frame)
    # Fixed-width text: Python's own would take twice the memory and more.
    ids = read_ids(frame, data.keys, data.ids, party).astype(str)
    y, found = None, None
    if recipe is None:
        read = read_columns(party, frame, names, said=data.columns, notes=notes)
        columns = _prepared([column for column, _ in read], data, party)
        cells = [values for _, values in read]
        if data.label is not None:
            task = None if data.task is None else Task(kind=data.task)
            y, found = read_labels(frame[data.label], task, party, notes, delimiter_of(frame))
            refuse_unique(y, found, party)
    else:
        columns = list(recipe.columns)
        cells = read_known(party, frame, columns, notes=notes, before=before)
    raw = np.column_stack(cells) if cells else np.empty((rows, 0))
    _check_ids(party, data, ids)
    kept = np.flatnonzero(ids != "")
    left_out = {"no id": rows - len(kept)} if len(kept) < rows else {}
    if left_out and data.on_empty is None:
        notes.append(
            f"{party}, key {' + '.join(data.keys)!r}: {rows - len(kept)} of {rows} rows have no id, the first is row "
            f"{int((ids == '').argmax()) + 1}, and are left out"
        )
    ids, raw, y = ids[kept], raw[kept], None if y is None else y[kept]
    if data.on_duplicate != "error":
        if data.on_duplicate is None:
            note_duplicates(party, " + ".join(data.keys), ids, raw, y, notes)
        count = len(ids)
        rule = data.on_duplicate or "first"
        ids, raw, y = join_duplicates(party, ids, raw, columns, y, found, rule)
        if len(ids) < count:
            words = {"first": "same id as an earlier row", "aggregate": "made one with another row of the same id"}
            left_out[words[rule]] = count - len(ids)
    table = Table(raw, columns, ids=ids, y=y, task=found, party=party, recipe=recipe)
    return OwnTable(table=table, rows=rows, left_out=left_out, notes=tuple(notes))


def _check_ids(party: str, data: OwnData, ids: Array) -> None:
    """Refuse rows without an id, or of the same id, unless the party says what to do with them."""
    key = f"party {party!r}, key {' + '.join(data.keys)!r}"
    empty = ids == ""
    if empty.all() or (empty.any() and data.on_empty == "error"):
        raise DataError(
            f"{key}: {int(empty.sum())} of {len(ids)} rows have no id, the first is row {int(empty.argmax()) + 1}; "
            "fill them in, or say data.on_empty = 'drop' to leave those rows out"
        )
    if data.on_duplicate == "error":
        different, times = np.unique(ids[~empty], return_counts=True)
        twice = different[times > 1]
        if len(twice):
            raise DataError(
                f"{key}: {len(twice)} ids occur more than once, such as {', '.join(twice[:3])}; keep one row for each "
                "id, or say data.on_duplicate = 'first' or 'aggregate'"
            )


def _prepared(columns: list[Column], data: OwnData, party: str) -> list[Column]:
    """The columns, with how they are to be prepared as the party says."""
    strangers = set(data.prepare) - {column.name for column in columns}
    if strangers:
        raise DataError(
            f"party {party!r}: data.prepare names the column {min(strangers)!r}, which is not used; "
            f"name one of {', '.join(column.name for column in columns)}"
        )
    return [msgspec.structs.replace(column, prepare=data.prepare.get(column.name, "usual")) for column in columns]


def _check_names(party: str, data: OwnData, there: list[str], wanted: Sequence[str] | None = None) -> None:
    twice = sorted({name for name in there if there.count(name) > 1})
    if twice:
        raise DataError(f"party {party!r}: two columns of {data.source} are called {twice[0]!r}; rename one")
    roles = dict.fromkeys(wanted or (), "column") | dict.fromkeys(data.columns, "column")
    roles |= dict.fromkeys(data.keys, "key") | ({data.label: "label"} if data.label and wanted is None else {})
    for name, role in roles.items():
        if name not in there:
            raise DataError(
                f"party {party!r} has no {role} column {name!r} in {data.source}; its columns are "
                f"{', '.join(there[:20])}; correct the party file, or rename the column"
            )
