"""What a party's columns are, inferred from the cells and written out for approval; and which deserve a look."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from laconic.data.readers.batches import column_names
from laconic.data.readers.source_table import own_columns, read_own
from laconic.data.schema import ColumnKind
from laconic.deploy.party_files import PartyFile, read_party
from laconic.errors import DataError, PlanError

Level: TypeAlias = Literal["fine", "note", "wrong"]


class Diagnosis(msgspec.Struct, frozen=True):
    """One finding about one thing.

    Attributes:
        level: `fine` needs nothing; `note` works, but should be known; `wrong` would end or spoil a run.
        about: what it is about: a column, a file, a port.
        words: what was found.
        remedy: what to do; empty if nothing.
    """

    level: Level
    about: str
    words: str
    remedy: str = ""


Check: TypeAlias = Callable[[PartyFile], Iterable[Diagnosis]]
"""Looks at one party and says what it found; it reads, and changes nothing."""


def check_columns(party: PartyFile) -> Iterable[Diagnosis]:
    """Read the rows as a run would, and say what each column is and what would be made of it."""
    if party.data is None:
        return
    data = party.data
    try:
        kinds = own_columns(party.name, data)
        own = read_own(party.name, data)
    except DataError as problem:
        yield Diagnosis("wrong", "data", str(problem), "as it says")
        return
    table = own.table
    yield Diagnosis("fine", "rows", f"{own.rows:,} in the source, {table.rows:,} can be used")
    if not data.columns:
        words = f"the kinds of {len(kinds)} columns were inferred from their cells"
        remedy = "approve them: laconic doctor --write adds them to the party file, where you can correct them"
        yield Diagnosis("note", "data.columns", words, remedy)
    unused = set(column_names(party.name, data)) - set(kinds) - {*data.keys, *data.labels}
    if unused:
        words = f"not used, as data.columns does not name them: {', '.join(sorted(unused))}"
        yield Diagnosis("fine", "other columns", words)
    for one in () if own.reading is None else own.reading.columns:
        if one.role in ("column", "left out"):
            name, _, words = one.line.partition(": ")
            remedy = "leave it so, correct the source, or leave it out of data.columns" if one.odd else ""
            yield Diagnosis("note" if one.odd else "fine", name, words, remedy)
    for note in own.notes:
        yield Diagnosis("note", "reading", note, "correct the source, or leave it so")
    if table.task is not None:
        words = f"{table.task.kind}" + (f": {', '.join(table.task.classes[:6])}" if table.task.classes else "")
        yield Diagnosis("fine", table.task.label, f"label, {words}")


def write_columns(party: PartyFile) -> dict[str, ColumnKind]:
    """Add the columns and kinds inferred from the cells to a party file that names none, for a person to approve."""
    path = Path(party.path)
    if party.own_data.columns:
        raise PlanError(f"{path} names its columns already, in data.columns; correct them there")
    kinds = own_columns(party.name, party.own_data)
    note = "# Inferred from the cells by `laconic doctor`; correct what is wrong, and delete what should not be used."
    before = path.read_text(encoding="utf-8").rstrip()
    lines = [f'{_key(name)} = "{kind}"' for name, kind in kinds.items()]
    part = path.with_suffix(".toml.part")
    try:
        part.write_text("\n".join((before, "", note, "[data.columns]", *lines, "")), encoding="utf-8")
        read_party(part)
    except PlanError as problem:
        part.unlink()
        raise PlanError(f"nothing could be added at the end of {path}: write [data] as a table of its own") from problem
    part.replace(path)
    return kinds


def _key(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if plain else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
