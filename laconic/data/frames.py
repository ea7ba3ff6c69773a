"""A federation from one DataFrame a party, joined by an id column; ids are matched later."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from laconic.core.columns import Column
from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.coding import code_levels
from laconic.data.federation import Federation
from laconic.data.kinds import are_dates, as_days, as_numbers, guess_kind
from laconic.data.labels import read_labels

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
    numbers of days, unless `kinds` says otherwise. Ids are kept as given and compared as text, without white space
    around it.

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
    frames = {party: frame.set_axis([str(name) for name in frame.columns], axis=1) for party, frame in frames.items()}
    hub = _find_hub(frames, label)
    check_kinds(kinds or {}, frames)
    tables = {party: _table(party, frame, id, label, kinds or {}, task=task) for party, frame in frames.items()}
    facts: dict[str, object] = {
        "source": name,
        "rows": {party: table.rows for party, table in tables.items()},
        "columns": {party: len(table.columns) for party, table in tables.items()},
        "kinds": {party: {c.name: c.kind for c in table.columns} for party, table in tables.items()},
    }
    return Federation(name=name, tables=tables, hub=hub, aligned=False, facts=facts)


def read_table(party: str, frame: "DataFrame", id: str, kinds: Kinds | None = None) -> Table:  # noqa: A002
    """The table of one party that holds no labels, as `from_frames` would make it."""
    named = frame.set_axis([str(name) for name in frame.columns], axis=1)
    return _table(party, named, id, "", kinds or {}, task=None)


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


def _table(party: str, frame: "DataFrame", id_name: str, label: str, kinds: Kinds, *, task: Task | None) -> Table:
    _check_id(party, frame, id_name)
    check_frame(party, frame)
    y: Array | None = None
    found: Task | None = None
    if label in frame.columns:
        y, found = read_labels(frame[label], task, party)
    columns, cells = [], []
    for name in frame.columns.drop([id_name, label], errors="ignore"):
        column, coded = _read_column(party, frame, name, kinds)
        columns.append(column)
        cells.append(coded)
    raw = np.column_stack(cells) if cells else np.empty((len(frame), 0))
    ids = frame[id_name].to_numpy()
    return Table(raw, columns, ids=ids, y=y, task=found, party=party)


def _read_column(party: str, frame: "DataFrame", name: str, kinds: Kinds) -> tuple[Column, Array]:
    series = frame[name]
    kind = kinds.get(name) or guess_kind(series, party)
    if name not in kinds and kind == "categorical" and are_dates(series):
        return Column(name), as_days(series, party)
    if kind == "categorical":
        codes, levels = code_levels(series)
        return Column(name, "categorical", levels), codes
    return Column(name), as_numbers(series, party)


def _check_id(party: str, frame: "DataFrame", id_name: str) -> None:
    names = frame.columns.tolist()
    if id_name not in names:
        raise DataError(
            f"party {party!r} has no id column {id_name!r}; its columns are {', '.join(names[:20]) or 'none'}; "
            "rename the column that says who a row is about"
        )
