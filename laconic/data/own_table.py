"""A party's table from its own source, as its `party.toml` describes it, read in batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from laconic.core.columns import Column, Recipe
from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.batches import column_names, read_batches
from laconic.data.duplicates import join_duplicates
from laconic.data.ids import read_ids
from laconic.data.kinds import tell_kind
from laconic.data.labels import read_labels
from laconic.data.own_columns import ColumnReader, reader_of
from laconic.data.own_data import ColumnKind, OwnData

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """A party's table, and what became of the rows of its source.

    Attributes:
        table: the rows that can be used.
        rows: how many rows the source has.
        left_out: how many of them are not in the table, by reason.
    """

    table: Table
    rows: int
    left_out: dict[str, int] = field(default_factory=dict)


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


def own_columns(party: str, data: OwnData, frame: "DataFrame | None" = None) -> dict[str, ColumnKind]:
    """The columns a party would use and what they are: as approved in its file, or told from its first rows.

    Raises:
        DataError: a column is missing, or text and numbers are mixed in one.
    """
    there = _names_in(party, data, frame)
    _check_names(party, data, there)
    if data.columns:
        return dict(data.columns)
    names = [name for name in there if name not in (*data.keys, data.label)]
    first = next(_batches(party, data, names, frame), None) if names else None
    if names and (first is None or not len(first)):
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(there[:20])}; give it rows")
    return {} if first is None else {name: tell_kind(first[name], party) for name in names}


def own_batches(party: str, data: OwnData, recipe: Recipe) -> Iterator[Table]:
    """A party's rows as tables of one batch each, prepared by a model's recipe: for more new rows than memory holds.

    An id that comes again in another batch is refused, or left out if `on_duplicate` is `first`; rows of several
    batches cannot be made one.

    Raises:
        DataError: the source cannot be used, or `on_duplicate` is `aggregate`.
    """
    if data.on_duplicate == "aggregate":
        raise DataError(f"party {party!r}: rows read in batches cannot be made one; say data.on_duplicate = 'first'")
    names = [*data.keys, *(column.name for column in recipe.columns)]
    _check_names(party, data, column_names(party, data), names)
    seen: set[str] = set()
    before = 0
    for frame in read_batches(party, data, names):
        gathered = _Gathered(_readers(party, data, recipe.columns, {}, new=False), None)
        gathered.add(party, data, frame, before)
        before += len(frame)
        table = _assemble(party, data, gathered, recipe).table
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


class _Gathered:
    """What has been read so far: ids, cells by column, labels."""

    def __init__(self, readers: Sequence[ColumnReader], label: str | None) -> None:
        self.readers, self.label = readers, label
        self.ids: list[Array] = []
        self.labels: list[Series] = []
        self.rows = 0

    def add(self, party: str, data: OwnData, frame: "DataFrame", before: int) -> None:
        """Take one batch."""
        # Fixed-width text: Python's own would take twice the memory and more.
        self.ids.append(read_ids(frame, data.keys, data.ids, party).astype(str))
        for reader in self.readers:
            reader.add(frame[reader.name], before)
        if self.label is not None:
            self.labels.append(frame[self.label])
        self.rows += len(frame)


def _read(party: str, data: OwnData, recipe: Recipe | None, frame: "DataFrame | None") -> OwnTable:
    kinds = own_columns(party, data, frame) if recipe is None else {}
    known = [Column(name, "categorical" if kind == "categorical" else "numeric") for name, kind in kinds.items()]
    columns = known if recipe is None else list(recipe.columns)
    label = None if recipe is not None else data.label
    names = [*data.keys, *(column.name for column in columns), *([] if label is None else [label])]
    _check_names(party, data, _names_in(party, data, frame), names)
    gathered = _Gathered(_readers(party, data, columns, kinds, new=recipe is None), label)
    for batch in _batches(party, data, names, frame):
        gathered.add(party, data, batch, gathered.rows)
    if gathered.rows == 0:
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(names[:20])}; give it rows")
    return _assemble(party, data, gathered, recipe)


def _names_in(party: str, data: OwnData, frame: "DataFrame | None") -> list[str]:
    return column_names(party, data) if frame is None else [str(name) for name in frame.columns]


def _batches(party: str, data: OwnData, names: Sequence[str], frame: "DataFrame | None") -> "Iterator[DataFrame]":
    return read_batches(party, data, names) if frame is None else iter([frame[list(names)]])


def _readers(
    party: str, data: OwnData, columns: Sequence[Column], kinds: Mapping[str, ColumnKind], *, new: bool
) -> list[ColumnReader]:
    said = dict(kinds) | data.columns
    return [reader_of(column, said.get(column.name), party, new=new) for column in columns]


def _assemble(party: str, data: OwnData, gathered: _Gathered, recipe: Recipe | None) -> OwnTable:
    ids, labels, rows = np.concatenate(gathered.ids), _joined(gathered.labels), gathered.rows
    task = None if data.task is None else Task(kind=data.task)
    y, found = (None, None) if labels is None else read_labels(labels, task, party)
    finished = [reader.finish() for reader in gathered.readers]
    columns = _prepared([column for column, _ in finished], data, party) if recipe is None else list(recipe.columns)
    raw = np.column_stack([cells for _, cells in finished]) if finished else np.empty((rows, 0))
    _check_ids(party, data, ids)
    kept = np.flatnonzero(ids != "")
    left_out = {"no id": rows - len(kept)} if len(kept) < rows else {}
    ids, raw, y = ids[kept], raw[kept], None if y is None else y[kept]
    if data.on_duplicate != "error":
        before = len(ids)
        ids, raw, y = join_duplicates(party, ids, raw, columns, y, found, data.on_duplicate)
        if len(ids) < before:
            words = {"first": "same id as an earlier row", "aggregate": "made one with another row of the same id"}
            left_out[words[data.on_duplicate]] = before - len(ids)
    table = Table(raw, columns, ids=ids, y=y, task=found, party=party, recipe=recipe)
    return OwnTable(table=table, rows=rows, left_out=left_out)


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


def _joined(parts: list["Series"]) -> "Series | None":
    import pandas

    return pandas.concat(parts, ignore_index=True) if parts else None


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
