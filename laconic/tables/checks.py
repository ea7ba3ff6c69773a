"""What makes a party's rows unusable; every error names the party, what was found, and what to do."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import UNSET

from laconic.errors import DataError
from laconic.tables.columns import Column
from laconic.tables.survival import events_of
from laconic.tables.task import Task
from laconic.values import Array

APART = ("train", "valid", "test", "own")
"""Cuts that may not have a row in common: what is learnt from must not be what is scored on."""


UNLABELLED = ("own", "public")
"""Cuts whose rows need no labels."""

_NO_ROWS = np.empty(0, dtype=np.int64)
_NO_ID = ("", "nan", "<NA>", "NaT")  # how pandas and numpy spell a missing cell once it is text


def clean_ids(ids: Array | Sequence[str] | Sequence[int], party: str) -> Array:
    """Ids as an array of whole numbers or of text without white space around it; missing and repeated ones refused."""
    given = np.asarray(ids)
    if given.dtype.kind == "f":
        gaps = np.isnan(given)
        whole = bool((given[~gaps] == np.floor(given[~gaps])).all())
        clean = np.where(gaps, 0, given).astype(np.int64) if whole else given.astype(str)
    elif given.dtype.kind in "iu":
        gaps, clean = np.zeros(len(given), dtype=bool), given
    else:
        text = (
            given if given.dtype.kind == "U" else np.array(["" if one is None else str(one) for one in given.tolist()])
        )
        stripped = np.char.strip(text.astype(str))
        # As wide as the longest id and no wider: an array keeps the width of whatever it was made from.
        clean = stripped.astype(f"U{np.char.str_len(stripped).max(initial=1)}")
        gaps = np.isin(clean, _NO_ID)
    if gaps.any():
        raise DataError(
            f"party {party!r}: {int(gaps.sum())} of {len(given)} rows have no id, the first is row "
            f"{int(gaps.argmax()) + 1}; give every row an id or leave those rows out"
        )
    if has_repeated(clean):
        ordered = np.sort(clean)
        repeated = list(dict.fromkeys(ordered[1:][ordered[1:] == ordered[:-1]].tolist()))
        raise DataError(
            f"party {party!r}: {len(repeated)} ids occur more than once, such as {', '.join(map(str, repeated[:3]))}; "
            "keep one row for each id (sum or average the others first)"
        )
    return clean


def has_repeated(ids: Array) -> bool:
    """Whether any id, a whole number or text, occurs more than once."""
    if ids.dtype.kind in "iu":
        ordered = np.sort(ids)
        return bool((ordered[1:] == ordered[:-1]).any())
    import pyarrow as pa

    return len(pa.array(ids, pa.large_string()).dictionary_encode().dictionary) < len(ids)


def check_raw(raw: Array, columns: Sequence[Column], party: str, *, labelled: bool, prepared: bool = False) -> None:
    """Refuse rows and columns that do not fit each other; none of either is fine, for a server without data.

    Where it is known elsewhere how columns are `prepared`, there may be columns and no rows.
    """
    if raw.ndim not in (2, 4) or raw.dtype.kind not in "fu":
        raise ValueError(f"raw must be a table of floats or a stack of uint8 images, not {raw.dtype} of {raw.shape}")
    if raw.shape == (0, 0) and not labelled:
        return
    if len(raw) == 0 and not prepared:
        raise DataError(f"party {party!r} has no rows; give it at least two")
    if raw.ndim == 4 and (raw.dtype != np.uint8 or [column.kind for column in columns] != ["pixels"]):
        raise ValueError("images need dtype uint8 and exactly one column of kind 'pixels'")
    if raw.ndim == 2 and raw.shape[1] != len(columns):
        raise ValueError(f"raw has {raw.shape[1]} columns but {len(columns)} are described")
    if not columns and not labelled:
        raise DataError(f"party {party!r} has no columns besides its id; give it some or leave it out")
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise DataError(f"party {party!r}: two columns are called {twice!r}; rename one")


def check_variety(raw: Array, columns: Sequence[Column], rows: Array, party: str) -> None:
    """Refuse a party none of whose columns varies among the given rows."""
    if raw.ndim == 4 or not columns:
        return
    training = raw[rows]
    same = (training == training[:1]) | (np.isnan(training) & np.isnan(training[:1]))
    if same.all():
        raise DataError(
            f"party {party!r}: every one of its columns ({', '.join(column.name for column in columns[:5])}) is the "
            f"same in all of its {len(rows)} training rows; constant columns are dropped and none is left, "
            "so give it other columns or leave it out"
        )


def check_cuts(cuts: Mapping[str, Array], rows: int, party: str) -> None:
    """Refuse cuts that point outside the table, name a row twice, or mix training with scoring."""
    for name, cut in cuts.items():
        if cut.size and (cut.min() < 0 or cut.max() >= rows):
            raise DataError(
                f"party {party!r}: cut {name!r} points at row {int(cut.max() if cut.max() >= rows else cut.min())} "
                f"but there are only rows 0 to {rows - 1}; count rows from 0"
            )
        if cut.size and np.bincount(cut).max() > 1:
            raise DataError(f"party {party!r}: cut {name!r} names a row more than once; name each row once")
    owner = np.full(rows, -1)
    for i, name in enumerate(APART):
        cut = cuts.get(name, _NO_ROWS)
        taken = cut[owner[cut] >= 0]
        if taken.size:
            raise DataError(
                f"party {party!r}: cuts {APART[owner[taken[0]]]!r} and {name!r} share {taken.size} rows, "
                f"row {taken[0]} for one; a row may be in only one of them"
            )
        owner[cut] = i


def clean_labels(y: Array, task: Task, cuts: Mapping[str, Array], rows: int, party: str) -> Array:
    """Labels as int64 codes or float64 numbers; -1 or NaN, "no label", only for rows of the cuts in `UNLABELLED`."""
    where = f"party {party!r}, label {task.label!r}"
    given = np.asarray(y)
    if given.shape != (rows,):
        raise DataError(f"{where}: labels have shape {given.shape} but there are {rows} rows; give one label per row")
    clean = given.astype(np.float64)
    unknown = ~(clean >= 0) if task.of_classes else ~np.isfinite(clean)
    bad = unknown.copy()
    for name in UNLABELLED:
        bad[cuts.get(name, _NO_ROWS)] = False
    if bad.any():
        row = int(bad.argmax())
        raise DataError(f"{where}: row {row + 1} has {given[row]} for a label; fill it in or leave the row out")
    if not task.of_classes:
        return clean
    if clean.max() >= len(task.classes):
        raise DataError(f"{where}: found code {int(clean.max())} but only {len(task.classes)} classes are named")
    return np.where(unknown, -1, clean).astype(np.int64)


def check_label_variety(y: Array, task: Task, rows: Array, party: str, *, what: str = "training") -> None:
    """Refuse labels that are all the same among the given rows; `what` says which rows these are."""
    labels = y[rows]
    labels = labels[labels >= 0] if task.of_classes else labels[~np.isnan(labels)]
    if task.kind == "survival":
        check_events(labels, task, y, party, what=what)
        return
    if labels.size and labels.min() < labels.max():
        return
    found = "no label" if labels.size == 0 else f"only {labels[0]:g}"
    if labels.size and task.of_classes:
        found = f"only class {task.classes[labels[0]]!r}"
    raise DataError(
        f"party {party!r}, label {task.label!r}: found {found} among {len(rows)} {what} rows; "
        "at least two different labels are needed to learn, so add rows or choose another label"
    )


def check_events(labels: Array, task: Task, y: Array, party: str, *, what: str = "training") -> None:
    """Refuse rows to learn from of which none had the event; `y` are the labels of all rows that the party has."""
    if events_of(labels).any():
        return
    elsewhere = int(events_of(y[np.isfinite(y)]).sum())
    where = f"; all {elsewhere} are among the rows held out, so hold out fewer (data.test)" if elsewhere else ""
    raise DataError(
        f"party {party!r}, label {task.label!r}: none of {len(labels)} {what} rows had the event"
        f"{'' if task.event is UNSET else f' ({task.event})'}, and risks are learnt from events alone{where}; give it "
        "more rows or leave it out"
    )
