"""The id doctor: how a party's ids are written, what would be changed before they are compared, and what is wrong."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from laconic.data.readers.batches import column_names, read_batches
from laconic.data.readers.ids import read_ids
from laconic.data.schema import IdRules, OwnData
from laconic.deploy.party_config import PartyFile
from laconic.doctor.columns import Diagnosis, Level
from laconic.errors import DataError
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


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


class Tally:
    """Counts of forms, with one example of each, and the shortest and longest id.

    Attributes:
        rows: cells seen. empty: cells without an id.
        counts, examples: by form, and for `space around`.
    """

    def __init__(self) -> None:
        self.rows = self.empty = 0
        self.counts: dict[str, int] = dict.fromkeys((*PATTERNS, "space around"), 0)
        self.examples: dict[str, str] = {}
        self.shortest, self.longest = 10**9, 0

    @property
    def known(self) -> int:
        """Cells with an id."""
        return self.rows - self.empty

    def add(self, series: "Series") -> None:
        """Count one batch."""
        given = series.astype("string").fillna("")
        text = given.str.strip()
        self.rows += len(text)
        known = text != ""
        self.empty += int((~known).sum())
        self._count("space around", (given != text) & known, given)
        for form, pattern in PATTERNS.items():
            self._count(form, text.str.contains(pattern, regex=True), text)
        if known.any():
            lengths = text[known].str.len()
            self.shortest = min(self.shortest, int(lengths.min()))
            self.longest = max(self.longest, int(lengths.max()))

    def _count(self, form: str, matches: "Series", text: "Series") -> None:
        found = matches.to_numpy(dtype=bool)
        self.counts[form] += int(found.sum())
        if found.any() and form not in self.examples:
            self.examples[form] = str(text.iloc[int(found.argmax())])


class Repeats:
    """Which ids occur more than once, by short digests: a million ids take eight megabytes."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def add(self, ids: Array) -> None:
        """Take one batch; empty ids are left out."""
        from pandas.util import hash_array

        self._parts.append(hash_array(ids[ids != ""].astype(object), categorize=False))

    @property
    def different(self) -> int:
        """How many different ids there are."""
        return len(np.unique(np.concatenate(self._parts))) if self._parts else 0

    def repeated(self) -> Array:
        """The digests of ids that occur more than once."""
        digests, times = np.unique(np.concatenate(self._parts), return_counts=True)
        return np.asarray(digests[times > 1])


def examples_of(digests: Array, batches: Iterator[Array], most: int = 3) -> list[str]:
    """A few ids that have these digests, from a second reading."""
    from pandas.util import hash_array

    found: dict[str, None] = {}
    for ids in batches:
        known = ids[ids != ""].astype(object)
        found |= dict.fromkeys(known[np.isin(hash_array(known, categorize=False), digests)][: 10 * most].tolist())
        if len(found) >= most:
            break
    return list(found)[:most]


_PLAIN = IdRules()


def check_ids(party: PartyFile) -> Iterable[Diagnosis]:
    """Look at every column of the key, a batch at a time, and at the key as a whole.

    Raises:
        DataError: the source cannot be read at all.
    """
    if party.data is None:
        yield Diagnosis(level="fine", about="data", words="none: a server, which has no rows")
        return
    data = party.data
    missing = [key for key in data.keys if key not in column_names(party.name, data)]
    if missing:
        there = ", ".join(column_names(party.name, data)[:20])
        yield Diagnosis(
            level="wrong",
            about=missing[0],
            words=f"{data.source} has no such column; it has {there}",
            remedy="name the column that says who a row is about in data.key",
        )
        return
    tallies = {key: Tally() for key in data.keys}
    plain, written = Repeats(), Repeats()
    for frame in read_batches(party.name, data, data.keys):
        for key, tally in tallies.items():
            tally.add(frame[key])
        plain.add(read_ids(frame, data.keys, _PLAIN, party.name))
        try:
            written.add(read_ids(frame, data.keys, data.ids, party.name))
        except DataError as problem:
            yield Diagnosis(
                level="wrong", about="key", words=str(problem), remedy="correct the cell, or data.ids.dates"
            )
            return
    for key, tally in tallies.items():
        yield from _of_column(key, tally, data)
    yield from _of_key(party, tallies, plain, written)


def _of_column(key: str, tally: Tally, data: OwnData) -> Iterator[Diagnosis]:
    rules = data.ids
    yield Diagnosis(level="fine", about=key, words=_describe(tally))
    if tally.empty:
        remedy = "fill them in, or say data.on_empty = 'drop' to leave those rows out"
        level: Level = "note" if data.on_empty == "drop" else "wrong"
        words = f"{tally.empty:,} of {tally.rows:,} rows have no id"
        yield Diagnosis(level=level, about=key, words=words, remedy="" if level == "note" else remedy)
    if key in rules.dates:
        yield _change(key, f"dates are read as {rules.dates[key]} and compared as 2013-01-31")
        return
    if tally.counts["rounded"]:
        yield Diagnosis(
            level="wrong",
            about=key,
            words=f"{_some(tally, 'rounded')} are rounded numbers, as spreadsheets write long ids",
            remedy="export the column again as text",
        )
    if tally.counts["point zero"]:
        yield Diagnosis(
            level="wrong",
            about=key,
            words=f"{_some(tally, 'point zero')} end in .0, as whole numbers do that were read as decimals",
            remedy="export the column again as text or whole numbers",
        )
    if tally.counts["space around"]:
        yield _change(key, f"{_some(tally, 'space around')} have white space around them, which is dropped")
    yield from _rule(key, tally, "space inside", "have white space inside", rules.spaces == "drop", "spaces = 'drop'")
    if tally.counts["upper case"] and tally.counts["lower case"]:
        yield from _rule(key, tally, "upper case", "have capital letters", rules.case == "lower", "case = 'lower'")
    yield from _rule(key, tally, "leading zero", "begin with 0", rules.zeros == "drop", "zeros = 'drop'")
    yield from _of_dates(key, tally)


def _rule(key: str, tally: Tally, form: str, words: str, on: bool, setting: str) -> Iterator[Diagnosis]:
    """What a rule changes if it is on, or could change if it were."""
    if not tally.counts[form]:
        return
    if on:
        yield _change(key, f"{_some(tally, form)} {words}, which data.ids.{setting} takes out")
        return
    yield Diagnosis(
        level="note",
        about=key,
        words=f"{_some(tally, form)} {words}, and are compared as they are",
        remedy=f"if another party writes them otherwise, say data.ids.{setting} at every party",
    )


def _of_dates(key: str, tally: Tally) -> Iterator[Diagnosis]:
    forms = [form for form in ("iso", "day_first", "month_first") if tally.counts[form]]
    if {"day_first", "month_first"} <= set(forms):
        yield Diagnosis(
            level="wrong",
            about=key,
            words=f"dates have the day first ({tally.examples['day_first']}) and the month first "
            f"({tally.examples['month_first']})",
            remedy="write all dates one way, best as 2013-01-31",
        )
    elif forms or tally.counts["either first"]:
        form = forms[-1] if forms else "day_first' or 'month_first"
        example = tally.examples[forms[-1] if forms else "either first"]
        yield Diagnosis(
            level="note",
            about=key,
            words=f"ids like {example!r} look like dates, and are compared as they are",
            remedy=f"say data.ids.dates.{key} = '{form}' so that they are written alike at every party",
        )


def _of_key(party: PartyFile, tallies: dict[str, Tally], plain: Repeats, written: Repeats) -> Iterator[Diagnosis]:
    data = party.own_data
    key = " + ".join(data.keys)
    if not any(tally.known for tally in tallies.values()):
        yield Diagnosis(level="wrong", about=key, words="no row has an id", remedy="check data.key and the file")
        return
    merged = plain.different - written.different
    if merged > 0:
        yield Diagnosis(
            level="note",
            about=key,
            words=f"{merged:,} ids become the same as another when they are written by data.ids",
            remedy="if these are different people, take that rule back",
        )
    repeated = written.repeated()
    if not len(repeated):
        yield Diagnosis(level="fine", about=key, words=f"{written.different:,} ids, no two alike")
        return
    batches: Iterator[Array] = (
        read_ids(frame, data.keys, data.ids, party.name) for frame in read_batches(party.name, data, data.keys)
    )
    words = f"{len(repeated):,} ids occur more than once, such as {', '.join(examples_of(repeated, batches))}"
    handled = {"first": "; the first row of each is kept", "aggregate": "; their rows are made one"}
    yield Diagnosis(
        level="wrong" if data.on_duplicate in (None, "error") else "note",
        about=key,
        words=words + handled.get(data.on_duplicate or "", ""),
        remedy="keep one row for each id, or say data.on_duplicate = 'first' or 'aggregate'"
        if data.on_duplicate in (None, "error")
        else "",
    )


def _describe(tally: Tally) -> str:
    kind = "all digits" if tally.counts["digits"] == tally.known else "text"
    if 0 < tally.counts["digits"] < tally.known:
        kind = f"text, but {tally.counts['digits']:,} are all digits"
    long = f"{tally.shortest} to {tally.longest}" if tally.shortest < tally.longest else f"{tally.longest}"
    return f"{tally.known:,} ids, {kind}, {long} long" if tally.known else "no ids"


def _some(tally: Tally, form: str) -> str:
    return f"{tally.counts[form]:,} of {tally.known:,} ids, such as {tally.examples[form]!r},"


def _change(key: str, words: str) -> Diagnosis:
    return Diagnosis(level="note", about=key, words=words)
