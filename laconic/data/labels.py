"""What a label column says: classes, a quantity, or, with a second column, the time to an event."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import UNSET

from laconic.data.readers.cells import cells_of, fold, note_spellings, one_spelling
from laconic.data.readers.columns import ColumnReader, look_at
from laconic.errors import DataError
from laconic.tables.task import Task, signed_times
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


MOST_CLASSES = 20
"""Whole numbers with at most this many different values are taken for classes."""

_NO_LABEL = ("", "nan", "inf", "-inf")


def guess_kind(series: "Series") -> Literal["numeric", "categorical"]:
    """Numbers and dates are numeric, and so is text if at least half of it is numbers; the rest is categorical."""
    look = look_at(series)
    if look.fixed is not None:
        return "categorical" if look.fixed == "categorical" else "numeric"
    if look.values is None and not look.tally.known:
        return "categorical" if len(look.cells.words) else "numeric"
    return "numeric" if look.values is not None or 2 * look.tally.numbers >= look.tally.known else "categorical"


def as_numbers(series: "Series", party: str, notes: list[str] | None = None, delimiter: str = "") -> Array:
    """The cells as float64, NaN where missing; dates as days since 1970."""
    look = look_at(series)
    kind: Literal["date", "numeric"] = "date" if look.fixed == "date" else "numeric"
    return ColumnReader(party, [] if notes is None else notes, delimiter).values(look, kind, said=True)[0]


_CAME = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
"""What the cells of an event column may say."""


def read_labels(
    series: "Series",
    task: Task | None,
    party: str,
    notes: list[str] | None = None,
    delimiter: str = "",
    event: "Series | None" = None,
) -> tuple[Array, Task]:
    """Class codes or numbers, and what they are.

    Classes are in the order of their numbers, or of the alphabet. Words that differ in case only are one class.

    Args:
        task: what the label is, if known; its label name is replaced by the column's.
        notes: what was decided and should be looked at is added here.
        delimiter: what is between the columns of the file, where it was one.
        event: the column that says whether the event came; labels are then the times until it did, or until rows were
            no longer watched.
    """
    name = str(series.name)
    _refuse_gaps(series, party)
    if event is not None or (task is not None and task.kind == "survival"):
        return _read_times(series, event, task, party, [] if notes is None else notes, delimiter)
    said = [] if notes is None else notes
    if task is not None and task.kind == "regression":
        numbers = as_numbers(series, party, said, delimiter)
        if task.counts is True:
            _refuse_no_counts(numbers, party, name)
        return numbers, Task(kind="regression", label=name, counts=task.counts)
    if task is None and guess_kind(series) == "numeric":
        numbers = as_numbers(series, party, said, delimiter)
        if not _few_whole(numbers):
            return numbers, Task(kind="regression", label=name)
    codes, classes = _code_classes(series, task.classes if task else (), party, said)
    kind = task.kind if task is not None else "binary" if len(classes) == 2 else "multiclass"
    if kind == "binary" and len(classes) > 2:
        raise DataError(
            f"party {party!r}, label {name!r}: the task is binary but there are {len(classes)} classes "
            f"({', '.join(classes[:5])}); use Task(kind='multiclass') or join some classes"
        )
    return codes, Task(kind=kind, classes=classes, label=name)


def _read_times(
    series: "Series", event: "Series | None", task: Task | None, party: str, notes: list[str], delimiter: str
) -> tuple[Array, Task]:
    """Times, with a minus sign where the event had not come by then."""
    name, where = str(series.name), f"party {party!r}, label {str(series.name)!r}"
    if event is None:
        raise DataError(f"{where}: a time to an event needs a second column that says whether it came; give event=")
    if task is not None and task.kind != "survival":
        raise DataError(f"{where}: event names {str(event.name)!r}, but the task is {task.kind}; leave one of them out")
    times = as_numbers(series, party, notes, delimiter)
    bad = ~np.isfinite(times) | (times < 0)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{where}: found {str(series.iloc[row])!r} in row {row + 1}, and {int(bad.sum())} such of {len(times)}; "
            "a time is a number of 0 or more, so correct these rows or leave them out"
        )
    came = _read_events(event, party)
    scale = UNSET if task is None else task.scale
    return signed_times(times, came), Task(kind="survival", label=name, event=str(event.name), scale=scale)


def _read_events(series: "Series", party: str) -> Array:
    _refuse_gaps(series, party, what="event")
    cells = cells_of(series)
    words: list[str] = cells.words.to_pylist()
    found = [_CAME.get(_plain_word(word)) for word in words]
    strange = np.array([one is None for one in found])
    if strange.any():
        row = cells.first_row(strange)
        raise DataError(
            f"party {party!r}, event {str(series.name)!r}: found {words[int(cells.places[row])]!r} in row {row + 1}; "
            "write 1 where the event came and 0 where it had not by the time given (or true and false, yes and no)"
        )
    return np.asarray(cells.spread(np.array(found, dtype=np.int64)).astype(bool))


def _plain_word(word: str) -> str:
    """A word as it is compared: 1.0 is 1, and Yes is yes."""
    number, _ = rank(word)
    return fold(word) if not np.isfinite(number) else _plain_number(number)


def rank(text: str) -> tuple[float, str]:
    """By which classes are put in order: by their number, or after all numbers by the alphabet."""
    try:
        return float(text), ""
    except ValueError:
        return np.inf, text


def same_class(text: str) -> str:
    """What names of one class have in common: 1, 1.0 and 01 are one class, and so are yes and YES."""
    try:
        return repr(float(text) + 0.0)
    except ValueError:
        return fold(text)


def refuse_unique(y: Array, task: Task, party: str) -> None:
    """Refuse labels that nearly every row has another of: an id or a name is no class."""
    if not task.of_classes or len(task.classes) <= MOST_CLASSES or 2 * len(task.classes) < len(y):
        return
    numeric = all(rank(name)[0] < np.inf for name in task.classes)
    instead = "say that it is a quantity (--set data.task=regression), or " if numeric else ""
    raise DataError(
        f"party {party!r}, label {task.label!r}: found {len(task.classes)} classes in {len(y)} rows, such as "
        f"{', '.join(task.classes[:3])}, so that hardly any two rows have the same; {instead}choose another column as "
        "the label"
    )


def _refuse_no_counts(numbers: Array, party: str, name: str) -> None:
    """Refuse what cannot have been counted."""
    wrong = ~((numbers >= 0) & (numbers == np.floor(numbers))) & ~np.isnan(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"party {party!r}, label {name!r}: a count is a whole number of 0 or more, but row {row + 1} has "
            f"{numbers[row]:g}; correct it, or say that it is a quantity (task = regression)"
        )


def _few_whole(numbers: Array) -> bool:
    different = np.unique(numbers)
    whole = bool((different == np.floor(different)).all())
    return len(different) <= 2 or (whole and len(different) <= MOST_CLASSES)


def _code_classes(
    series: "Series", named: tuple[str, ...], party: str, notes: list[str]
) -> tuple[Array, tuple[str, ...]]:
    cells = cells_of(series)
    words: list[str] = cells.words.to_pylist()
    spelled = _one_name(words, cells.counts.tolist())
    note_spellings(
        {word: name for word, name in spelled.items() if fold(word) == fold(name)},
        f"{party}, label {str(series.name)!r}",
        notes,
    )
    classes = named or tuple(sorted(set(spelled.values()), key=rank))
    codes = {same_class(name): code for code, name in reversed(list(enumerate(classes)))}
    exact = {name: code for code, name in enumerate(classes)}
    coded = np.array([exact.get(word, codes.get(same_class(word), -1)) for word in words], dtype=np.int64)
    if (coded < 0).any():
        row = cells.first_row(coded < 0)
        raise DataError(
            f"party {party!r}, label {str(series.name)!r}: found {words[int(cells.places[row])]!r} in row {row + 1}, "
            f"which is not one of the classes {', '.join(classes)}; correct it or name all classes in the task"
        )
    return cells.spread(coded).astype(np.int64), classes


def _one_name(words: list[str], counts: list[int]) -> dict[str, str]:
    """For each label what its class is called: whole numbers without a point if any has one, or another has zeros."""
    spelled = one_spelling(words, counts)
    keys: dict[str, set[str]] = {}
    for name in spelled.values():
        keys.setdefault(same_class(name), set()).add(name)
    numeric = all(rank(name)[0] < np.inf for name in spelled.values())
    pointed = any("." in name or "e" in name.lower() for name in spelled.values())
    if numeric and (pointed or any(len(names) > 1 for names in keys.values())):
        return {word: _plain_number(float(word)) for word in words}
    return spelled


def _plain_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _refuse_gaps(series: "Series", party: str, *, what: str = "label") -> None:
    text = series.astype("string").str.strip().str.lower().fillna("")
    bad = text.isin(_NO_LABEL).to_numpy(dtype=bool)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"party {party!r}, {what} {str(series.name)!r}: {int(bad.sum())} of {len(series)} {what}s are missing or "
            f"infinite, the first in row {row + 1}; fill them in or leave those rows out"
        )
