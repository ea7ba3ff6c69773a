"""A federation from one DataFrame a party, joined by an id column; ids are matched later."""

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from laconic.data.federation import Federation
from laconic.data.labels import read_labels, refuse_unique
from laconic.data.readers.columns import delimiter_of, read_columns
from laconic.data.readers.ids import usable_rows
from laconic.errors import DataError
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame

Kinds: TypeAlias = Mapping[str, Literal["numeric", "categorical"]]
"""What a column is, where that should not be guessed."""


def from_frames(
    frames: Mapping[str, "DataFrame"],
    *,
    id: str,  # noqa: A002 the word every reader of a table looks for
    label: str,
    kinds: Kinds | None = None,
    task: Task | None = None,
    name: str = "frames",
) -> Federation:
    """Take each party's DataFrame as its table; the party with the label column is the hub.

    Text, true/false and category columns become categorical, numbers numeric and dates, also as text (2013-01-31),
    numbers of days, unless `kinds` says otherwise. Ids are compared as text, without white space around it. What was
    decided when reading, and should be looked at, is in `facts["notes"]`.

    Args:
        frames: by party, in the order parties will be named.
        id: the id column, which every party must have.
        label: the label column, which exactly one party must have.
        kinds: by column name, at whichever party it is.
        task: what the label is; its classes, if named, are in the order of their codes. None to infer it from the
            cells: text, true/false, two values or few whole numbers are classes, other numbers are a quantity.
        name: of the data, for reports.

    Raises:
        TypeError: `frames` does not say whose each DataFrame is.
        DataError: a party's frame cannot be used; says whose, which column, and what to do.
    """
    check_named(frames)
    frames = {party: with_text_names(frame) for party, frame in frames.items()}
    id, label = plain_name(id), plain_name(label)  # noqa: A001
    hub = _find_hub(frames, label)
    check_kinds(kinds or {}, frames)
    notes: list[str] = []
    tables = {
        party: _table(party, frame, id, label, kinds or {}, task=task, notes=notes) for party, frame in frames.items()
    }
    facts: dict[str, object] = {
        "source": name,
        "rows": {party: table.rows for party, table in tables.items()},
        "columns": {party: len(table.columns) for party, table in tables.items()},
        "kinds": {party: {c.name: c.kind for c in table.columns} for party, table in tables.items()},
    }
    if notes:
        facts["notes"] = notes
    return Federation(name=name, tables=tables, hub=hub, aligned=False, facts=facts)


def read_table(
    party: str,
    frame: "DataFrame",
    id: str,  # noqa: A002
    kinds: Kinds | None = None,
    notes: list[str] | None = None,
) -> Table:
    """The table of one party that holds no labels, as `from_frames` would make it."""
    said = [] if notes is None else notes
    return _table(party, with_text_names(frame), plain_name(id), "", kinds or {}, task=None, notes=said)


def with_text_names(frame: "DataFrame") -> "DataFrame":
    """The same rows, with names of columns as text without white space around it, and letters in Unicode's one way."""
    return frame.set_axis([plain_name(str(name)) for name in frame.columns], axis=1)


def plain_name(name: str) -> str:
    """A column's name without white space around it, and letters in Unicode's one way."""
    return unicodedata.normalize("NFC", name.strip())


def check_named(frames: Mapping[str, "DataFrame"]) -> None:
    """Refuse frames that do not say whose each is."""
    from pandas import DataFrame

    example = 'such as {"bank": bank, "shop": shop}'
    if not isinstance(frames, Mapping):
        raise TypeError(f"frames must be by party, {example}, not a {type(frames).__name__}: nobody could be named")
    for party, frame in frames.items():
        if not isinstance(party, str) or not isinstance(frame, DataFrame):
            raise TypeError(
                f"frames must be a DataFrame for each party's name, {example}; "
                f"found a {type(frame).__name__} for {party!r}"
            )


def check_kinds(kinds: Kinds, frames: Mapping[str, "DataFrame"]) -> None:
    """Refuse kinds of columns that nobody has, and words that are no kind."""
    known = {name for frame in frames.values() for name in frame.columns}
    for name, kind in kinds.items():
        if name not in known:
            raise DataError(f"kinds names a column {name!r} that no party has; there are {', '.join(sorted(known))}")
        if kind not in ("numeric", "categorical"):
            raise DataError(f"kinds says that column {name!r} is {kind!r}; say 'numeric' or 'categorical'")


def check_frame(party: str, frame: "DataFrame") -> None:
    """Refuse a frame without rows, or with two columns of one name."""
    names = frame.columns.tolist()
    if len(frame) == 0:
        raise DataError(f"party {party!r} has no rows, only the column names {', '.join(names[:20])}; give it rows")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"party {party!r}: two columns are called {twice[0]!r}; rename one")


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


def _table(
    party: str,
    frame: "DataFrame",
    id_name: str,
    label: str,
    kinds: Kinds,
    *,
    task: Task | None,
    notes: list[str],
) -> Table:
    _check_id(party, frame, id_name)
    check_frame(party, frame)
    y: Array | None = None
    found: Task | None = None
    if label in frame.columns:
        y, found = read_labels(frame[label], task, party, notes, delimiter_of(frame))
        refuse_unique(y, found, party)
    names = frame.columns.drop([id_name, label], errors="ignore").tolist()
    read = read_columns(party, frame, names, said=kinds, notes=notes)
    raw = np.column_stack([cells for _, cells in read]) if read else np.empty((len(frame), 0))
    columns = [column for column, _ in read]
    ids, kept = usable_rows(party, frame[id_name], raw, y, notes)
    return Table(raw[kept], columns, ids=ids, y=None if y is None else y[kept], task=found, party=party)


def _check_id(party: str, frame: "DataFrame", id_name: str) -> None:
    names = frame.columns.tolist()
    if id_name not in names:
        raise DataError(
            f"party {party!r} has no id column {id_name!r}; its columns are {', '.join(names[:20]) or 'none'}; "
            "rename the column that says who a row is about"
        )
