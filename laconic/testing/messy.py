"""Federations of messy but legal party files, described by settings that a seed or hypothesis draws.

What was read of them is compared with what was written: every cell, by party, column and row.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np

from laconic.errors import MissingExtra
from laconic.testing.messy_rows import (
    BOOLEANS,
    LEVELS,
    Case,
    DateNotation,
    NumberNotation,
    Truth,
    build,
    frame_of,
    write_files,
)
from laconic.values import Settings

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from pandas import DataFrame

import unicodedata
from collections import Counter
from collections.abc import Mapping

from laconic.data.federation import Federation
from laconic.tables.columns import Column
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.testing.messy_rows import CellTruth, PartyTruth
from laconic.values import Array

T = TypeVar("T")

Trait: TypeAlias = Literal[
    "plain", "negative", "huge", "beyond", "tiny", "integer", "grouped", "money", "date", "boolean", "level",
    "constant", "mostly missing", "empty", "rare level", "unique",
]  # fmt: skip
"""What is in a column. `beyond` is about 1e298; `unique` is text that no two rows share."""

USABLE: tuple[Trait, ...] = (
    "plain", "negative", "huge", "tiny", "integer", "grouped", "money", "date", "boolean", "level",
)  # fmt: skip
"""What a method can learn from."""

USELESS: tuple[Trait, ...] = ("constant", "mostly missing", "empty", "rare level", "unique", "beyond")

LabelKind: TypeAlias = Literal["words", "text", "unicode", "numbers", "decimals", "classes", "quantity"]

_PARTIES = ("bank", "shop", "insurer", "münchen", "clinic 2", "São-Paulo", "東京")
_STEMS = ("amount", "größe", "date of birth", "x,y", 'the "x"', "Straße Nr.", "年齢", "a;b", "Rate_%", "q1")
_ROWS = (20, 30, 40, 50, 60, 70, 80, 100, 120, 140, 160, 180, 200, 220, 240, 300, 500, 1000, 2000)
_COLUMNS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 20, 40)
_NUMBERS = (
    NumberNotation(),
    NumberNotation(thousands=",", currency="$"),
    NumberNotation(thousands="'", currency="CHF"),
    NumberNotation(decimal=",", before=False),
    NumberNotation(decimal=",", thousands=".", before=False),
    NumberNotation(decimal=",", thousands="\u202f", before=False, currency="EUR"),
    NumberNotation(decimal=",", thousands=" ", currency="€"),
    NumberNotation(currency="£"),
)


class MessyColumn(Settings, frozen=True, tag=False):
    """A column: what is in it, how much the label depends on it, and how many cells are missing.

    Attributes:
        words: the words for true and false, or the levels.
    """

    name: str
    trait: Trait
    weight: float = 0.0
    missing: float = 0.0
    words: tuple[str, ...] = ()


class FileStyle(Settings, frozen=True, tag=False):
    """How a party's file is written.

    Attributes:
        typed: whether a Parquet file or a frame has numbers, dates and booleans as such; if not, as text.
        empty: what a missing cell is written as.
        quoted: whether every cell is in quotation marks.
        padded: whether there are spaces around cells.
    """

    format: Literal["csv", "csv.gz", "parquet"] = "csv"
    delimiter: Literal[",", ";", "\t", "|"] = ","
    bom: bool = False
    line_end: Literal["\n", "\r\n"] = "\n"
    numbers: NumberNotation = NumberNotation()
    dates: DateNotation = "iso"
    case: Case = "lower"
    typed: bool = True
    empty: Literal["", "NA", "null", "N/A", "NaN"] = ""
    quoted: bool = False
    padded: bool = False


class MessyParty(Settings, frozen=True, tag=False):
    """A party: its columns, how its file is written, and which rows it has.

    Attributes:
        keeps: the share of all people of whom it has rows.
        duplicates: whether some rows are repeated: the same, or with other cells under the same id.
    """

    name: str
    columns: tuple[MessyColumn, ...]
    style: FileStyle = FileStyle()
    keeps: float = 1.0
    duplicates: Literal["none", "same", "other"] = "none"


class MessyFederation(Settings, frozen=True, tag=False):
    """A federation of messy but legal files; `draw` makes one.

    Attributes:
        seed: all rows follow from it.
        rows: people in all.
        parties: the first holds the labels of a vertical federation.
        id: the id column; None in a horizontal federation that has none.
        id_form: how ids are written; {} is a number.
        classes: the true classes; empty for a quantity.
        skew: the share of the most frequent class.
        public: whether there are public rows, for horizontal methods that need some.
        framed: whether it is meant to be used as frames rather than files.
    """

    seed: int
    kind: Literal["vertical", "horizontal"]
    rows: int
    parties: tuple[MessyParty, ...]
    id: str | None
    id_form: str
    label: str
    label_kind: LabelKind
    classes: tuple[str, ...]
    skew: float
    public: bool = False
    framed: bool = False

    @property
    def truth(self) -> Truth:
        """What is true of every cell."""
        return build(self, new=False)

    @property
    def new_truth(self) -> Truth:
        """The same of rows to predict: about new people, with a level that nobody had."""
        return build(self, new=True)

    @property
    def hub(self) -> str:
        """Who holds the labels of a vertical federation."""
        return self.parties[0].name

    def in_plain_files(self) -> "MessyFederation":
        """The same rows in plain CSV files, to tell what is wrong with reading from what is wrong after it."""
        plain = FileStyle(numbers=NumberNotation(currency=""))
        parties = tuple(msgspec.structs.replace(party, style=plain) for party in self.parties)
        return msgspec.structs.replace(self, parties=parties, framed=False)

    def frames(self, *, new: bool = False) -> "dict[str, DataFrame]":
        """Each party's rows as a DataFrame; `new` for rows to predict."""
        truth = self.new_truth if new else self.truth
        return {party.name: frame_of(self, party, truth.parties[party.name]) for party in self.parties}

    def write(self, folder: Path, *, new: bool = False) -> dict[str, Path]:
        """Write each party's file to a folder that exists, and return the paths by party; `new` for rows to predict."""
        return write_files(self, folder, new=new)


class _Pick(Protocol):
    """Takes one of the options: by a seed, or by hypothesis."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def draw(seed: int, *, most_rows: int = 2000, most_columns: int = 40) -> MessyFederation:
    """The federation of a seed: the same seed gives the same files."""
    rng = np.random.default_rng([seed, 23])

    def pick(options: Sequence[T]) -> T:
        return options[int(rng.integers(len(options)))]

    return _draw(pick, most_rows, most_columns)


def messy_federations(*, most_rows: int = 2000, most_columns: int = 40) -> "SearchStrategy[MessyFederation]":
    """A hypothesis strategy of messy federations, which shrinks to few rows and plain columns."""
    try:
        from hypothesis import strategies
    except ImportError as problem:
        raise MissingExtra("hypothesis", "dev") from problem

    @strategies.composite
    def federations(drawing: Any) -> MessyFederation:
        def pick(options: Sequence[T]) -> T:
            drawn: T = drawing(strategies.sampled_from(options))
            return drawn

        return _draw(pick, most_rows, most_columns)

    return federations()


def _draw(pick: _Pick, most_rows: int, most_columns: int) -> MessyFederation:
    kind: Literal["vertical", "horizontal"] = pick(("vertical", "horizontal"))
    label_kind, classes = _labels(pick, kind)
    names = _names(pick)
    has_id = kind == "vertical" or pick((True, False))
    parties = (_parties_with_columns if kind == "vertical" else _parties_with_rows)(pick, names, most_columns)
    return MessyFederation(
        seed=pick(range((1 << 30) + 1)),
        kind=kind,
        rows=pick([rows for rows in _ROWS if rows <= most_rows]),
        parties=parties,
        id=pick(("id", "customer", "Kunden-Nr", "no.")) if has_id else None,
        id_form=pick(("{:06d}", "{}", "K-{:04d}", "{:03d}/é", "00{}")),
        label=pick(("label", "churned?", "Ergebnis", "y")),
        label_kind=label_kind,
        classes=classes,
        skew=pick((0.5, 0.5, 0.7, 0.9, 0.95)),
        public=kind == "horizontal" and pick((True, True, False)),
        framed=pick((False, False, False, True)),
    )


def _labels(pick: _Pick, kind: str) -> tuple[LabelKind, tuple[str, ...]]:
    """What labels are, and their classes; horizontal methods predict classes only."""
    ways: list[tuple[LabelKind, tuple[str, ...]]] = [
        ("text", ("stays", "leaves")),
        ("words", pick(BOOLEANS)[::-1]),
        ("unicode", ("gesund", "erkrankt – früh")),
        ("numbers", pick((("0", "1"), ("1", "2"), ("-1", "1")))),
        ("decimals", ("1", "2")),
        ("classes", pick((("a", "b", "c"), ("1", "2", "3", "4")))),
    ]
    return pick(ways if kind == "horizontal" else [*ways, ("quantity", ()), ("quantity", ())])


def _names(pick: _Pick) -> list[str]:
    count, start = pick((2, 2, 3, 4)), pick(range(len(_PARTIES)))
    return [_PARTIES[(start + place) % len(_PARTIES)] for place in range(count)]


def _parties_with_columns(pick: _Pick, names: list[str], most: int) -> tuple[MessyParty, ...]:
    twice = pick((None, None, None, None, *names))
    way: Literal["same", "other"] = pick(("same", "other"))
    return tuple(
        MessyParty(
            name=name,
            columns=_columns(pick, name, pick([count for count in _COLUMNS if count <= most])),
            style=_style(pick),
            keeps=pick((*[1.0] * 8, 0.9, 0.9, 0.8, 0.3)),
            duplicates=way if name == twice else "none",
        )
        for name in names
    )


def _parties_with_rows(pick: _Pick, names: list[str], most: int) -> tuple[MessyParty, ...]:
    columns = _columns(pick, "", pick([count for count in _COLUMNS if count <= most]))
    return tuple(
        MessyParty(
            name=name,
            columns=columns,
            style=_style(pick),
            keeps=pick((1.0, 1.0, 0.6, 0.25)),
            duplicates=pick(("none", "none", "same", "other")),
        )
        for name in names
    )


def _columns(pick: _Pick, owner: str, count: int) -> tuple[MessyColumn, ...]:
    """So many columns, the first of them usable fifteen times of sixteen."""
    first: tuple[Trait, ...] = pick((*[USABLE] * 15, USELESS[:3]))
    traits: list[Trait] = [pick(first), *(pick((*USABLE, *USELESS)) for _ in range(count - 1))]
    return tuple(_column(pick, owner, place, trait) for place, trait in enumerate(traits))


def _column(pick: _Pick, owner: str, place: int, trait: Trait) -> MessyColumn:
    words: tuple[str, ...] = ()
    if trait == "boolean":
        words = pick(BOOLEANS)
    elif trait in ("level", "rare level"):
        words = pick(tuple(LEVELS.values()))
    return MessyColumn(
        name=f"{pick(_STEMS)} {owner[:2]}{place + 1}",
        trait=trait,
        # The first is usable; if more columns counted, each would count too little.
        weight=pick((1.0, -1.0)) if place == 0 else pick((0.0, 0.0, 0.6)) if place < 5 else 0.0,
        missing=pick((0.0, 0.0, 0.1, 0.4)),
        words=words,
    )


def _style(pick: _Pick) -> FileStyle:
    case: Case = pick(("lower", "lower", "upper", "title", "mixed"))
    return FileStyle(
        format=pick(("csv", "csv", "csv", "csv.gz", "parquet", "parquet")),
        delimiter=pick((",", ",", ";", "\t", "|")),
        bom=pick((False, False, True)),
        line_end=pick(("\n", "\r\n")),
        numbers=pick(_NUMBERS),
        dates=pick(("iso", "dotted", "day_first", "month_first")),
        case=case,
        typed=pick((True, True, False)),
        empty=pick(("", "", "NA", "null", "N/A", "NaN")),
        quoted=pick((False, False, True)),
        padded=pick((False, False, False, True)),
    )


_NEARLY = 0.8


class Misread(AssertionError):
    """A cell was read as something else than what was written; names party, column and row."""


def compare_reading(federation: Federation, truth: Truth) -> None:
    """Compare every cell and label of a federation, read from files or frames, with the truth; raises `Misread`."""
    if federation.kind == "vertical":
        for name, party in truth.parties.items():
            _compare_by_id(name, federation.tables[name], party, _row_names([party]))
        return
    for name, table in federation.tables.items():
        places: dict[str, list[tuple[int, int]]] = {}
        for at, key in enumerate(table.keys.tolist()):
            owner, _, row = key.rpartition(":")
            places.setdefault(owner, []).append((at, int(row) - 1))
        for owner, pairs in places.items():
            written = truth.public if owner == "public" else truth.parties[owner]
            if written is None:
                raise Misread(f"{name}: read public rows, but none were written")
            here, rows = np.array(pairs).T
            _compare(name, table, here, written.take(rows), _row_names([*truth.parties.values()]))
    read = Counter(key.rpartition(":")[0] for table in federation.tables.values() for key in table.keys.tolist())
    for name, party in truth.parties.items():
        if read[name] != len(party.ids):
            raise Misread(f"{name}: {len(party.ids)} rows were written and {read[name]} read")


def compare_new_rows(tables: Mapping[str, Table], truth: Truth) -> None:
    """Compare rows that a model is to predict, read by its own recipe, with the truth; raises `Misread`."""
    for name, table in tables.items():
        written = truth.parties[name]
        # A model knows which columns it was trained on.
        unread = frozenset(written.columns) - {column.name for column in table.columns}
        if set(table.keys.tolist()) == {str(row + 1) for row in range(table.rows)}:
            _compare(name, table, np.arange(table.rows), written, unread)  # Without ids, rows are known by place.
        else:
            _compare_by_id(name, table, written, unread)


def _compare_by_id(name: str, table: Table, truth: PartyTruth, unread: frozenset[str]) -> None:
    """Compare rows by their ids; of rows with the same id the first counts."""
    places = {key: row for row, key in reversed(list(enumerate(truth.ids)))}
    keys = table.keys.tolist()
    if set(keys) != set(places):
        strange = sorted(set(keys) ^ set(places))
        raise Misread(f"{name}: {len(strange)} ids were read or written only, such as {strange[0]!r}")
    rows = np.array([places[key] for key in keys])
    _compare(name, table, np.arange(table.rows), truth.take(rows), unread)


def _compare(name: str, table: Table, read: Array, truth: PartyTruth, unread: frozenset[str]) -> None:
    columns = {column.name: (at, column) for at, column in enumerate(table.columns)}
    strange = [word for word in columns if word not in truth.columns]
    if strange:
        raise Misread(f"{name}: read a column {strange[0]!r}, which was not written")
    for word, cells in truth.columns.items():
        if word not in columns and word in unread:
            continue
        if word not in columns:
            raise Misread(f"{name}: the column {word!r} was written and not read")
        at, column = columns[word]
        _compare_column(f"{name}, column {word!r}", table.raw[read, at].astype(np.float64), column, cells)
    if truth.label is not None and table.y is not None and table.task is not None:
        _compare_labels(name, table.task, table.y[read], truth.label)


def _row_names(parties: list[PartyTruth]) -> frozenset[str]:
    """Columns of text that hardly any two rows share: they say nothing, and may be left out."""
    found = []
    for name in parties[0].columns:
        every = [party.columns[name] for party in parties]
        known = [value for cells in every for value in cells.values[~cells.missing].tolist()]
        if every[0].kind == "level" and len(set(known)) >= _NEARLY * len(known):
            found.append(name)
    return frozenset(found)


def _compare_column(where: str, found: Array, column: Column, truth: CellTruth) -> None:
    gaps = np.isnan(found)
    _refuse(where, gaps != truth.missing, truth, np.where(gaps, "missing", found.astype(object)))
    known = np.flatnonzero(~gaps)
    if not len(known):
        return
    if truth.kind in ("number", "date"):
        if column.kind != "numeric":
            raise Misread(f"{where}: written as a {truth.kind}, read as levels {', '.join(column.levels[:3])}")
        expected = truth.values.astype(np.float64)
        _refuse(where, ~gaps & ~np.isclose(found, expected, rtol=1e-12, atol=0), truth, found)
        return
    names = np.array([_level(code, column) for code in found[known].tolist()], dtype=object)
    _compare_words(where, names, truth.take(known), named=truth.kind == "level" and column.kind == "categorical")


def _compare_words(where: str, found: Array, truth: CellTruth, *, named: bool) -> None:
    """Equal words must be read as equal, different ones as different, and names as they are."""
    seen: dict[str, str] = {}
    back: dict[str, str] = {}
    for row, (one, word) in enumerate(zip(found.tolist(), truth.values.tolist(), strict=True)):
        if one is None:
            continue
        if named and one != unicodedata.normalize("NFC", word):
            raise Misread(f"{where}, known cell {row + 1}: written {word!r}, read {one!r}")
        if seen.setdefault(word, one) != one or back.setdefault(one, word) != word:
            others = f"{seen[word]!r} and {back.get(one)!r}"
            raise Misread(f"{where}, known cell {row + 1}: {word!r} was read as {one!r}, elsewhere there is {others}")


def _level(code: float, column: Column) -> str | None:
    """The name of what was read; None for a level that the columns' levels do not have."""
    if column.kind != "categorical":
        return repr(code)
    return column.levels[int(code)] if code < len(column.levels) else None


def _compare_labels(name: str, task: Task, found: Array, truth: CellTruth) -> None:
    where = f"{name}, label {task.label!r}"
    if (task.kind == "regression") != (truth.kind == "number"):
        raise Misread(f"{where}: written as a {truth.kind}, read as {task.kind}")
    if truth.kind == "number":
        _refuse(where, ~np.isclose(found, truth.values.astype(np.float64), rtol=1e-12), truth, found)
    else:
        _compare_words(where, np.array(task.classes, dtype=object)[found.astype(int)], truth, named=False)


def _refuse(where: str, wrong: Array, truth: CellTruth, found: Array) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        pair = f"written {truth.values[row]!r}, read {found[row]!r}"
        raise Misread(f"{where}, row {row + 1}: {pair} ({int(wrong.sum())} such cells)")
