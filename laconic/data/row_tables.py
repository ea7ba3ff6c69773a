"""The tables of parties with other rows: public rows first, then a party's own, or at the server all held-out ones."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laconic.core.columns import Column, Recipe, fit_recipe
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.coding import code_levels
from laconic.data.kinds import as_days, as_numbers
from laconic.data.own_data import ColumnKind
from laconic.data.same_columns import recode_labels

if TYPE_CHECKING:
    from pandas import DataFrame

PUBLIC = "public rows"
"""What the public rows are called where parties are."""


class PublicRows(NamedTuple):
    """Rows that everybody has, and what follows from them: the columns with their levels, and the recipe."""

    raw: Array
    columns: tuple[Column, ...]
    recipe: Recipe


class OwnRows(NamedTuple):
    """What one party brings: its rows, its labels as codes, what these mean, and the rows of each cut."""

    frame: "DataFrame"
    y: Array
    task: Task
    cuts: Mapping[str, Array]


def read_public(frame: "DataFrame", kinds: Mapping[str, ColumnKind]) -> PublicRows:
    """Public rows, and the recipe fitted on all of them."""
    every = np.arange(len(frame))
    raw, columns = _code(PUBLIC, frame, every, kinds, None)
    return PublicRows(raw, columns, fit_recipe(raw, columns, every, party=PUBLIC))


def party_table(party: str, own: OwnRows, kinds: Mapping[str, ColumnKind], public: PublicRows | None) -> Table:
    """A party's training rows behind the public ones; its classes, and without public rows its levels, are its own."""
    rows = own.cuts["train"]
    raw, columns = _code(party, own.frame, rows, kinds, None if public is None else public.columns)
    return _table(party, {"train": [_Piece(raw, own.y[rows], _names(party, rows))]}, columns, own.task, public)


def server_table(
    server: str,
    owns: Mapping[str, OwnRows],
    kinds: Mapping[str, ColumnKind],
    columns: tuple[Column, ...],
    task: Task,
    public: PublicRows | None,
) -> Table:
    """All parties' held-out rows behind the public ones, with columns and classes as agreed."""
    pieces: dict[str, list[_Piece]] = {}
    for cut in ("test", "valid"):
        for party, own in owns.items():
            rows = own.cuts[cut]
            if len(rows):
                raw, _ = _code(party, own.frame, rows, kinds, columns)
                y = recode_labels(own.y[rows], own.task, task, party)
                pieces.setdefault(cut, []).append(_Piece(raw, y, _names(party, rows)))
    return _table(server, pieces, columns, task, public)


class _Piece(NamedTuple):
    raw: Array
    y: Array
    names: list[str]


def _table(
    party: str,
    pieces: Mapping[str, list[_Piece]],
    columns: tuple[Column, ...],
    task: Task,
    public: PublicRows | None,
) -> Table:
    if public is not None:
        nobody = np.full(len(public.raw), np.nan if task.kind == "regression" else -1)
        pieces = {"public": [_Piece(public.raw, nobody, _names("public", np.arange(len(public.raw))))]} | dict(pieces)
    every = [piece for some in pieces.values() for piece in some]
    ends = np.cumsum([0, *(sum(len(piece.y) for piece in some) for some in pieces.values())])
    return Table(
        np.concatenate([piece.raw for piece in every]),
        columns,
        ids=[name for piece in every for name in piece.names],
        y=np.concatenate([piece.y for piece in every]),
        task=task,
        cuts={cut: np.arange(ends[at], ends[at + 1]) for at, cut in enumerate(pieces)},
        party=party,
        # Without public rows there is no way to prepare columns before parties agree on one.
        recipe=Recipe(columns=columns) if public is None else public.recipe,
    )


def _code(
    party: str, frame: "DataFrame", rows: Array, kinds: Mapping[str, ColumnKind], known: tuple[Column, ...] | None
) -> tuple[Array, tuple[Column, ...]]:
    """Raw cells of some rows, and what the columns are.

    Text is coded by the levels of known columns, or by those found in these rows if there are none.
    """
    levels = {} if known is None else {column.name: column.levels for column in known}
    cells = np.empty((len(rows), len(kinds)))
    columns = []
    for at, (name, kind) in enumerate(kinds.items()):
        if kind == "categorical":
            cells[:, at], found = code_levels(frame[name].iloc[rows], levels.get(name))
            columns.append(Column(name, "categorical", found))
        else:
            # The whole column, so that an error counts rows as the file does.
            cells[:, at] = (as_days if kind == "date" else as_numbers)(frame[name], party)[rows]
            columns.append(Column(name))
    return cells, tuple(columns)


def _names(party: str, rows: Array) -> list[str]:
    """What rows are called: a party's rows are known by their place, counted from 1 as in its file."""
    return [f"{party}:{row + 1}" for row in rows.tolist()]
