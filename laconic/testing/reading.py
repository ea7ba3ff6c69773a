"""Compare what was read with what was written: every cell, by party, column and row."""

import unicodedata
from collections import Counter
from collections.abc import Mapping

import numpy as np

from laconic.data.federation import Federation
from laconic.tables.columns import Column
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.testing.messy_rows import CellTruth, PartyTruth, Truth
from laconic.values import Array

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
