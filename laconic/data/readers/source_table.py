"""A party's table from its rows: of a frame, or of the source that its `party.toml` describes."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from laconic.data.labels import read_labels, refuse_unique
from laconic.data.partition.rows import PartBy, read_parting
from laconic.data.readers.aloud import FileReading, reading_of
from laconic.data.readers.batches import column_names, read_batches, read_whole
from laconic.data.readers.columns import delimiter_of, kinds_of, look_at, read_columns, read_known
from laconic.data.readers.ids import read_ids, usable_rows
from laconic.data.schema import ColumnKind, IdRules, OwnData, SaidKind, plain_kind
from laconic.errors import DataError
from laconic.tables.columns import Column, Recipe
from laconic.tables.table import Parting, Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """A party's table, and what became of the rows of its source.

    Attributes:
        table: the rows that can be used.
        rows: how many rows the source has.
        left_out: how many of them are not in the table, by reason.
        notes: what was decided when reading and should be looked at.
        reading: what each column is, for its owner's eyes; None for rows that come later.
    """

    table: Table
    rows: int
    left_out: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reading: FileReading | None = None


def read_own(
    party: str,
    data: OwnData,
    *,
    recipe: Recipe | None = None,
    task: Task | None = None,
    frame: "DataFrame | None" = None,
    by: PartBy | None = None,
) -> OwnTable:
    """Read, check and code a party's rows.

    Args:
        recipe: that of a model, for rows that come later: its columns are read, text is coded by its levels, and a
            level that it does not know counts as unseen. None to take columns and levels from the data.
        task: what is predicted; None to take it from `data` and the labels.
        frame: the rows themselves, where they are at hand already; `data.source` is then only a name for errors.
        by: the column by which rows are to be parted; None for at random.
    """
    if not data.keys:
        raise DataError(
            f"party {party!r}: data.key is missing, and must name the column, or columns, that say who a row is about: "
            "the others hold other columns of the same people"
        )
    try:
        there = column_names(party, data) if frame is None else [str(name) for name in frame.columns]
        known = None if recipe is None else [column.name for column in recipe.columns]
        names = _wanted(party, data, there, known)
        if by is not None:
            names = [name for name in names if by.in_time or name != by.column]
        labels = data.labels if recipe is None else ()
        parting = [by.column] if by is not None and by.column in there else []
        whole = own_frame(party, data, list(dict.fromkeys([*data.keys, *names, *labels, *parting])), frame)
        return build_table(party, data, whole, names, said=data.columns, task=task, recipe=recipe, by=by)
    except DataError as problem:
        # The party knows its files by their names; a database may hold a password in its URL.
        where = f"table {data.table or 'of its query'}" if data.in_database else data.source
        raise problem if where in str(problem) else DataError(f"{problem} (in {where})") from problem


def own_table(party: str, data: OwnData, *, recipe: Recipe | None = None, by: PartBy | None = None) -> Table:
    """As `read_own`, the table alone; what should be looked at is logged, as there is no result yet to show it with."""
    own = read_own(party, data, recipe=recipe, by=by)
    note_aloud(own)
    return own.table


def note_aloud(own: OwnTable) -> None:
    """Log what should be looked at, where there is no result yet to show it with."""
    for note in own.notes:
        logging.getLogger("laconic").warning("Read: %s", note)


def own_columns(party: str, data: OwnData) -> dict[str, ColumnKind]:
    """The columns a party would use and what they are: as approved in its file, or as its cells show."""
    names = _wanted(party, data, column_names(party, data))
    if data.columns or not names:
        return {name: plain_kind(said) for name, said in data.columns.items()}
    frame = own_frame(party, data, names)
    check_frame(party, frame)
    return kinds_of(party, {name: look_at(frame[name]) for name in names}, {}, [])


def own_batches(party: str, data: OwnData, recipe: Recipe) -> Iterator[Table]:
    """A party's rows as tables of one batch each, prepared by a model's recipe: for more new rows than memory holds.

    An id that comes again in another batch is refused, or left out if `on_duplicate` is `first`; rows of several
    batches cannot be made one.
    """
    if data.on_duplicate == "aggregate":
        raise DataError(f"party {party!r}: rows read in batches cannot be made one; say data.on_duplicate = 'first'")
    # A table cannot say what was left out of it, so that nothing is unless the party names it.
    data = msgspec.structs.replace(data, on_duplicate=data.on_duplicate or "error", on_empty=data.on_empty or "error")
    names = _wanted(party, data, column_names(party, data), [column.name for column in recipe.columns])
    seen: set[str] = set()
    before = 0
    for frame in read_batches(party, data, [*data.keys, *names]):
        table = build_table(party, data, frame, names, recipe=recipe, before=before).table
        before += len(frame)
        again = np.array([key in seen for key in table.keys.tolist()])
        if again.any() and data.on_duplicate == "error":
            raise DataError(
                f"party {party!r}, id {' + '.join(data.keys)!r}: the id {table.keys[again][0]} occurs more than once "
                f"in {data.source}; keep one row for each id, or say data.on_duplicate = 'first'"
            )
        seen |= set(table.keys.tolist())
        if not again.all():
            yield Table(table.raw[~again], table.columns, ids=table.keys[~again], party=party, recipe=recipe)


def own_frame(
    party: str, data: OwnData, names: Sequence[str] | None = None, frame: "DataFrame | None" = None
) -> "DataFrame":
    """All rows with some columns, or with all: how a column is written may only show in its last cell."""
    if names is None:
        names = column_names(party, data)
        refuse_repeated(party, names, f" of {data.source}")
    if frame is not None:
        return frame.set_axis([str(name) for name in frame.columns], axis=1)[list(names)].reset_index(drop=True)
    whole = read_whole(party, data, names)
    return whole if data.erased is None or not set(data.keys) <= set(names) else _without_erased(party, data, whole)


def _without_erased(party: str, data: OwnData, frame: "DataFrame") -> "DataFrame":
    """The rows of everybody who did not ask to be erased."""
    path = Path(str(data.erased))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"party {party!r}: the ids to be erased cannot be read from {path}: {problem}") from problem
    gone = {one for line in lines if (one := line.strip())}
    kept = frame[[one not in gone for one in read_ids(frame, data.keys, data.ids, party).astype(str)]]
    return kept.reset_index(drop=True)


def build_table(
    party: str,
    data: OwnData,
    frame: "DataFrame",
    names: Sequence[str],
    *,
    said: Mapping[str, SaidKind] | None = None,
    task: Task | None = None,
    recipe: Recipe | None = None,
    before: int = 0,
    by: PartBy | None = None,
) -> OwnTable:
    """The one way from a party's rows to its table.

    Args:
        names: the columns to learn from.
        said: what some of these are; the cells of the others show it.
        task: what the label is; None to take it from `data` and the labels.
        recipe: of a model, for rows that come later, which need no labels. None to take columns from the rows.
        before: how many rows came before these, for errors.
        by: the column by which rows are to be parted; None for at random.
    """
    check_frame(party, frame)
    notes: list[str] = []
    y: Array | None = None
    reading: FileReading | None = None
    columns: Sequence[Column]
    if recipe is not None:
        columns, raw = recipe.columns, read_known(party, frame, recipe.columns, notes=notes, before=before)
    else:
        if data.label is not None:
            expected = task or (None if data.task is None else Task.said(data.task))
            y, task = read_labels(frame[data.label], expected, party, notes, delimiter_of(frame), event_of(frame, data))
            refuse_unique(y, task, party)
        looks = {name: look_at(frame[name]) for name in names}
        kinds = kinds_of(party, looks, said or {}, notes)
        columns, raw = read_columns(party, looks, kinds, said=said or {}, frame=frame, notes=notes)
        columns = _prepared(columns, data, party)
        reading = reading_of(frame, looks, columns, raw, ids=data.keys, label=data.label, own_kinds=kinds)
    if _has_whole_ids(frame, data):
        ids = frame[data.keys[0]].to_numpy()
    else:
        # Fixed-width text: Python's own would take twice the memory and more.
        ids = read_ids(frame, data.keys, data.ids, party).astype(str)
    usable = usable_rows(party, data, ids, raw, columns, y, task, notes)
    at = usable.places
    parting = None if by is None else read_parting(party, frame, by, notes)
    table = Table(
        usable.raw,
        columns,
        ids=ids[at],
        y=None if y is None else y[at],
        task=task,
        party=party,
        recipe=recipe,
        parting=None if parting is None else Parting(parting.values[at], parting.in_time),
    )
    return OwnTable(table=table, rows=len(frame), left_out=usable.left_out, notes=tuple(notes), reading=reading)


def event_of(frame: "DataFrame", data: OwnData) -> "Series | None":
    """The column that says whether the event came; None where the label is no time."""
    return None if data.event is None else frame[data.event]


def check_frame(party: str, frame: "DataFrame") -> None:
    """Refuse a frame without rows, or with two columns of one name."""
    names = frame.columns.tolist()
    if len(frame) == 0:
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(names[:20])}; give it rows")
    refuse_repeated(party, names)


def refuse_repeated(party: str, names: Sequence[str], source: str = "") -> None:
    """Refuse two columns of one name."""
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise DataError(f"party {party!r}: two columns{source} are called {twice!r}; rename one")


def _has_whole_ids(frame: "DataFrame", data: OwnData) -> bool:
    """Whether ids can stay whole numbers, which take less memory than text."""
    from pandas.api import types

    plain = len(data.keys) == 1 and data.ids == IdRules()
    return plain and types.is_integer_dtype(frame[data.keys[0]].dtype) and not frame[data.keys[0]].hasnans


def _prepared(columns: list[Column], data: OwnData, party: str) -> list[Column]:
    """The columns, with how they are to be prepared as the party says."""
    unknown = set(data.prepare) - {column.name for column in columns}
    if unknown:
        raise DataError(
            f"party {party!r}: data.prepare names the column {min(unknown)!r}, which is not used; "
            f"name one of {', '.join(column.name for column in columns)}"
        )
    return [
        msgspec.structs.replace(column, prepare=data.prepare.get(column.name, column.prepare)) for column in columns
    ]


def _wanted(party: str, data: OwnData, there: list[str], known: list[str] | None = None) -> list[str]:
    """The columns to learn from: those of a model, those that the party names, or all but key and label."""
    refuse_repeated(party, there, f" of {data.source}")
    roles = dict.fromkeys(known or (), "column") | dict.fromkeys(data.columns, "column")
    roles |= dict.fromkeys(data.keys, "key") | (dict.fromkeys(data.labels, "label") if known is None else {})
    for name, role in roles.items():
        if name not in there:
            raise DataError(
                f"party {party!r} has no {role} column {name!r} in {data.source}; its columns are "
                f"{', '.join(there[:20])}; correct the party file, or rename the column"
            )
    if known is not None:
        return known
    return list(data.columns) or [name for name in there if name not in (*data.keys, *data.labels)]
