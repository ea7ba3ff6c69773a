"""A federation from one DataFrame a party, all with the same columns and labels of their own."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from laconic.data.federation import Federation
from laconic.data.labels import read_labels, refuse_unique
from laconic.data.partition.columns import sides_with_classes
from laconic.data.readers.columns import delimiter_of, look_at
from laconic.data.readers.frames import Kinds, check_frame, check_named, plain_name, with_text_names
from laconic.data.readers.ids import plain_text
from laconic.data.schema import ColumnKind, code_levels
from laconic.data.schema_agreement import (
    agree_columns,
    agree_names,
    agree_task,
    common_kinds,
    read_settled,
    recode_labels,
    told_columns,
)
from laconic.errors import DataError
from laconic.tables.columns import Column, Recipe, fit_recipe
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame


_WHOLE = 1 << 64
_TRIES = 200


def hold_out(
    frames: Mapping[str, "DataFrame"],
    id: str | None,  # noqa: A002
    *,
    test: float,
    valid: float,
    seed: int,
    notes: list[str] | None = None,
    classes: Mapping[str, Array] | None = None,
) -> dict[str, dict[str, Array]]:
    """Each party's rows as cuts "train", "valid" and "test", positions in rising order.

    Without ids, a share of each party's rows is drawn. With ids, who is held out follows from the id and the seed
    alone: nobody is learnt from at one party and scored on at another, although no party knows of the other's people.
    The shares are then kept on the average only.

    Args:
        frames: by party.
        id: the column that says who a row is about; None if there is none.
        test: share of the rows to score on.
        valid: share of the others to choose settings by.
        seed: all depends on it.
        notes: a note on rows without an id is added here.
        classes: each row's class, by party; rows are then parted so that, if it can be, there are two classes to learn
            from and, of two, both to score on. None where the label is a quantity.

    Raises:
        DataError: no row of a party has an id, or a party has none left to learn from.
    """
    if not (0 < test < 1 and 0 <= valid < 1):
        raise ValueError(f"test is a share above 0 and below 1, valid one from 0 and below 1, not {test} and {valid}")
    ids = None if id is None else {party: ids_of(party, frame, id, notes) for party, frame in frames.items()}
    rows = {party: len(frame) for party, frame in frames.items()}
    first = _part(rows, ids, test, valid, seed)
    for number in range(_TRIES):
        # With few rows of a class, chance may leave all of them on one side.
        chance = int(np.random.default_rng([seed, number]).integers(2**31)) if number else seed
        found = _part(rows, ids, test, valid, chance) if number else first
        if _problem(found, test) is None and (classes is None or _fits(found, classes)):
            return found
    problem = _problem(first, test)
    if problem is not None:
        raise DataError(problem)
    return first


def _part(
    rows: Mapping[str, int], ids: Mapping[str, list[str]] | None, test: float, valid: float, seed: int
) -> dict[str, dict[str, Array]]:
    found = {}
    chances = np.random.default_rng(seed).spawn(len(rows))
    for (party, count), rng in zip(rows.items(), chances, strict=True):
        place = rng.permutation(count) / count if ids is None else _places(ids[party], seed)
        # As many rows as their share, rounded: a place is that of the middle of its row.
        middle = place + (0.5 / count if ids is None else 0.0)
        tested, validated = middle < test, (middle >= test) & (middle < test + (1 - test) * valid)
        found[party] = {
            "train": np.flatnonzero(~tested & ~validated),
            "valid": np.flatnonzero(validated),
            "test": np.flatnonzero(tested),
        }
    return found


def _problem(found: Mapping[str, Mapping[str, Array]], test: float) -> str | None:
    """Why rows cannot be parted so; None if they can."""
    for party, cuts in found.items():
        if not len(cuts["train"]):
            return (
                f"party {party!r}: all of its {sum(map(len, cuts.values()))} rows are held out to score on, so that "
                "none is left to learn from; give it more rows, or leave it out"
            )
    if not any(len(cuts["test"]) for cuts in found.values()):
        return f"at test={test} no row of any party is held out to score on; raise it (data.test), or add rows"
    return None


def _fits(found: Mapping[str, Mapping[str, Array]], classes: Mapping[str, Array]) -> bool:
    """Whether there are two classes where they are needed."""
    there = {side: [classes[party][cuts[side]] for party, cuts in found.items()] for side in ("train", "test")}
    needed = sides_with_classes(np.concatenate(list(classes.values())))
    return all(len(np.unique(np.concatenate(there[side]))) > 1 for side in needed)


def count_at_several(frames: Mapping[str, "DataFrame"], id: str) -> int:  # noqa: A002
    """How many people, by their ids, are at more than one party."""
    people = [set(ids_of(party, frame, id)) for party, frame in frames.items()]
    seen: set[str] = set()
    again: set[str] = set()
    for some in people:
        again |= some & seen
        seen |= some
    return len(again)


def ids_of(party: str, frame: "DataFrame", id: str, notes: list[str] | None = None) -> list[str]:  # noqa: A002
    """A party's ids as text, without white space around it; a row without an id counts as a person of its own.

    Raises:
        DataError: no row has an id.
    """
    texts: list[str] = plain_text(frame[id]).tolist()
    if not any(texts):
        raise DataError(
            f"party {party!r}, id {id!r}: {len(texts)} of {len(texts)} rows have no id; fill the column in, or name "
            "another"
        )
    if "" in texts and notes is not None:
        notes.append(
            f"{party}, id {id!r}: {texts.count('')} of {len(texts)} rows have no id, the first is row "
            f"{texts.index('') + 1}; each counts as a person of its own"
        )
    return [text or f"\0{party}\0{row}" for row, text in enumerate(texts)]


def _places(ids: list[str], seed: int) -> Array:
    """A number from 0 to 1 for each id, the same wherever that id is."""
    digests = (blake2b(f"{seed}\0{one}".encode(), digest_size=8).digest() for one in ids)
    return np.array([int.from_bytes(one) / _WHOLE for one in digests])


PUBLIC = "public rows"
"""What the public rows are called where parties are."""


class PublicRows(NamedTuple):
    """Rows that everybody has, and what follows from them: the columns with their levels, and the recipe."""

    raw: Array
    columns: tuple[Column, ...]
    recipe: Recipe


class OwnRows(NamedTuple):
    """What one party brings: its rows, its labels as codes, what these mean, and the rows of each cut.

    Columns of numbers and dates are numbers already; `written` says how the party's file has them.
    """

    frame: "DataFrame"
    y: Array
    task: Task
    cuts: Mapping[str, Array]
    written: Mapping[str, str | msgspec.UnsetType]


def read_public(frame: "DataFrame", kinds: Mapping[str, ColumnKind]) -> PublicRows:
    """Public rows, and the recipe fitted on all of them."""
    every = np.arange(len(frame))
    raw, columns = _code(frame, every, kinds, None)
    return PublicRows(raw, columns, fit_recipe(raw, columns, every, party=PUBLIC))


def party_table(party: str, own: OwnRows, kinds: Mapping[str, ColumnKind], public: PublicRows | None) -> Table:
    """A party's training rows behind the public ones; its classes, and without public rows its levels, are its own."""
    rows = own.cuts["train"]
    raw, columns = _code(own.frame, rows, kinds, None if public is None else public.columns)
    columns = tuple(msgspec.structs.replace(one, written=own.written.get(one.name, msgspec.UNSET)) for one in columns)
    return _table(party, {"train": [_Piece(raw, own.y[rows], _names(party, rows))]}, columns, own.task, public)


def server_table(
    server: str,
    owns: Mapping[str, OwnRows],
    kinds: Mapping[str, ColumnKind],
    columns: tuple[Column, ...],
    task: Task,
    public: PublicRows | None,
) -> Table:
    """All parties' held-out rows behind the public ones, with columns and classes as agreed."""
    pieces: dict[str, list[_Piece]] = {}
    for cut in ("test", "valid"):
        for party, own in owns.items():
            rows = own.cuts[cut]
            if len(rows):
                raw, _ = _code(own.frame, rows, kinds, columns)
                y = recode_labels(own.y[rows], own.task, task, party)
                pieces.setdefault(cut, []).append(_Piece(raw, y, _names(party, rows)))
    return _table(server, pieces, tuple(_as_all_write(one, owns) for one in columns), task, public)


def _as_all_write(column: Column, owns: Mapping[str, OwnRows]) -> Column:
    """A column with how all parties write it; not known if they write it in several ways."""
    ways = {own.written.get(column.name, msgspec.UNSET) for own in owns.values()}
    return msgspec.structs.replace(column, written=ways.pop() if len(ways) == 1 else msgspec.UNSET)


class _Piece(NamedTuple):
    raw: Array
    y: Array
    names: list[str]


def _table(
    party: str,
    pieces: Mapping[str, list[_Piece]],
    columns: tuple[Column, ...],
    task: Task,
    public: PublicRows | None,
) -> Table:
    if public is not None:
        nobody = np.full(len(public.raw), np.nan if task.kind == "regression" else -1)
        pieces = {"public": [_Piece(public.raw, nobody, _names("public", np.arange(len(public.raw))))]} | dict(pieces)
    every = [piece for some in pieces.values() for piece in some]
    ends = np.cumsum([0, *(sum(len(piece.y) for piece in some) for some in pieces.values())])
    return Table(
        np.concatenate([piece.raw for piece in every]),
        columns,
        ids=[name for piece in every for name in piece.names],
        y=np.concatenate([piece.y for piece in every]),
        task=task,
        cuts={cut: np.arange(ends[at], ends[at + 1]) for at, cut in enumerate(pieces)},
        party=party,
        # Without public rows there is no way to prepare columns before parties agree on one.
        recipe=Recipe(columns=columns) if public is None else public.recipe,
    )


def _code(
    frame: "DataFrame", rows: Array, kinds: Mapping[str, ColumnKind], known: tuple[Column, ...] | None
) -> tuple[Array, tuple[Column, ...]]:
    """Raw cells of some rows, and what the columns are.

    Text is coded by the levels of known columns, or by those found in these rows if there are none.
    """
    levels = {} if known is None else {column.name: column.levels for column in known}
    cells = np.empty((len(rows), len(kinds)))
    columns = []
    for at, (name, kind) in enumerate(kinds.items()):
        if kind == "categorical":
            cells[:, at], found = code_levels(frame[name].iloc[rows], levels.get(name))
            columns.append(Column(name, "categorical", found))
        else:
            cells[:, at] = frame[name].to_numpy()[rows]
            columns.append(Column(name))
    return cells, tuple(columns)


def _names(party: str, rows: Array) -> list[str]:
    """What rows are called: a party's rows are known by their place, counted from 1 as in its file."""
    return [f"{party}:{row + 1}" for row in rows.tolist()]


SERVER = "server"
"""What the hub is called, which has no rows of its own to learn from."""


def rows_from_frames(
    frames: Mapping[str, "DataFrame"],
    *,
    label: str,
    id: str | None = None,  # noqa: A002 the word every reader of a table looks for
    public: "DataFrame | None" = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    test: float = 0.2,
    valid: float = 0.0,
    seed: int = 0,
    name: str = "frames",
) -> Federation:
    """Take each party's DataFrame as its rows: other people with the same columns, each with a label.

    Columns are matched by name, in whatever order. Kinds are told as by `from_frames`, and must be the same everywhere.
    Of each party's rows a share is held out: for scores only, these are at the hub, a party of its own called "server",
    as `deal_rows` has them. All others are the party's cut "train". Before anything is learnt, parties agree on classes
    and on how columns are prepared (`SameColumns`): by the public rows, or without any by sums of their columns.

    Args:
        frames: by party, in the order parties will be named.
        label: the label column, which every party must have.
        id: a column that says who a row is about; it is not learnt from, and one person's rows are held out together,
            at all parties. None if there is none; rows then count as different people.
        public: rows of the same columns that everybody may see, whose labels, if they have any, are not looked at.
        kinds: by column name.
        task: what the label is; its classes, if named, are in the order of their codes. None to infer it.
        test: share of each party's rows to score on.
        valid: share of the others that the hub keeps, to choose settings by.
        seed: which rows are held out depends on it.
        name: of the data, for reports.

    Raises:
        TypeError: `frames` does not say whose each DataFrame is.
        DataError: the frames cannot be used together; says whose, which column, and what to do.
    """
    check_named(frames)
    every = {party: with_text_names(frame) for party, frame in frames.items()}
    label, id = plain_name(label), None if id is None else plain_name(id)  # noqa: A001
    _check_frames(every, label, id)
    names = agree_names({party: _features(frame, label, id) for party, frame in every.items()})
    shown = None if public is None else _check_public(with_text_names(public), names)
    notes: list[str] = []
    whole = every if shown is None else every | {PUBLIC: shown}
    looks = {party: {name: look_at(frame[name]) for name in names} for party, frame in whole.items()}
    told = common_kinds(looks, names, kinds or {}, notes)
    read = {party: read_settled(party, frame, looks[party], told, kinds or {}, notes) for party, frame in whole.items()}
    shown = None if shown is None else read[PUBLIC].frame
    labels = {
        party: read_labels(frame[label], task, party, notes, delimiter_of(frame)) for party, frame in every.items()
    }
    agreed = _agreed_task({party: own for party, (_, own) in labels.items()}, task, notes)
    cuts = hold_out(every, id, test=test, valid=valid, seed=seed, notes=notes, classes=_classes(labels, agreed))
    owns = {party: OwnRows(read[party].frame, *labels[party], cuts[party], read[party].written) for party in every}
    refuse_unique(np.concatenate([own.y for own in owns.values()]), agreed, ", ".join(every))
    opened = None if shown is None else read_public(shown, told)
    facts: dict[str, object] = {
        "source": name,
        "seed": seed,
        "rows": _counts(owns, opened),
        "own": {party: len(own.cuts["train"]) for party, own in owns.items()},
        "kinds": told,
    } | ({} if id is None else {"at_several": count_at_several(every, id)})
    tables = _tables(owns, told, agreed, opened, notes)
    facts |= {"notes": notes} if notes else {}
    return Federation(name=name, tables=tables, hub=SERVER, aligned=False, kind="horizontal", facts=facts)


def _classes(labels: Mapping[str, tuple[Array, Task]], agreed: Task) -> dict[str, Array] | None:
    """Each row's class as all parties code it; None for a quantity."""
    if agreed.kind == "regression":
        return None
    return {party: recode_labels(y, own, agreed, party) for party, (y, own) in labels.items()}


def _tables(
    owns: Mapping[str, OwnRows],
    kinds: Mapping[str, ColumnKind],
    task: Task,
    public: PublicRows | None,
    notes: list[str],
) -> dict[str, Table]:
    """Every party's table, as its own file alone makes it, and the server's."""
    tables = {party: party_table(party, own, kinds, public) for party, own in owns.items()}
    if public is None:
        # Parties agree on this before a run; what they will say is needed here to code the held-out rows alike.
        columns = agree_columns({party: told_columns(table) for party, table in tables.items()}, notes)
    else:
        columns = public.columns
    return {SERVER: server_table(SERVER, owns, kinds, columns, task, public)} | tables


def _check_frames(frames: Mapping[str, "DataFrame"], label: str, id_name: str | None) -> None:
    if not frames:
        raise DataError("there is no party; give a DataFrame for each")
    if SERVER in frames:
        raise DataError(f"a party cannot be called {SERVER!r}, as the hub is; rename it")
    if label == id_name:
        raise DataError(f"the column {label!r} is both id and label; a row's id cannot be predicted")
    for party, frame in frames.items():
        check_frame(party, frame)
        for role, name in (("label", label), ("id", id_name)):
            if name is not None and name not in frame.columns:
                raise DataError(
                    f"party {party!r} has no {role} column {name!r}; its columns are "
                    f"{', '.join(frame.columns[:20]) or 'none'}; every party needs it, so rename or add it"
                )


def _features(frame: "DataFrame", label: str, id_name: str | None) -> list[str]:
    return [name for name in frame.columns if name not in (label, id_name)]


def _check_public(frame: "DataFrame", names: tuple[str, ...]) -> "DataFrame":
    """The public rows with the parties' columns alone."""
    check_frame(PUBLIC, frame)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DataError(
            f"the public rows have no column {missing[0]!r}, which the parties have ({len(missing)} such columns; they "
            f"have {', '.join(frame.columns[:20])}); add it, or leave it out at all parties"
        )
    return frame[list(names)]


def _agreed_task(own: Mapping[str, Task], said: Task | None, notes: list[str]) -> Task:
    agreed = agree_task(own, notes)
    if said is not None and said.kind != agreed.kind:
        raise DataError(
            f"label {agreed.label!r}: the task is {said.kind} but all parties together have {len(agreed.classes)} "
            f"classes ({', '.join(agreed.classes[:5])}); leave the task out, or correct the labels"
        )
    return agreed


def _counts(owns: Mapping[str, OwnRows], public: PublicRows | None) -> dict[str, int]:
    total = {cut: sum(len(own.cuts[cut]) for own in owns.values()) for cut in ("train", "test", "valid")}
    shown = {} if public is None else {"public": len(public.raw)}
    return {"train": total["train"]} | shown | {cut: total[cut] for cut in ("test", "valid") if total[cut]}
