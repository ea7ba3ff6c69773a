"""What a label column says: classes, or a quantity."""

from typing import TYPE_CHECKING

import numpy as np

from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.coding import code_levels
from laconic.data.kinds import as_numbers, guess_kind

if TYPE_CHECKING:
    from pandas import Series

MOST_CLASSES = 20
"""Whole numbers with at most this many different values are taken for classes."""

_NO_LABEL = ("", "nan", "inf", "-inf")


def read_labels(series: "Series", task: Task | None, party: str) -> tuple[Array, Task]:
    """Class codes or numbers, and what they are.

    Classes are in the order of their numbers, or of the alphabet.

    Args:
        series: the label column.
        task: what the label is, if known; its label name is replaced by the column's.
        party: who holds it, for errors.

    Raises:
        DataError: a label is missing, or is not one of the classes named in the task.
    """
    name = str(series.name)
    _refuse_gaps(series, party)
    if task is not None and task.kind == "regression":
        return as_numbers(series, party), Task(kind="regression", label=name)
    numeric = task is None and guess_kind(series, party) == "numeric"
    if numeric and not _few_whole(as_numbers(series, party)):
        return as_numbers(series, party), Task(kind="regression", label=name)
    codes, classes = _code_classes(series, task.classes if task else (), party)
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


def _few_whole(numbers: Array) -> bool:
    different = np.unique(numbers)
    whole = bool((different == np.floor(different)).all())
    return len(different) <= 2 or (whole and len(different) <= MOST_CLASSES)


def _code_classes(series: "Series", named: tuple[str, ...], party: str) -> tuple[Array, tuple[str, ...]]:
    text = _plain_text(series)
    order = named or tuple(sorted(text.unique().tolist(), key=rank))
    codes, classes = code_levels(text, order)
    unknown = codes >= len(classes)
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"party {party!r}, label {str(series.name)!r}: found {text.iloc[row]!r} in row {row + 1}, "
            f"which is not one of the classes {', '.join(classes)}; correct it or name all classes in the task"
        )
    return codes, classes


def _plain_text(series: "Series") -> "Series":
    """Cells as text, whole numbers without a decimal point: 1.0 and 1 are the same class."""
    from pandas.api import types

    text = series.astype("string").str.strip()
    if not types.is_numeric_dtype(series.dtype) and text.str.fullmatch(r"[+-]?\d+\.\d*|[+-]?\d+").all():
        # Numbers as text, as a CSV file has them: with a point in any of them, 1 and 1.0 must not become two classes.
        series = series.astype(float) if text.str.contains(".", regex=False).any() else text
    if types.is_float_dtype(series.dtype):
        return series.map(lambda value: str(int(value)) if value == int(value) else repr(float(value)))
    return text


def _refuse_gaps(series: "Series", party: str) -> None:
    text = series.astype("string").str.strip().str.lower().fillna("")
    bad = text.isin(_NO_LABEL).to_numpy(dtype=bool)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"party {party!r}, label {str(series.name)!r}: {int(bad.sum())} of {len(series)} labels are missing or "
            f"infinite, the first in row {row + 1}; fill them in or leave those rows out"
        )
