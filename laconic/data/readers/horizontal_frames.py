"""A federation from one DataFrame per party, all with the same columns and labels of their own."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from laconic.data.federation import HELD_OUT, Federation
from laconic.data.labels import read_labels, refuse_unique
from laconic.data.partition.columns import seeds_to_try, sides_with_classes
from laconic.data.partition.rows import PartBy, part_by, read_parting, split_by_column
from laconic.data.readers.aloud import FileReading, reading_of
from laconic.data.readers.cells import plain_name
from laconic.data.readers.columns import delimiter_of, look_at, read_columns
from laconic.data.readers.frames import (
    AnyTable,
    Kinds,
    as_frame,
    check_kinds,
    named_frames,
    refuse_others_column,
    refuse_same,
    with_text_names,
)
from laconic.data.readers.ids import plain_text
from laconic.data.readers.source_table import check_frame
from laconic.data.schema import ColumnKind
from laconic.data.schema_agreement import (
    agree_columns,
    agree_names,
    agree_task,
    common_kinds,
    recode_cells,
    recode_labels,
    released_columns,
)
from laconic.errors import DataError
from laconic.tables.columns import Column, Recipe, fit_recipe
from laconic.tables.table import Table, check_events
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame

PUBLIC = "public rows"
"""What the public rows are called in errors and notes, where others are called by their party."""

SERVER = "server"
"""What the hub is called, which has no rows of its own to learn from."""


def rows_from_frames(
    frames: Mapping[str, AnyTable],
    *,
    label: str,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 the word every reader of a table looks for
    public: "AnyTable | None" = None,
    kinds: Kinds | None = None,
    task: Task | None = None,
    test: float = HELD_OUT,
    valid: float = 0.0,
    seed: int = 0,
    name: str = "frames",
    split_by: str | None = None,
    group: str | None = None,
) -> Federation:
    """Take each party's DataFrame as its rows: other people with the same columns, each with a label.

    Columns are matched by name, in whatever order. Kinds are found as by `from_frames`, and must be the same
    everywhere. Of each party's rows a share is held out: for scores only, these are at the hub, a party of its own
    called "server", as `deal_rows` has them. All others are the party's cut "train". Before anything is learnt, parties
    agree on classes and on how columns are prepared (`SameColumns`): by the public rows, or without any by sums of
    their columns.

    Args:
        frames: by party, in the order parties will be named.
        label: the label column, which every party must have.
        event: where the label is the time to an event, the column that says whether it came; every party must have it.
        id: a column that says who a row is about; it is not learnt from, and one person's rows are held out together,
            at all parties. None if there is none; rows then count as different people.
        public: rows of the same columns that everybody may see, whose labels, if they have any, are not looked at.
        kinds: by column name.
        task: what the label is; its classes, if named, are in the order of their codes. None to infer it.
        test: share of each party's rows to score on.
        valid: share of the others that the hub keeps, to choose settings by.
        seed: which rows are held out depends on it.
        name: of the data, for reports.
        split_by: a column of dates or numbers, which every party must have: each party's last rows by it are scored on.
            None for at random.
        group: a column that every party must have: rows of one value are held out together, at all parties, in place of
            rows of one id; it is not learnt from. None for at random.
    """
    by = part_by(*(None if one is None else plain_name(one) for one in (split_by, group)))
    frames = named_frames(frames)
    label, id = plain_name(label), None if id is None else plain_name(id)  # noqa: A001
    event = None if event is None else plain_name(event)
    _check_frames(frames, label, event, id)
    for party, frame in frames.items() if by is not None else ():
        refuse_others_column(by, party, {party: list(frame.columns)}, (id or "", label, event or ""))
    grouped = None if by is None or by.in_time else by.column
    names = agree_names(
        {party: [n for n in map(str, frame) if n not in (label, event, id, grouped)] for party, frame in frames.items()}
    )
    check_kinds(kinds or {}, names)
    notes: list[str] = []
    shown = {} if public is None else {PUBLIC: _check_public(with_text_names(as_frame(public, PUBLIC)), names)}
    agreed, read, readings = _read_together(frames | shown, names, kinds or {}, notes, label, id)
    opened = read_public(*read.pop(PUBLIC)) if shown else None
    labels = {
        party: read_labels(
            frame[label], task, party, notes, delimiter_of(frame), None if event is None else frame[event]
        )
        for party, frame in frames.items()
    }
    common = _agreed_task({party: own for party, (_, own) in labels.items()}, task, notes)
    codes = {party: recode_labels(y, own, common, party) for party, (y, own) in labels.items()}
    refuse_unique(np.concatenate(list(codes.values())), common, ", ".join(frames))
    strata = {party: common.strata(y) for party, y in codes.items()}
    classes = {party: found for party, found in strata.items() if found is not None} or None
    cuts = hold_out(frames, id, test=test, valid=valid, seed=seed, notes=notes, classes=classes, by=by)
    tables = {party: _party_table(party, own, *labels[party], cuts[party], opened) for party, own in read.items()}
    # Parties agree on this before a run; what they will say is needed here to code the held-out rows in that way.
    columns = opened.columns if opened else agree_columns({n: released_columns(t) for n, t in tables.items()}, notes)
    tables = {SERVER: _server_table(read, columns, codes, common, cuts, opened)} | tables
    facts: dict[str, object] = {
        "source": name,
        "seed": seed,
        "rows": _counts(cuts, opened),
        "own": {party: len(own["train"]) for party, own in cuts.items()},
        "kinds": agreed,
    }
    facts |= {} if id is None else {"at_several": _count_at_several(frames, id)}
    facts |= {"notes": notes} if notes else {}
    return Federation(
        name=name,
        tables=tables,
        hub=SERVER,
        aligned=False,
        kind="horizontal",
        facts=facts,
        id=id or "",
        readings=readings,
    )


def _check_frames(frames: Mapping[str, "DataFrame"], label: str, event: str | None, id_name: str | None) -> None:
    if not frames:
        raise DataError("there is no party; give a DataFrame for each")
    if SERVER in frames:
        raise DataError(f"a party cannot be called {SERVER!r}, as the hub is; rename it")
    refuse_same(id_name, label, event)
    for party, frame in frames.items():
        check_frame(party, frame)
        for role, name in (("label", label), ("event", event), ("id", id_name)):
            if name is not None and name not in frame.columns:
                raise DataError(
                    f"party {party!r} has no {role} column {name!r}; its columns are "
                    f"{', '.join(frame.columns[:20]) or 'none'}; every party needs it, so rename or add it"
                )


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


def _read_together(
    frames: Mapping[str, "DataFrame"],
    names: Sequence[str],
    said: Kinds,
    notes: list[str],
    label: str,
    id_name: str | None,
) -> tuple[dict[str, ColumnKind], dict[str, "_Read"], dict[str, FileReading]]:
    """What each column is at all parties, every party's rows read so, and what was found in each file."""
    looks = {party: {name: look_at(frame[name]) for name in names} for party, frame in frames.items()}
    kinds = common_kinds(looks, names, said, notes)
    read = {
        party: _Read(*read_columns(party, looks[party], kinds, said=said, frame=frame, notes=notes))
        for party, frame in frames.items()
    }
    ids = () if id_name is None else (id_name,)
    readings = {}
    for party, frame in frames.items():
        own_label = label if label in frame.columns else None
        own_ids = [name for name in ids if name in frame.columns]
        readings[party] = reading_of(frame, looks[party], *read[party], ids=own_ids, label=own_label, own_kinds=kinds)
    return kinds, read, readings


def _agreed_task(own: Mapping[str, Task], said: Task | None, notes: list[str]) -> Task:
    agreed = agree_task(own, notes)
    if said is not None and said.kind != agreed.kind:
        raise DataError(
            f"label {agreed.label!r}: the task is {said.kind} but all parties together have {len(agreed.classes)} "
            f"classes ({', '.join(agreed.classes[:5])}); leave the task out, or correct the labels"
        )
    return agreed


class _Read(NamedTuple):
    """The columns of a party's file and all its rows."""

    columns: list[Column]
    raw: Array


class PublicRows(NamedTuple):
    """Rows that everybody has, and what follows from them: the columns with their levels, and the recipe."""

    columns: tuple[Column, ...]
    raw: Array
    recipe: Recipe


class Piece(NamedTuple):
    """Some rows of one party: cells, labels, and names by their place in its file, counted from 1."""

    raw: Array
    y: Array
    names: list[str]


def read_public(columns: Sequence[Column], raw: Array) -> PublicRows:
    """Public rows, and the recipe fitted on all of them."""
    columns = tuple(msgspec.structs.replace(column, written=msgspec.UNSET) for column in columns)
    return PublicRows(columns, raw, fit_recipe(raw, columns, np.arange(len(raw)), party=PUBLIC))


def _party_table(
    party: str, own: _Read, y: Array, task: Task, cuts: Mapping[str, Array], public: PublicRows | None
) -> Table:
    """A party's training rows behind the public ones; its classes, and without public rows its levels, are its own."""
    rows = cuts["train"]
    raw = own.raw[rows]
    known = [_with_levels_of(column, raw[:, at]) for at, column in enumerate(own.columns)]
    chosen = known if public is None else public.columns
    columns = tuple(_as_all_write(column, {party: own}) for column in chosen)
    piece = Piece(recode_cells(raw, own.columns, columns), y[rows], row_names(party, rows))
    return stack_pieces(party, {"train": [piece]}, columns, task, public)


def _with_levels_of(column: Column, cells: Array) -> Column:
    """The column with those of its levels that occur in these cells."""
    codes = np.unique(cells[~np.isnan(cells)]).astype(np.int64) if column.kind == "categorical" else ()
    return msgspec.structs.replace(column, levels=tuple(column.levels[code] for code in codes))


def _server_table(
    read: Mapping[str, _Read],
    columns: tuple[Column, ...],
    y: Mapping[str, Array],
    task: Task,
    cuts: Mapping[str, Mapping[str, Array]],
    public: PublicRows | None,
) -> Table:
    """All parties' held-out rows behind the public ones, with columns and classes as agreed."""
    pieces: dict[str, list[Piece]] = {}
    for cut in ("test", "valid"):
        for party, own in read.items():
            rows = cuts[party][cut]
            if len(rows):
                raw = recode_cells(own.raw[rows], own.columns, columns)
                pieces.setdefault(cut, []).append(Piece(raw, y[party][rows], row_names(party, rows)))
    return stack_pieces(SERVER, pieces, tuple(_as_all_write(column, read) for column in columns), task, public)


def _as_all_write(column: Column, read: Mapping[str, _Read]) -> Column:
    """A column with how all parties write it; not known if they write it in several ways."""
    ways = {one.written for own in read.values() for one in own.columns if one.name == column.name}
    return msgspec.structs.replace(column, written=ways.pop() if len(ways) == 1 else msgspec.UNSET)


def stack_pieces(
    party: str,
    pieces: Mapping[str, list[Piece]],
    columns: tuple[Column, ...],
    task: Task,
    public: PublicRows | None,
) -> Table:
    """A party's table of some rows per cut, behind the public ones if there are any."""
    if public is not None and len(public.raw):
        rows = np.arange(len(public.raw))
        unlabelled = np.full(len(rows), -1 if task.of_classes else np.nan)
        pieces = {"public": [Piece(public.raw, unlabelled, row_names("public", rows))]} | dict(pieces)
    if task.kind == "survival" and "train" in pieces:
        own = np.concatenate([piece.y for some in pieces.values() for piece in some])
        check_events(np.concatenate([piece.y for piece in pieces["train"]]), task, own, party)
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


def row_names(party: str, rows: Array) -> list[str]:
    """Names of rows by their place in a party's file, counted from 1."""
    return [f"{party}:{row + 1}" for row in rows.tolist()]


def _counts(cuts: Mapping[str, Mapping[str, Array]], public: PublicRows | None) -> dict[str, int]:
    total = {cut: sum(len(own[cut]) for own in cuts.values()) for cut in ("train", "test", "valid")}
    shown = {} if public is None else {"public": len(public.raw)}
    return {"train": total["train"]} | shown | {cut: total[cut] for cut in ("test", "valid") if total[cut]}


def hold_out(
    frames: Mapping[str, "DataFrame"],
    id: str | None,  # noqa: A002
    *,
    test: float,
    valid: float,
    seed: int,
    notes: list[str],
    classes: Mapping[str, Array] | None = None,
    by: PartBy | None = None,
) -> dict[str, dict[str, Array]]:
    """Each party's rows as cuts "train", "valid" and "test", positions in rising order.

    Without ids, a share of each party's rows is drawn. With ids, who is held out follows from the id and the seed
    alone: nobody is learnt from at one party and scored on at another, although no party knows of the other's people.
    The shares are then kept on the average only.

    Args:
        id, test, valid, seed: as for `rows_from_frames`.
        notes: a note on rows without an id is added here.
        classes: each row's class, by party; rows are then parted so that, if it can be, there are two classes to learn
            from and, of two, both to score on. None where the label is a quantity.
        by: the column by which rows are parted: in time at each party by itself; by groups as by ids.
    """
    if not (0 < test < 1 and 0 <= valid < 1):
        raise ValueError(f"test is a share above 0 and below 1, valid one from 0 and below 1, not {test} and {valid}")
    if by is not None and by.in_time:
        return {party: _last_in_time(party, frame, by, test, valid, notes) for party, frame in frames.items()}
    if by is not None:
        _refuse_few_groups(frames, by)
        id = by.column  # noqa: A001
    ids = None if id is None else {party: _ids_of(party, frame, id, notes) for party, frame in frames.items()}
    rows = {party: len(frame) for party, frame in frames.items()}
    for tried in seeds_to_try(seed):
        found = _part(rows, ids, test, valid, tried)
        if _problem(found, test) is None and (classes is None or _fits(found, classes)):
            return found
    first = _part(rows, ids, test, valid, seed)
    problem = _problem(first, test)
    if problem is not None:
        raise DataError(problem)
    return first


def hold_out_alone(
    party: str,
    frame: "DataFrame",
    id: str | None,  # noqa: A002
    *,
    test: float,
    seed: int,
    notes: list[str],
    classes: Array | None = None,
    by: PartBy | None = None,
) -> dict[str, Array]:
    """The rows of one party as cuts "train" and "test", as `hold_out` does, without looking at any other party.

    Who is held out by an id follows from the id and the seed, as everywhere. A party with few rows may hold out none.
    """
    if by is not None and by.in_time:
        found = _last_in_time(party, frame, by, test, 0.0, notes)
        return {"train": found["train"], "test": found["test"]}
    named = id if by is None else by.column
    ids = None if named is None else {party: _ids_of(party, frame, named, notes)}
    first: dict[str, Array] | None = None
    for tried in seeds_to_try(seed) if ids is None else [seed]:
        parted = _part({party: len(frame)}, ids, test, 0.0, tried)
        own = {cut: parted[party][cut] for cut in ("train", "test")}
        if not len(own["train"]):
            continue
        first = first or own
        if classes is None or _fits(parted, {party: classes}):
            return own
    if first is None:
        raise DataError(_problem(_part({party: len(frame)}, ids, test, 0.0, seed), test))
    return first


def _last_in_time(
    party: str, frame: "DataFrame", by: PartBy, test: float, valid: float, notes: list[str]
) -> dict[str, Array]:
    """A party's rows parted by its own times."""
    parting = read_parting(party, frame, by, notes)
    cuts = split_by_column(parting, 0, test=test, valid=valid or test, party=party)
    return cuts if valid else cuts | {"train": np.sort(np.concatenate([cuts["train"], cuts["valid"]])), "valid": _NONE}


_NONE = np.empty(0, dtype=np.int64)


def _refuse_few_groups(frames: Mapping[str, "DataFrame"], by: PartBy) -> None:
    """Refuse to hold out whole groups where there are too few, or the column is not there."""
    for party, frame in frames.items():
        read_parting(party, frame, by, [])
    groups = {one for frame in frames.values() for one in plain_text(frame[by.column]).tolist()}
    if len(groups) < 3:
        raise DataError(
            f"three different groups are needed to learn from some and to score on others, and the column "
            f"{by.column!r} has {len(groups)} at all parties together; leave --group out"
        )


def _part(
    rows: Mapping[str, int], ids: Mapping[str, list[str]] | None, test: float, valid: float, seed: int
) -> dict[str, dict[str, Array]]:
    found = {}
    for (party, count), rng in zip(rows.items(), np.random.default_rng(seed).spawn(len(rows)), strict=True):
        place = rng.permutation(count) / count if ids is None else _places(ids[party], seed)
        # As many rows as their share, rounded: a place is that of the middle of its row.
        middle = place + (0.5 / count if ids is None else 0.0)
        tested, validated = middle < test, (middle >= test) & (middle < test + (1 - test) * valid)
        cuts = {"train": ~tested & ~validated, "valid": validated, "test": tested}
        found[party] = {cut: np.flatnonzero(there) for cut, there in cuts.items()}
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


def _count_at_several(frames: Mapping[str, "DataFrame"], id_name: str) -> int:
    """How many people, by their ids, are at more than one party."""
    holders = Counter(one for party, frame in frames.items() for one in set(_ids_of(party, frame, id_name, [])))
    return sum(count > 1 for count in holders.values())


def _ids_of(party: str, frame: "DataFrame", id_name: str, notes: list[str]) -> list[str]:
    """A party's ids as text, without white space around it; a row without an id counts as a person of its own."""
    texts: list[str] = plain_text(frame[id_name]).tolist()
    if not any(texts):
        raise DataError(f"party {party!r}, id {id_name!r}: no row has an id; fill the column in, or name another")
    if "" in texts:
        notes.append(
            f"{party}, id {id_name!r}: {texts.count('')} of {len(texts)} rows have no id, the first is row "
            f"{texts.index('') + 1}; each counts as a person of its own"
        )
    return [text or f"\0{party}\0{row}" for row, text in enumerate(texts)]


def _places(ids: list[str], seed: int) -> Array:
    """A number from 0 to 1 for each id, the same wherever that id is."""
    digests = (blake2b(f"{seed}\0{one}".encode(), digest_size=8).digest() for one in ids)
    return np.array([int.from_bytes(one) / 2**64 for one in digests])
