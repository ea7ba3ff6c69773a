"""What a label column says: classes, or a quantity."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from laconic.data.readers.cells import cells_of, days_of, fold, one_spelling
from laconic.data.readers.columns import Evidence, look_at, read_values
from laconic.data.schema import note_spellings
from laconic.errors import DataError
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


_MOSTLY = 0.5  # a text column with at least this share of numbers was meant to be numeric


def guess_kind(series: "Series", party: str) -> Literal["numeric", "categorical"]:
    """Numbers and dates are numeric; text, true/false and categories are categorical.

    Text whose every cell is a number is numeric.

    Raises:
        DataError: the cells are text and most are numbers, so the others look like mistakes.
    """
    from pandas.api import types

    if types.is_bool_dtype(series.dtype) or series.dtype == "category":
        return "categorical"
    if types.is_numeric_dtype(series.dtype) or types.is_datetime64_any_dtype(series.dtype):
        return "numeric"
    known = _text(series).dropna()
    share = float(_numbers(known).notna().mean()) if len(known) else 1.0
    if share == 1:
        return "numeric"
    if share >= _MOSTLY:
        _refuse_text(series, party)
    return "categorical"


def as_numbers(series: "Series", party: str, before: int = 0) -> Array:
    """The cells as float64, NaN where missing; dates as days since 1970.

    Args:
        series: the cells, or some of them.
        party: whose they are, for errors.
        before: how many rows came before these, for errors.

    Raises:
        DataError: a cell is not a number; says which.
    """
    from pandas.api import types

    if types.is_datetime64_any_dtype(series.dtype):
        return days_of(series)
    if types.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse_text(series, party, before)
    return _numbers(_text(series)).to_numpy(dtype=np.float64, na_value=np.nan)


def _text(series: "Series") -> "Series":
    text = series.astype("string").str.strip()
    return text.mask((text == "").fillna(False))


def _numbers(text: "Series") -> "Series":
    import pandas

    return pandas.to_numeric(text, errors="coerce")


def _refuse_text(series: "Series", party: str, before: int = 0) -> None:
    text = _text(series)
    stray = (text.notna() & _numbers(text).isna()).to_numpy(dtype=bool)
    if stray.any():
        row = int(stray.argmax())
        raise DataError(
            f"party {party!r}, column {series.name!r}: found {text.iloc[row]!r} in row {before + row + 1} among "
            f"numbers ({int(stray.sum())} such cells of {len(text)}); correct the cell, leave it empty if it is "
            f"missing, or say kinds={{{series.name!r}: 'categorical'}} (data.columns in a party file) if it holds names"
        )


MOST_CLASSES = 20
"""Whole numbers with at most this many different values are taken for classes."""

_NO_LABEL = ("", "nan", "inf", "-inf")


def read_labels(
    series: "Series", task: Task | None, party: str, notes: list[str] | None = None, delimiter: str = ""
) -> tuple[Array, Task]:
    """Class codes or numbers, and what they are.

    Classes are in the order of their numbers, or of the alphabet. Words that differ in case only are one class.

    Args:
        series: the label column.
        task: what the label is, if known; its label name is replaced by the column's.
        party: who holds it, for errors.
        notes: what was decided and should be looked at is added here.
        delimiter: what is between the columns of the file, where it was one.

    Raises:
        DataError: a label is missing, or is not one of the classes named in the task.
    """
    name = str(series.name)
    _refuse_gaps(series, party)
    said = [] if notes is None else notes
    if task is not None and task.kind == "regression":
        return _quantity(series, party, said, delimiter), Task(kind="regression", label=name)
    if task is None and _is_numeric(series, party):
        numbers = _quantity(series, party, said, delimiter)
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
    """Refuse labels that nearly every row has another of: an id or a name is no class.

    Raises:
        DataError: says what to do instead.
    """
    if task.kind == "regression" or len(task.classes) <= MOST_CLASSES or 2 * len(task.classes) < len(y):
        return
    numeric = all(rank(name)[0] < np.inf for name in task.classes)
    instead = "say that it is a quantity (--set data.task=regression), or " if numeric else ""
    raise DataError(
        f"party {party!r}, label {task.label!r}: found {len(task.classes)} classes in {len(y)} rows, such as "
        f"{', '.join(task.classes[:3])}, so that hardly any two rows have the same; {instead}choose another column as "
        "the label"
    )


def _is_numeric(series: "Series", party: str) -> bool:
    look = look_at(series)
    if look.fixed is not None:
        return look.fixed != "categorical"
    if look.values is None and 2 * look.tally.numbers >= look.tally.known > look.tally.numbers:
        guess_kind(series, party)  # Refuses words among numbers, and says where: a label cannot be missing.
    return look.values is not None or (look.tally.known > 0 and look.tally.numbers == look.tally.known)


def _quantity(series: "Series", party: str, notes: list[str], delimiter: str) -> Array:
    return read_values(party, look_at(series), "numeric", Evidence(delimiter=delimiter), notes, said=True)[0]


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
    return cells.spread(coded), classes


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


def _refuse_gaps(series: "Series", party: str) -> None:
    text = series.astype("string").str.strip().str.lower().fillna("")
    bad = text.isin(_NO_LABEL).to_numpy(dtype=bool)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"party {party!r}, label {str(series.name)!r}: {int(bad.sum())} of {len(series)} labels are missing or "
            f"infinite, the first in row {row + 1}; fill them in or leave those rows out"
        )
