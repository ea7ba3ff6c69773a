"""A federation from one DataFrame a party, all with the same columns and labels of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from laconic.core.errors import DataError
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.data.column_sums import told_columns
from laconic.data.federation import Federation
from laconic.data.frames import Kinds, check_frame, check_kinds, check_named
from laconic.data.holding_out import count_at_several, hold_out
from laconic.data.kinds import tell_kind
from laconic.data.labels import read_labels
from laconic.data.own_data import ColumnKind
from laconic.data.row_tables import PUBLIC, OwnRows, PublicRows, party_table, read_public, server_table
from laconic.data.same_columns import agree_columns, agree_names, agree_task, refuse_other_kinds

if TYPE_CHECKING:
    from pandas import DataFrame

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
    every = {party: _with_text_names(frame) for party, frame in frames.items()}
    _check_frames(every, label, id)
    names = agree_names({party: _features(frame, label, id) for party, frame in every.items()})
    shown = None if public is None else _check_public(_with_text_names(public), names)
    told = _common_kinds(every if shown is None else every | {PUBLIC: shown}, names, kinds or {})
    cuts = hold_out(every, id, test=test, valid=valid, seed=seed)
    owns = {
        party: OwnRows(frame, *read_labels(frame[label], task, party), cuts[party]) for party, frame in every.items()
    }
    agreed = _agreed_task({party: own.task for party, own in owns.items()}, task)
    opened = None if shown is None else read_public(shown, told)
    facts: dict[str, object] = {
        "source": name,
        "seed": seed,
        "rows": _counts(owns, opened),
        "own": {party: len(own.cuts["train"]) for party, own in owns.items()},
        "kinds": told,
    } | ({} if id is None else {"at_several": count_at_several(every, id)})
    tables = _tables(owns, told, agreed, opened)
    return Federation(name=name, tables=tables, hub=SERVER, aligned=False, kind="horizontal", facts=facts)


def _tables(
    owns: Mapping[str, OwnRows], kinds: Mapping[str, ColumnKind], task: Task, public: PublicRows | None
) -> dict[str, Table]:
    """Every party's table, as its own file alone makes it, and the server's."""
    tables = {party: party_table(party, own, kinds, public) for party, own in owns.items()}
    if public is None:
        # Parties agree on this before a run; what they will say is needed here to code the held-out rows alike.
        columns = agree_columns({party: told_columns(table) for party, table in tables.items()})
    else:
        columns = public.columns
    return {SERVER: server_table(SERVER, owns, kinds, columns, task, public)} | tables


def _with_text_names(frame: "DataFrame") -> "DataFrame":
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


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


def _common_kinds(frames: Mapping[str, "DataFrame"], names: tuple[str, ...], kinds: Kinds) -> dict[str, ColumnKind]:
    """What each column is, which must be the same at all parties where any of its cells is known."""
    check_kinds(kinds, {party: frame[list(names)] for party, frame in frames.items()})
    found: dict[str, ColumnKind] = {}
    for name in names:
        if name in kinds:
            found[name] = kinds[name]
            continue
        there = {party: frame[name] for party, frame in frames.items() if frame[name].notna().any()}
        told = {party: tell_kind(series, party) for party, series in there.items()}
        refuse_other_kinds(name, told)
        found[name] = next(iter(told.values()), "numeric")
    return found


def _agreed_task(own: Mapping[str, Task], said: Task | None) -> Task:
    agreed = agree_task(own)
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
