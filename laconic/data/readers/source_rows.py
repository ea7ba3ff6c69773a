"""One party's rows where the others hold other people: read, coded and cut by the party itself."""

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from laconic.data.labels import read_labels, refuse_unique
from laconic.data.partition.rows import PartBy
from laconic.data.readers.aloud import FileReading, reading_of
from laconic.data.readers.batches import column_names
from laconic.data.readers.columns import delimiter_of, kinds_of, look_at, read_columns, read_known
from laconic.data.readers.federate import read_file
from laconic.data.readers.frames import Kinds
from laconic.data.readers.horizontal_frames import (
    PUBLIC,
    Piece,
    PublicRows,
    hold_out_alone,
    read_public,
    row_names,
    stack_pieces,
)
from laconic.data.readers.ids import read_ids
from laconic.data.readers.source_table import OwnTable, check_frame, event_of, own_frame, refuse_repeated
from laconic.data.schema import ColumnKind, OwnData
from laconic.data.schema_agreement import recode_labels, refuse_other_scale
from laconic.errors import DataError
from laconic.tables.columns import Column, Level, Missing, Part, Recipe, Scaled, date_parts
from laconic.tables.table import Table
from laconic.tables.task import LabelScale, SaidTask, Task
from laconic.values import Array, Settings

if TYPE_CHECKING:
    from pandas import DataFrame

_KEY = "\0key"
"""No column of a file is called so: a party's key as one text, written by its rules for ids."""


class KnownColumns(NamedTuple):
    """What all parties know of their columns before a run: from public rows, or from a schema that all have.

    Attributes:
        rows: columns, how they are prepared, and the public rows; none of these if it is a schema.
        task: the classes, or that the label is a number; None if parties are still to agree on that.
    """

    rows: PublicRows
    task: Task | None = None


def read_public_file(path: Path, kinds: Kinds, without: tuple[str, ...] = ()) -> PublicRows:
    """The rows of a file that everybody has; all its columns are learnt from, but for those named in `without`."""
    frame = read_file(PUBLIC, path, None)
    check_frame(PUBLIC, frame)
    names = [str(name) for name in frame.columns if str(name) not in without]
    looks = {name: look_at(frame[name]) for name in names}
    notes: list[str] = []
    found = kinds_of(PUBLIC, looks, {name: one for name, one in kinds.items() if name in names}, notes)
    columns, raw = read_columns(PUBLIC, looks, found, said=kinds, frame=frame, notes=notes)
    return read_public(columns, raw)


def server_table(party: str, known: KnownColumns | None) -> Table:
    """The table of a server: public rows, columns without rows, or nothing before parties agree."""
    if known is None:
        return Table.without_rows(party)
    rows = known.rows
    cuts = {"public": np.arange(len(rows.raw))} if len(rows.raw) else {}
    ids = row_names("public", np.arange(len(rows.raw)))
    return Table(rows.raw, rows.columns, ids=ids, task=known.task, cuts=cuts, party=party, recipe=rows.recipe)


def read_rows_apart(
    party: str,
    data: OwnData,
    *,
    kinds: Kinds | None = None,
    known: KnownColumns | None = None,
    test: float,
    seed: int,
    by: PartBy | None = None,
) -> OwnTable:
    """Read, check, code and cut a party's rows; every party must have the label.

    Args:
        kinds: what columns are at all parties; what the party says of its own columns comes first.
        known: columns that all have agreed on; None to take them from the party's own rows.
        test: share of its rows that it holds out, to score the model on when it comes home.
        seed: which rows these are depends on it.
        by: the column by which rows are parted; None for at random.
    """
    try:
        frame, names = _frame(party, data, None if known is None else known.rows, by)
        return _build(party, data, frame, names, kinds or {}, known, test, seed, by)
    except DataError as problem:
        where = f"table {data.table or 'of its query'}" if data.in_database else data.source
        raise problem if where in str(problem) else DataError(f"{problem} (in {where})") from problem


def _frame(party: str, data: OwnData, public: PublicRows | None, by: PartBy | None) -> "tuple[DataFrame, list[str]]":
    """The party's cells, and the columns to learn from."""
    there = column_names(party, data)
    refuse_repeated(party, there, f" of {data.source}")
    if data.label is None:
        raise DataError(f"party {party!r} names no data.label; every party with other people needs labels of its own")
    if data.memory is not None:
        raise DataError(f"party {party!r}: data.memory is for parties with other columns of the same people")
    if data.prepare:
        raise DataError(
            f"party {party!r}: data.prepare is for parties with other columns of the same people; leave it out, as all "
            "prepare their columns in the same way here"
        )
    grouped = None if by is None or by.in_time else by.column
    wanted = [column.name for column in public.columns] if public is not None else list(data.columns)
    names = wanted or [name for name in there if name not in (*data.keys, *data.labels, grouped)]
    roles = dict.fromkeys(names, "column") | dict.fromkeys(data.keys, "key") | dict.fromkeys(data.labels, "label")
    for name, role in (roles | ({} if by is None else {by.column: "column"})).items():
        if name not in there:
            raise DataError(
                f"party {party!r} has no {role} {name!r}; its columns are {', '.join(there[:20])}; correct the party "
                "file, rename the column, or add it with empty cells if nothing is known"
            )
    parting = [] if by is None else [by.column]
    frame = own_frame(party, data, list(dict.fromkeys([*data.keys, *names, *data.labels, *parting])))
    check_frame(party, frame)
    return frame, names


def _build(
    party: str,
    data: OwnData,
    frame: "DataFrame",
    names: list[str],
    kinds: Kinds,
    known: KnownColumns | None,
    test: float,
    seed: int,
    by: PartBy | None,
) -> OwnTable:
    notes: list[str] = []
    public = None if known is None else known.rows
    columns, raw, reading = _cells(party, data, frame, names, kinds, public, notes)
    y, task = _labels(party, data, frame, None if known is None else known.task, notes)
    key = _KEY if data.keys else None
    if key is not None:
        frame = frame.assign(**{key: read_ids(frame, data.keys, data.ids, party)})
    classes = task.strata(y)
    cuts = hold_out_alone(party, frame, key, test=test, seed=seed, notes=notes, classes=classes, by=by)
    pieces = {cut: [Piece(raw[rows], y[rows], row_names(party, rows))] for cut, rows in cuts.items() if len(rows)}
    table = stack_pieces(party, pieces, columns, task, public)
    refuse_other_scale(table)
    return OwnTable(table=table, rows=len(frame), notes=tuple(notes), reading=reading)


def _cells(
    party: str,
    data: OwnData,
    frame: "DataFrame",
    names: list[str],
    kinds: Kinds,
    public: PublicRows | None,
    notes: list[str],
) -> tuple[tuple[Column, ...], Array, FileReading | None]:
    """The columns and their cells: as agreed beforehand, or as the party's own cells show."""
    if public is not None:
        return public.columns, read_known(party, frame, public.columns, notes=notes), None
    said = {name: one for name, one in kinds.items() if name in names} | dict(data.columns)
    looks = {name: look_at(frame[name]) for name in names}
    found = kinds_of(party, looks, said, notes)
    columns, raw = read_columns(party, looks, found, said=said, frame=frame, notes=notes)
    reading = reading_of(frame, looks, columns, raw, ids=data.keys, label=data.label, own_kinds=found)
    return tuple(columns), raw, reading


def _labels(party: str, data: OwnData, frame: "DataFrame", agreed: Task | None, notes: list[str]) -> tuple[Array, Task]:
    """The party's labels and its own classes, or those agreed on beforehand."""
    said: SaidTask | None = data.task if agreed is None else "counts" if agreed.counts is True else agreed.kind
    # How many classes there are at all parties, one party's labels cannot say.
    expected = Task.said("multiclass" if said == "binary" else said) if said is not None else None
    y, task = read_labels(frame[str(data.label)], expected, party, notes, delimiter_of(frame), event_of(frame, data))
    refuse_unique(y, task, party)
    if agreed is None:
        return y, task
    return recode_labels(y, task, agreed, party), agreed


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
