"""The rows of one party, which never leave it: raw cells, ids, labels, named cuts, and the rows as models see them.

First what makes rows unusable: every error names the party, what was found, and what to do.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from laconic.errors import DataError
from laconic.shown import counted
from laconic.tables.columns import Column, Recipe, apply_recipe, fit_recipe, refuse_infinity
from laconic.tables.on_disk import empty_on_disk, is_on_disk, taken
from laconic.tables.task import Task, events_of
from laconic.values import Array, Rng

APART = ("train", "valid", "test", "own")
"""Cuts that may not have a row in common: what is learnt from must not be what is scored on."""


UNLABELLED = ("own", "public")
"""Cuts whose rows need no labels."""

PAIRED = "paired"
"""A party's cut of rows that the hub has too, but not every party."""

_AT_ONCE = 1 << 16
"""Rows prepared and put through an encoder at a time."""

_NO_ROWS = np.empty(0, dtype=np.int64)
_NO_ID = ("", "nan", "<NA>", "NaT")  # how pandas and numpy spell a missing cell once it is text


def paired_with(party: str) -> str:
    """The hub's cut of the same people as a party's cut "paired", in the same order."""
    return f"{PAIRED} {party}"


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


_FEW = 1000


def _is_same(rows: Array) -> bool:
    """Whether all rows are equal, where a missing cell equals another."""
    return bool(((rows == rows[:1]) | (np.isnan(rows) & np.isnan(rows[:1]))).all())


def check_variety(raw: Array, columns: Sequence[Column], rows: Array, party: str) -> None:
    """Refuse a party none of whose columns varies among the given rows."""
    if raw.ndim == 4 or not columns:
        return
    # Nearly always a few rows show it; all are looked at only where these do not.
    if _is_same(raw[rows[:_FEW]]) and _is_same(raw[rows]):
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


_SAME = (
    "raw",
    "columns",
    "ids",
    "y",
    "task",
    "cuts",
    "party",
    "parting",
)  # arguments of a table that are its attributes


class Parting(NamedTuple):
    """What a party's rows are parted by before they are cut: rows of the same value stay together.

    Attributes:
        values: a number per row.
        in_time: whether greater is later, and the last rows are scored on; else values name groups.
    """

    values: Array
    in_time: bool


class Table:
    """What one party knows about its people, one row each.

    The cut "train" (and "own", rows that not all parties have) is what may be learnt from; "valid" and "test" are for
    scoring. A table without cuts is all training rows.

    Attributes:
        raw: cells as floats, shape (rows, columns), NaN where missing, codes for categories; or uint8 images,
            shape (rows, channels, height, width).
        columns: what the raw columns are; empty for a label holder that has only labels.
        ids: whole numbers or text, one per row, all different; None when rows are known by position.
        y: class codes or numbers; None for a party without labels. -1 or NaN marks an unlabelled row of cut "own"
            or "public".
        task: what `y` is; None for a party without labels. Rows to be predicted have a task and no `y`.
        cuts: row positions by name.
        party: whose table it is.
        parting: what its rows are parted by when they are matched, at the label holder, and which of them belong
            together after that; None for at random.
    """

    def __init__(
        self,
        raw: Array,
        columns: Sequence[Column],
        *,
        ids: Array | Sequence[str] | Sequence[int] | None = None,
        y: Array | None = None,
        task: Task | None = None,
        cuts: Mapping[str, Array] | None = None,
        party: str = "",
        recipe: Recipe | None = None,
        parting: Parting | None = None,
    ) -> None:
        """Check everything once, here; a table that exists is sound.

        Args:
            raw: see the class; whole numbers and booleans are taken as floats.
            ids: see the class; white space around text is dropped.
            recipe: one that was fitted elsewhere, for rows that come later or are one of many parties' shares; such
                rows need not vary. None to fit one on this table's training rows.
        """
        self.party = party
        self.parting = parting
        self.raw = _as_cells(np.asarray(raw))
        self.columns = tuple(columns)
        check_raw(self.raw, self.columns, party, labelled=task is not None, prepared=recipe is not None)
        self.cuts = {name: np.asarray(cut, dtype=np.int64) for name, cut in (cuts or {}).items()}
        check_cuts(self.cuts, self.rows, party)
        self.ids = None if ids is None else clean_ids(ids, party)
        if self.ids is not None and self.ids.shape != (self.rows,):
            raise ValueError(f"party {party!r}: {len(self.ids)} ids for {self.rows} rows; give one id per row")
        if y is not None and task is None:
            raise ValueError(f"party {party!r} has labels but no task; give task=Task(...)")
        self.task = task
        self.y = None if y is None or task is None else clean_labels(y, task, self.cuts, self.rows, party)
        if self.y is not None and task is not None:
            self.task = task.scaled(self.y[self._training_rows])
        if self.raw.ndim == 2:
            refuse_infinity(self.raw, self.columns, party)
        self._given = recipe
        if recipe is None:
            check_variety(self.raw, self.columns, self._training_rows, party)
            if self.y is not None and task is not None:
                check_label_variety(self.y, task, self._training_rows, party)
                if len(self.cuts.get("shared", ())):
                    # Rows outside the overlap may vary, but it is shared rows that are predicted and scored on.
                    check_label_variety(self.y, task, self.cuts["shared"], party, what="shared")

    def __repr__(self) -> str:
        cuts = ", ".join(f"{name} {len(rows):,}" for name, rows in self.cuts.items())
        size = f"{counted(self.rows, 'row')}, {counted(len(self.columns), 'column')}"
        return f"<Table of {self.party or 'a party'}: {size}{f'; {cuts}' if cuts else ''}>"

    @classmethod
    def without_rows(cls, party: str) -> "Table":
        """The table of a party that has no data, such as a server that only puts others' answers together."""
        return cls(np.empty((0, 0)), (), party=party)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.raw)

    @cached_property
    def recipe(self) -> Recipe:
        """How raw columns are prepared: statistics of this party's training rows only."""
        if self._given is not None:
            return self._given
        classes = self.y if self.task is not None and self.task.kind == "binary" else None
        return fit_recipe(self.raw, self.columns, self._training_rows, party=self.party, classes=classes)

    @cached_property
    def x(self) -> Array:
        """All rows as models see them, float32."""
        return apply_recipe(self.recipe, self.raw, party=self.party)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one prepared row."""
        return tuple(self.raw.shape[1:]) if self.raw.ndim == 4 else (len(self.recipe.parts),)

    @cached_property
    def keys(self) -> Array:
        """Ids as text, the form in which two parties' ids are compared; row positions when there are no ids."""
        return (np.arange(self.rows) if self.ids is None else self.ids).astype(str)

    @property
    def key_column(self) -> Any:
        """The same as an Arrow column, for work on millions of them; made anew, as it takes more memory than ids do."""
        import pyarrow as pa

        ids = np.arange(self.rows) if self.ids is None else self.ids
        return pa.array(ids).cast(pa.large_string()) if ids.dtype.kind in "iu" else pa.array(ids, pa.large_string())

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the row of each key is."""
        return {key: at for at, key in enumerate(self.keys.tolist())}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the cells, in this order."""
        return blake2b(comparable(self.raw).tobytes(), digest_size=16).hexdigest()

    def sample(self, rows: str, most: int | None, rng: Rng) -> Array:
        """The prepared rows of a cut, or so many of them drawn at random where it has more; None for no limit.

        Of `most` rows drawn, a column's ranks are off by more than `rank_error(most)` once in a million draws.
        """
        at = self.cut(rows)
        if most is not None and len(at) > most:
            at = np.sort(rng.choice(at, most, replace=False, shuffle=False))
        return self.prepared(at)

    def mapped(self, rows: str, function: Callable[[Array], Array]) -> Array:
        """What a function makes of the prepared rows of a cut, some rows at a time, so that no copy of all is made."""
        at, found = self.cut(rows), None
        for start in range(0, max(len(at), 1), _AT_ONCE):
            some = function(self.prepared(at[start : start + _AT_ONCE]))
            if found is None:
                shape = (len(at), *some.shape[1:])
                found = empty_on_disk(shape, some.dtype) if is_on_disk(self.raw) else np.empty(shape, some.dtype)
            found[start : start + len(some)] = some
        return np.empty(0) if found is None else found

    def prepared(self, at: Array) -> Array:
        """The rows at these places as models see them."""
        if "x" in self.__dict__ or self.rows <= _AT_ONCE:
            return self.x[at]
        return apply_recipe(self.recipe, self.raw[at], party=self.party)

    def part(self, rows: str) -> tuple[Array, Array | None]:
        """The prepared rows of a cut, and their labels if every one of them has one."""
        at = self.cut(rows)
        x = self.prepared(at) if is_on_disk(self.raw) else self.x[at]
        if self.y is None:
            return x, None
        y = self.y[at]
        unknown = np.isnan(y) if y.dtype.kind == "f" else y < 0
        return x, None if unknown.any() else y

    def cut(self, rows: str) -> Array:
        """The row positions of a cut, by its name."""
        if rows not in self.cuts:
            there = ", ".join(self.cuts) or "none yet: match the parties' ids first"
            raise ValueError(f"party {self.party!r} has no cut {rows!r}; it has {there}")
        return self.cuts[rows]

    def with_cut(self, rows: str, places: Array, *, dropping: Sequence[str] = ()) -> "Table":
        """The same table with one more cut, or another one of that name, and without the cuts that are dropped."""
        added = {rows: np.asarray(places, dtype=np.int64)}
        check_cuts(added, self.rows, self.party)
        if self._given is not None:
            _ = self.x  # Before copying, or each copy would prepare all rows again.
        same = copy(self)
        same.cuts = {name: cut for name, cut in self.cuts.items() if name not in dropping} | added
        return same

    def without(self, rows: str) -> "Table":
        """The table without the rows of a cut, which are gone from every other cut too; prepared in the same way."""
        kept = np.setdiff1d(np.arange(self.rows), self.cuts.get(rows, ()))
        places = np.full(self.rows, -1)
        places[kept] = np.arange(len(kept))
        moved = {name: places[cut] for name, cut in self.cuts.items() if name != rows}
        cuts = {name: cut[cut >= 0] for name, cut in moved.items()}
        ids, y = (None if one is None else one[kept] for one in (self.ids, self.y))
        parting = self.parting and self.parting._replace(values=self.parting.values[kept])
        return self.changed(raw=taken(self.raw, kept), ids=ids, y=y, cuts=cuts, recipe=self._given, parting=parting)

    def as_new(self, rows: str) -> "Table":
        """The rows of a cut alone, without labels and prepared in the same way: as if they had come after training."""
        at = self.cut(rows)
        return self.changed(raw=self.raw[at], ids=self.keys[at], y=None, cuts=None, recipe=self.recipe, parting=None)

    def take(self, order: Array, cuts: Mapping[str, Array]) -> "Table":
        """The rows at these positions, in this order, cut by positions among them; a new recipe is fitted on them."""
        ids, y = (None if one is None else one[order] for one in (self.ids, self.y))
        parting = self.parting and self.parting._replace(values=self.parting.values[order])
        return self.changed(raw=taken(self.raw, order), ids=ids, y=y, cuts=cuts, recipe=None, parting=parting)

    def changed(self, **changes: Any) -> "Table":
        """A table made anew from this one's arguments, some of them changed."""
        return Table(**self._arguments | changes)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SAME} | {"recipe": self._given}

    def to_plain(self) -> dict[str, Any]:
        """Everything as arrays, text, lists and dicts, to be written to a file and read back by `from_plain`."""
        structs = {"columns": self.columns, "task": self.task, "recipe": self._given}
        ids = self.ids.tolist() if self.ids is not None and self.ids.dtype.kind == "U" else self.ids
        parting = None if self.parting is None else [self.parting.values, self.parting.in_time]
        return (
            self._arguments
            | {"ids": ids, "parting": parting}
            | {name: msgspec.to_builtins(one) for name, one in structs.items()}
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Table":
        """The table that `to_plain` wrote."""
        kinds: dict[str, Any] = {"columns": tuple[Column, ...], "task": Task | None, "recipe": Recipe | None}
        read = {name: msgspec.convert(plain[name], kind) for name, kind in kinds.items()}
        same = {name: plain[name] for name in _SAME if name != "parting"}
        parting = plain.get("parting")
        return cls(**same | read | {"parting": None if parting is None else Parting(*parting)})

    @property
    def _training_rows(self) -> Array:
        if not self.cuts:
            return np.arange(self.rows)
        none = np.empty(0, dtype=np.int64)
        return np.concatenate([self.cuts.get("train", none), self.cuts.get("own", none)])


def rank_error(rows: int) -> float:
    """By what share of all rows a rank among so many drawn ones is off at most, but once in a million draws.

    Massart's bound on the distance between the distribution of a sample and that of all: The Tight Constant in the
    Dvoretzky-Kiefer-Wolfowitz Inequality (1990).
    """
    return float(np.sqrt(np.log(2e6) / (2 * rows)))


def comparable(raw: Array) -> Array:
    """Cells so that equal ones have equal bytes: one zero, one kind of missing."""
    if raw.dtype.kind != "f":
        return np.ascontiguousarray(raw)
    return np.where(np.isnan(raw), np.nan, raw.astype(np.float64) + 0.0)


def _as_cells(raw: Array) -> Array:
    keep = raw.dtype.kind == "f" or raw.ndim == 4
    return raw if keep else raw.astype(np.float64)


TOGETHER = ("train", "shared", "valid", "test")
"""Cuts in which row i is the same person at every party."""


def fingerprint(table: Table) -> str:
    """A digest of which rows are in the shared cuts, and in which order: equal at all parties that are aligned."""
    whole = blake2b(digest_size=16, person=b"laconic rows")
    keys = table.key_column
    for name in TOGETHER:
        if name in table.cuts:
            ids = keys.take(table.cuts[name])
            whole.update(f"{name} {len(ids)}\0".encode())
            whole.update(_with_lengths(ids))
    return whole.hexdigest()


def _with_lengths(ids: Any) -> bytes | memoryview:
    """All ids in one text, the length of each before it, so that no two lists give one text; without a loop."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = pc.utf8_length(ids)
    shortest, longest = pc.min_max(counts).values()
    # Ids of one length, as most are, need no column of lengths as text.
    lengths = counts.cast(pa.large_string()) if shortest != longest else longest.cast(pa.large_string())
    whole = pc.binary_join_element_wise(lengths, ids, pa.scalar(":", pa.large_string()))
    return joined(whole)


def joined(texts: Any) -> bytes | memoryview:
    """All texts of an Arrow column just made in one: Arrow keeps them one after the other, and where each ends."""
    _, ends, data = texts.buffers()
    return memoryview(data)[: np.frombuffer(ends, np.int64)[len(texts)]] if len(texts) else b""


def digest(table: Table, rows: str | None = None) -> str:
    """A digest of everything a table holds; never leaves the party. `rows` is its fingerprint, if that is known."""
    whole = blake2b(digest_size=16, person=b"laconic table")
    names = "\0".join(f"{column.name}\0{column.kind}\0{column.levels}" for column in table.columns)
    whole.update(f"{table.raw.shape} {names} {rows or fingerprint(table)}".encode())
    for cells in (table.raw, table.y, *(table.cuts[name] for name in sorted(table.cuts))):
        if cells is not None:
            for start in range(0, len(cells), _AT_ONCE):  # Cells on disk are copied to be read by row.
                some = np.ascontiguousarray(cells[start : start + _AT_ONCE])
                whole.update(some.reshape(-1).view(np.uint8).data)
    return whole.hexdigest()
