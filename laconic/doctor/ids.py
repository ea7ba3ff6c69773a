"""The id doctor: how a party's ids are written, what would be changed before they are compared, and what is wrong."""

from collections.abc import Iterable, Iterator

from laconic.core.errors import DataError
from laconic.core.values import Array
from laconic.data.batches import column_names, read_batches
from laconic.data.ids import read_ids
from laconic.data.own_data import IdRules, OwnData
from laconic.doctor.diagnosis import Diagnosis, Level
from laconic.doctor.tally import Repeats, Tally, examples_of
from laconic.plan.party_file import PartyFile

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
        level="wrong" if data.on_duplicate == "error" else "note",
        about=key,
        words=words + handled.get(data.on_duplicate, ""),
        remedy="keep one row for each id, or say data.on_duplicate = 'first' or 'aggregate'"
        if data.on_duplicate == "error"
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
