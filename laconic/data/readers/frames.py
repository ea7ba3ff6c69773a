"""A federation from one DataFrame per party, joined by an id column; ids are matched later."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

from laconic.data.federation import Federation
from laconic.data.partition.rows import PartBy, part_by
from laconic.data.readers.aloud import FileReading
from laconic.data.readers.batches import BATCH, FEW_AHEAD, frame_of
from laconic.data.readers.cells import plain_name
from laconic.data.readers.source_table import build_table
from laconic.data.schema import OwnData, SaidKind
from laconic.errors import DataError
from laconic.tables.on_disk import check_memory
from laconic.tables.table import Table
from laconic.tables.task import Task

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow.dataset import Dataset

Kinds: TypeAlias = Mapping[str, SaidKind]
"""What a column is, where that should not be guessed."""


_EXAMPLE = 'such as {"bank": bank, "shop": shop}'


class ArrowTable(Protocol):
    """A table of any library that hands its columns over as Arrow does: pyarrow, Polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of Arrow's C interface."""


class LazyFrame(Protocol):
    """A lazy table of Polars."""

    def collect_batches(self, *, chunk_size: int) -> Iterable[ArrowTable]:
        """Its rows, some at a time."""


AnyTable: TypeAlias = "DataFrame | ArrowTable | Dataset | LazyFrame"
"""A party's table: a pandas DataFrame, what pyarrow, Polars and DuckDB call a table, also a lazy one, or a dataset."""


def from_frames(
    frames: Mapping[str, AnyTable],
    *,
    id: str,  # noqa: A002 the word every reader of a table looks for
    label: str,
    event: str | None = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    name: str = "frames",
    split_by: str | None = None,
    group: str | None = None,
    memory: str | None = None,
) -> Federation:
    """Take each party's DataFrame, or Arrow or Polars table, as its table; the party with the label is the hub.

    Text, true/false and category columns become categorical, numbers numeric and dates, also as text (2013-01-31),
    numbers of days and where these are in the year and the week, unless `kinds` says otherwise. Ids are compared as
    text, without white space around it. What was decided when reading, and should be looked at, is in `facts["notes"]`.

    Args:
        frames: by party, in the order parties will be named.
        id: the id column, which every party must have.
        label: the label column, which exactly one party must have.
        event: where the label is the time to an event, the label holder's column that says whether it came.
        kinds: by column name, at whichever party it is.
        task: what the label is; its classes, if named, are in the order of their codes. None to infer it from the
            cells: text, true/false, two values or few whole numbers are classes, other numbers are a quantity.
        name: of the data, for reports.
        split_by: a column of the label holder, dates or numbers: the last rows by it are scored on. None for at random.
        group: a column of the label holder, whose rows of one value are all learnt from or all scored on; it is not
            learnt from. None for at random.
        memory: about how much a party's process may use, such as `4 GB`: columns of numbers of Arrow and lazy tables
            then lie on disk. None keeps all in memory.
    """
    check_memory(memory)
    frames = named_frames(frames, memory)
    by = part_by(*(None if one is None else plain_name(one) for one in (split_by, group)))
    id, label = plain_name(id), plain_name(label)  # noqa: A001
    event = None if event is None else plain_name(event)
    refuse_same(id, label, event)
    hub = _find_hub(frames, label)
    refuse_no_event(hub, frames[hub], event)
    refuse_others_event(frames, hub, event)
    refuse_others_column(
        by, hub, {party: list(frame.columns) for party, frame in frames.items()}, (id, label, event or "")
    )
    check_kinds(kinds or {}, {name for frame in frames.values() for name in frame.columns})
    notes: list[str] = []
    tables: dict[str, Table] = {}
    readings: dict[str, FileReading] = {}
    for party, frame in frames.items():
        _check_id(party, frame, id)
        data = OwnData(
            source=party, key=id, label=label if party == hub else None, event=event if party == hub else None
        )
        mine = by if party == hub else None
        grouped = mine.column if mine is not None and not mine.in_time else None
        names = [name for name in frame.columns if name not in (id, label, event, grouped)]
        own = build_table(party, data, frame, names, said=kinds, task=task if party == hub else None, by=mine)
        tables[party] = own.table
        notes += own.notes
        readings |= {} if own.reading is None else {party: own.reading}
    facts: dict[str, object] = {
        "source": name,
        "rows": {party: table.rows for party, table in tables.items()},
        "columns": {party: len(table.columns) for party, table in tables.items()},
        "kinds": {party: {c.name: c.kind for c in table.columns} for party, table in tables.items()},
    }
    facts |= {"notes": notes} if notes else {}
    return Federation(name=name, tables=tables, hub=hub, aligned=False, facts=facts, id=id, readings=readings)


def refuse_others_column(
    by: PartBy | None, hub: str, columns: Mapping[str, Collection[str]], taken: Collection[str]
) -> None:
    """Refuse to part rows by a column that is not the label holder's, or that is its id or label."""
    if by is None:
        return
    others = [party for party, names in columns.items() if by.column in names and party != hub]
    if by.column not in columns[hub] and others:
        raise DataError(
            f"the column {by.column!r} ({by.setting}) is at {others[0]}, but rows are parted by the label holder, "
            f"{hub}, which has {', '.join(list(columns[hub])[:20])}; give {hub} the column, or name one of these"
        )
    if by.column in taken:
        raise DataError(f"rows cannot be parted by {by.column!r} ({by.setting}), which is the id or the label")


def named_frames(frames: Mapping[str, AnyTable], memory: str | None = None) -> dict[str, "DataFrame"]:
    """The tables by party as DataFrames, with column names as plain text."""
    if not isinstance(frames, Mapping):
        raise TypeError(f"tables must be by party, {_EXAMPLE}, not a {type(frames).__name__}: nobody could be named")
    for party in frames:
        if not isinstance(party, str):
            raise TypeError(f"tables must be by the party's name, {_EXAMPLE}; found {party!r} as a name")
    return {party: with_text_names(as_frame(table, party, memory)) for party, table in frames.items()}


def as_frame(table: Any, party: str, memory: str | None = None) -> "DataFrame":
    """A table of any library as a DataFrame; the values are the same, and no library is imported for it but pyarrow.

    A lazy one is read here, batch by batch; with `memory`, columns of numbers go to disk as they come.
    """
    from pandas import DataFrame

    if isinstance(table, DataFrame):
        return table
    import pyarrow
    from pyarrow.dataset import Dataset

    try:
        if isinstance(table, Dataset):
            return frame_of(
                party,
                table.schema,
                table.to_batches(**({} if memory is None else FEW_AHEAD)),
                memory,
                date_as_object=False,
            )
        if hasattr(table, "collect_batches"):  # A lazy frame of Polars.
            schema = pyarrow.table(table.limit(0).collect()).schema
            parts = (
                part for one in table.collect_batches(chunk_size=BATCH) for part in pyarrow.table(one).to_batches()
            )
            return frame_of(party, schema, parts, memory, date_as_object=False)
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                f"party {party!r}: a table must be a pandas, Polars, DuckDB or Arrow one, {_EXAMPLE}, not a "
                f"{type(table).__name__}"
            )
        reader = pyarrow.RecordBatchReader.from_stream(table)
        return frame_of(party, reader.schema, reader, memory, date_as_object=False)
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        if isinstance(problem, DataError):
            raise
        # A lazy table is read only now: a file may be gone, cut off, or of another form than those before it.
        raise DataError(
            f"party {party!r}: its table cannot be read to the end: {str(problem).strip()}; write its files again, all "
            "with the same columns, and do not change them while they are read"
        ) from problem


def with_text_names(frame: "DataFrame") -> "DataFrame":
    """The same rows, with column names as plain text."""
    return frame.set_axis([plain_name(name) for name in frame.columns], axis=1)


def check_kinds(kinds: Kinds, names: Iterable[str]) -> None:
    """Refuse kinds of columns that nobody has, and words that are no kind."""
    for name, kind in kinds.items():
        if name not in names:
            raise DataError(f"kinds names a column {name!r} that no party has; there are {', '.join(sorted(names))}")
        if kind not in get_args(SaidKind):
            known = ", ".join(map(repr, get_args(SaidKind)))
            raise DataError(f"kinds says that column {name!r} is {kind!r}; say one of {known}")


def refuse_no_event(party: str, frame: "DataFrame", event: str | None) -> None:
    """Refuse a party with times that lacks the column which says whether the event came."""
    if event is not None and event not in frame.columns:
        raise DataError(
            f"party {party!r} has no event column {event!r}; its columns are {', '.join(frame.columns[:20])}; name the "
            "column that says whether the event came, at whoever has its times"
        )


def refuse_others_event(frames: Mapping[str, "DataFrame"], hub: str, event: str | None) -> None:
    """Refuse another party that has the event column too: learnt from, it would give the label away."""
    others = [party for party, frame in frames.items() if party != hub and event in frame.columns]
    if others:
        raise DataError(
            f"the event column {event!r} is at {hub}, which has the times, and at {others[0]}; drop it there"
        )


def refuse_same(id_name: str | None, label: str, event: str | None = None) -> None:
    """Refuse a column that is two of id, label and event."""
    if event is not None and event in (id_name, label):
        raise DataError(f"the column {event!r} is the event and also the id or the label; name another")
    if id_name == label:
        raise DataError(f"the column {label!r} is both id and label; a row's id cannot be predicted")


def _find_hub(frames: Mapping[str, "DataFrame"], label: str) -> str:
    holders = [party for party, frame in frames.items() if label in frame.columns]
    if not holders:
        seen = "; ".join(f"{party}: {', '.join(frame.columns[:20])}" for party, frame in frames.items())
        raise DataError(f"no party has the label column {label!r}; columns are {seen}; name one of these as the label")
    if len(holders) > 1:
        raise DataError(
            f"the label column {label!r} is at {' and '.join(holders)}; only one party may hold the labels, "
            "so drop or rename that column at the others"
        )
    return holders[0]


def _check_id(party: str, frame: "DataFrame", id_name: str) -> None:
    if id_name not in frame.columns:
        raise DataError(
            f"party {party!r} has no id column {id_name!r}; its columns are {', '.join(frame.columns[:20]) or 'none'}; "
            "rename the column that says who a row is about"
        )
