"""What a party's columns and ids are: inferred from the cells, written out for approval; and what deserves a look.

Of ids: how they are written, what would be changed before they are compared, and what is wrong.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic.data.readers.batches import column_names
from laconic.data.readers.ids import read_ids
from laconic.data.readers.source_table import own_columns, own_frame, read_own
from laconic.data.schema import ColumnKind, IdRules, OwnData
from laconic.deploy.party_files import PartyFile, read_party
from laconic.errors import DataError, PlanError
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


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


PATTERNS = {
    "digits": r"^\d+$",
    "leading zero": r"^0\d+$",
    "upper case": r"[A-Z]",
    "lower case": r"[a-z]",
    "space inside": r"\S\s+\S",
    "point zero": r"^\d+\.0+$",
    "rounded": r"^\d(?:\.\d+)?[eE]\+?\d+$",
    "iso": r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?$",
    "day_first": r"^(?:1[3-9]|2\d|3[01])[./]\d{1,2}[./]\d{4}",
    "month_first": r"^\d{1,2}[./](?:1[3-9]|2\d|3[01])[./]\d{4}",
    "either first": r"^\d{1,2}[./]\d{1,2}[./]\d{4}",
}
"""Forms of ids that matter when two parties' ids are compared, as regular expressions on text without outer space."""


class Forms(NamedTuple):
    """How a column of ids is written.

    Attributes:
        rows: how many cells there are. known: how many have an id.
        counts, examples: by form, for the forms that occur; also for `space around`.
        lengths: of the shortest and of the longest id; 0 if there is none.
    """

    rows: int
    known: int
    counts: dict[str, int]
    examples: dict[str, str]
    lengths: tuple[int, int]

    def some(self, form: str) -> str:
        """How many ids have a form, with an example."""
        return f"{self.counts[form]:,} of {self.known:,} ids, such as {self.examples[form]!r},"


def forms_of(series: "Series") -> Forms:
    """Count the forms of a column of ids."""
    given = series.astype("string").fillna("")
    text = given.str.strip()
    known = text[text != ""]
    around = given[(given != text) & (text != "")]
    found = {form: known[known.str.contains(pattern, regex=True)] for form, pattern in PATTERNS.items()}
    found = {form: some for form, some in (found | {"space around": around}).items() if len(some)}
    lengths = known.str.len() if len(known) else [0]
    return Forms(
        rows=len(text),
        known=len(known),
        counts={form: len(some) for form, some in found.items()},
        examples={form: str(some.iloc[0]) for form, some in found.items()},
        lengths=(int(min(lengths)), int(max(lengths))),
    )


def check_ids(party: PartyFile) -> Iterable[Diagnosis]:
    """Look at every column of the key, and at the key as a whole."""
    if party.data is None:
        yield Diagnosis("fine", "data", "none: a server, which has no rows")
        return
    data = party.data
    there = column_names(party.name, data)
    missing = [key for key in data.keys if key not in there]
    if missing:
        words = f"{data.source} has no such column; it has {', '.join(there[:20])}"
        yield Diagnosis("wrong", missing[0], words, "name the column that says who a row is about in data.key")
        return
    frame = own_frame(party.name, data, data.keys)
    try:
        ids = read_ids(frame, data.keys, data.ids, party.name)
    except DataError as problem:
        yield Diagnosis("wrong", "key", str(problem), "correct the cell, or data.ids.dates")
        return
    for key in data.keys:
        yield from _of_column(key, forms_of(frame[key]), data)
    yield from _of_key(data, read_ids(frame, data.keys, IdRules(), party.name), ids)


def _of_column(key: str, forms: Forms, data: OwnData) -> Iterator[Diagnosis]:
    rules, counts = data.ids, forms.counts
    yield Diagnosis("fine", key, _describe(forms))
    if forms.known < forms.rows:
        words = f"{forms.rows - forms.known:,} of {forms.rows:,} rows have no id"
        if data.on_empty == "drop":
            yield Diagnosis("note", key, words)
        else:
            remedy = "fill them in, or say data.on_empty = 'drop' to leave those rows out"
            yield Diagnosis("wrong", key, words, remedy)
    if key in rules.dates:
        yield Diagnosis("note", key, f"dates are read as {rules.dates[key]} and compared as 2013-01-31")
        return
    if "rounded" in counts:
        words = f"{forms.some('rounded')} are rounded numbers, as spreadsheets write long ids"
        yield Diagnosis("wrong", key, words, "export the column again as text")
    if "point zero" in counts:
        words = f"{forms.some('point zero')} end in .0, as whole numbers do that were read as decimals"
        yield Diagnosis("wrong", key, words, "export the column again as text or whole numbers")
    if "space around" in counts:
        words = f"{forms.some('space around')} have white space around them, which is dropped"
        yield Diagnosis("note", key, words)
    yield from _rule(key, forms, "space inside", "have white space inside", rules.spaces == "drop", "spaces = 'drop'")
    if "lower case" in counts:
        yield from _rule(key, forms, "upper case", "have capital letters", rules.case == "lower", "case = 'lower'")
    yield from _rule(key, forms, "leading zero", "begin with 0", rules.zeros == "drop", "zeros = 'drop'")
    yield from _of_dates(key, forms)


def _rule(key: str, forms: Forms, form: str, words: str, on: bool, setting: str) -> Iterator[Diagnosis]:
    """What a rule changes if it is on, or could change if it were."""
    if form in forms.counts and on:
        yield Diagnosis("note", key, f"{forms.some(form)} {words}, which data.ids.{setting} takes out")
    elif form in forms.counts:
        words = f"{forms.some(form)} {words}, and are compared as they are"
        remedy = f"if another party writes them differently, say data.ids.{setting} at every party"
        yield Diagnosis("note", key, words, remedy)


def _of_dates(key: str, forms: Forms) -> Iterator[Diagnosis]:
    examples = forms.examples
    found = [form for form in ("iso", "day_first", "month_first") if form in examples]
    if {"day_first", "month_first"} <= set(found):
        words = f"dates have the day first ({examples['day_first']}) and the month first ({examples['month_first']})"
        yield Diagnosis("wrong", key, words, "write all dates one way, best as 2013-01-31")
    elif found or "either first" in examples:
        form, example = (found[-1], found[-1]) if found else ("day_first' or 'month_first", "either first")
        words = f"ids like {examples[example]!r} look like dates, and are compared as they are"
        remedy = f"say data.ids.dates.{key} = '{form}' so that they are written in the same way at every party"
        yield Diagnosis("note", key, words, remedy)


def _of_key(data: OwnData, plain: Array, ids: Array) -> Iterator[Diagnosis]:
    key = " + ".join(data.keys)
    different, times = np.unique(ids[ids != ""].astype(str), return_counts=True)
    if not len(different):
        yield Diagnosis("wrong", key, "no row has an id", "check data.key and the file")
        return
    merged = len(np.unique(plain[plain != ""].astype(str))) - len(different)
    if merged > 0:
        words = f"{merged:,} ids become the same as another when they are written by data.ids"
        yield Diagnosis("note", key, words, "if these are different people, take that rule back")
    repeated = different[times > 1]
    words = f"{len(repeated):,} ids occur more than once, such as {', '.join(repeated[:3])}"
    handled = {"first": "; the first row of each is kept", "aggregate": "; their rows are made one"}
    if not len(repeated):
        yield Diagnosis("fine", key, f"{len(different):,} ids, all different")
    elif data.on_duplicate in handled:
        yield Diagnosis("note", key, words + handled[data.on_duplicate])
    else:
        remedy = "keep one row for each id, or say data.on_duplicate = 'first' or 'aggregate'"
        yield Diagnosis("wrong", key, words, remedy)


def _describe(forms: Forms) -> str:
    digits, (shortest, longest) = forms.counts.get("digits", 0), forms.lengths
    kind = "all digits" if digits == forms.known else f"text, but {digits:,} are all digits" if digits else "text"
    long = f"{shortest} to {longest}" if shortest < longest else f"{longest}"
    return f"{forms.known:,} ids, {kind}, {long} long" if forms.known else "no ids"
