"""Parties join, add rows, take rows back and leave a model that keeps apart what each of them added.

Such a model (`Mergeable`, for example `Analytic`) is a server's, which asks nobody when it predicts. Only the party
concerned is asked anything; the server fits anew, and every other folder of the model at hand gets the new model.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laconic.atomic_files import note_written, unbroken
from laconic.core.capabilities import ERASED, Erasable, Growable, Mergeable
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.traffic import WireLog
from laconic.core.wire import encode
from laconic.data.schema import OwnData
from laconic.deploy.homecoming import final_model
from laconic.deploy.transports.inprocess import open_calls
from laconic.errors import DataError, StepError
from laconic.inference.absent import Refit
from laconic.inference.bundle import About, Asked, Card, Part, load_part, save_part
from laconic.inference.bundle_files import HEAD, folder_name, model_folders, read_digests
from laconic.inference.local_transport import reach_parts, read_new, read_new_labels
from laconic.inference.predict import Model, hub_folder
from laconic.inference.save import home_part, make_card, refuse_worse
from laconic.tables.columns import Recipe
from laconic.tables.table import Table
from laconic.threads import limit_threads

STAYS = (
    "how columns are prepared (levels, means and spreads) was agreed with everybody and stays; whoever took the model "
    "home before has the old one until it gets the new one"
)


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What was added, and what crossed for it.

    Attributes:
        people: about how many people new answers came, by party.
        bytes: what crossed, both ways, by party.
        whole: what would have crossed if all that the hub now keeps had been sent again, by party.
    """

    people: dict[str, int]
    bytes: dict[str, int]
    whole: dict[str, int]


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The server's part after somebody was merged in or rows were taken back, to be saved; and what crossed for it."""

    part: Part
    difference: Difference


def members_of(part: Part, method: Method) -> dict[str, int]:
    """Who is in the model, and with how many rows; nobody if the method keeps nothing apart."""
    return method.members(_hub(part)) if isinstance(method, Mergeable) else {}


def read_labelled(about: About, path: Path, notes: list[str]) -> Table:
    """A party's new rows with their labels, all of them training rows, read as the model reads rows."""
    if about.recipe is None:
        raise DataError(
            f"the part of {about.party} does not say how columns are prepared; use the folder of a party that has rows"
        )
    table = read_new(about, path, notes)
    labels = read_new_labels(about, path, table)
    if labels is None:
        label = "the label" if about.task is None else repr(about.task.label)
        raise DataError(f"{path} has no column {label}; rows are added and erased with their labels")
    return Table(
        table.raw,
        table.columns,
        ids=table.ids,
        y=labels,
        task=about.task,
        cuts={"train": np.arange(table.rows)},
        party=about.party,
        recipe=about.recipe,
    )


def merge_party(
    part: Part, method: Method, name: str, rows: Table, *, data: OwnData | None, seed: int = 0
) -> tuple[Merged, Part]:
    """Let one more party add its rows; one that left before comes back, and its ledger goes on.

    Returns:
        The server's part, and the party's own with the new model.
    """
    if name in members_of(part, method) or name == part.about.party:
        raise DataError(f"{name} is in the model already; add more rows of it with: --files {name}-MORE.csv")
    if name in parts_around(part):
        return merge_rows(part, method, {name: rows}), parts_around(part)[name]
    home = final_model(method, _hub(part)) or {}
    party = Party(name, rows, seed, dict(home))
    with open_calls((party,)) as carrier:
        merged = _changed(part, method, carrier, {name: rows.rows}, _merging(method))
    about = msgspec.structs.replace(part.about, party=name, seed=seed, data=data, hub=part.about.party)
    joined = home_part(about, final_model(method, _hub(merged.part)) or {}, Ledger(party.ledger.entries), {})
    return merged, joined


def merge_rows(part: Part, method: Method, tables: Mapping[str, Table]) -> Merged:
    """Let parties that have a folder add rows to what they added before."""
    with _reached(part, tables) as carrier:
        return _changed(part, method, carrier, {name: rows.rows for name, rows in tables.items()}, _merging(method))


def erase_rows(part: Part, method: Method, name: str, rows: Table) -> Merged:
    """Take rows of one party out of the model, which is then as if they had never been there, but for rounding."""
    if not isinstance(method, Erasable):
        raise DataError(f"{type(method).__name__} cannot take single rows out of a model; train it again without them")
    if name not in members_of(part, method):
        raise DataError(f"{name!r} is not in this model; it has {', '.join(members_of(part, method)) or 'nobody'}")
    taken = rows.with_cut(ERASED, rows.cut("train"), dropping=("train",))
    with _reached(part, {name: taken}) as carrier:
        return _changed(part, method, carrier, {name: rows.rows}, method.erase)


def leave_model(part: Part, method: Method, name: str) -> tuple[Part, int]:
    """The server's part without a party, and with how many rows it was in; nobody is asked."""
    there = members_of(part, method)
    if name not in there or not isinstance(method, Mergeable):
        raise DataError(f"{name!r} is no party of this model; it has {', '.join(there) or 'none'}")
    if len(there) == 1:
        raise DataError(f"without {name} nothing is left to predict from; delete the model instead")
    hub = _hub(part)
    try:
        method.take_out(hub, name)
    except ValueError as problem:
        raise DataError(str(problem)) from problem
    return replace(part, memory=hub.memory), there[name]


def parts_around(part: Part) -> dict[str, Part]:
    """The other folders of the model that are at hand, beside the server's own."""
    if part.path is None:
        return {}
    around = [one for one in model_folders(part.path.parent) if one.resolve() != part.path.resolve()]
    found = (load_part(one) for one in around)
    return {one.about.party: one for one in found}


def bring_to_parts(part: Part, method: Method, without: str = "") -> list[str]:
    """Give the model to every folder at hand that had it from this server, but for one party; whose these are."""
    model, brought = final_model(method, _hub(part)), []
    for name, one in parts_around(part).items():
        if one.about.made_by == part.about.party and name != without and model is not None:
            save_part(Path(), replace(one, memory=one.memory | model))
            brought.append(name)
    return brought


def _hub(part: Part) -> Party:
    """The server, with what it remembers and no rows: nothing here looks at them."""
    nobody = Table(np.empty((1, 0)), (), task=part.about.task, party=part.about.party, recipe=Recipe(columns=()))
    return Party(part.about.party, nobody, part.about.seed, dict(part.memory), Ledger(part.ledger.entries))


def _merging(method: Method) -> Callable[[Party, Peers], None]:
    if not isinstance(method, Mergeable):
        raise DataError(f"{type(method).__name__} lets nobody join later; train again with everybody, or use Analytic")
    return method.merge_in


@contextmanager
def _reached(part: Part, tables: Mapping[str, Table]) -> Iterator[Carrier]:
    """The parties whose folders are at hand, with these rows."""
    around = parts_around(part)
    lacking = [name for name in tables if name not in around]
    if lacking:
        where = (part.path or Path()).parent / folder_name(lacking[0]) / HEAD
        raise DataError(f"{where} is not there, and without its folder the ledger of {lacking[0]} cannot go on")
    with reach_parts(part, {name: around[name] for name in tables}, tables) as carrier:
        yield carrier


def _changed(
    part: Part, method: Method, carrier: Carrier, rows: dict[str, int], change: Callable[[Party, Peers], None]
) -> Merged:
    """The server's part after it asked these parties."""
    hub, log = _hub(part), WireLog()
    with log.during("final"):
        try:
            change(hub, Peers(method, hub, carrier, log, carrier.names))
        except (ValueError, StepError) as problem:
            raise DataError(str(problem)) from problem
    crossed: Counter[str] = Counter()
    for one in log.crossings:
        crossed[one.party] += one.down + (one.up or 0)
    whole = {name: len(encode(kept)) for name, kept in _kept(hub.memory, rows).items()}
    difference = Difference(people=rows, bytes=crossed, whole=whole)
    return Merged(part=replace(part, memory=hub.memory), difference=difference)


def _kept(memory: dict[str, Any], names: Mapping[str, int]) -> dict[str, Any]:
    """What the server keeps of these parties."""
    return {name: [one[name] for one in memory.values() if isinstance(one, dict) and name in one] for name in names}


RECORD = "forgotten.jsonl"

APART = "other parties' parts do not depend on it: each learnt from its own rows alone"
TOGETHER = "other parties' nets were trained together with it and stay as they are; train again to be rid of that too"


DUE = (
    "all that these rows taught the model, until it is trained again without them: take them out of the party's "
    "source, or name their ids in a file (data.erased in its party file), and train again"
)


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted when a party left.

    Attributes:
        party: who left. at: when, in UTC.
        people: about how many people its answers were; 0 where noise hides that.
        before, after: the digest of every file of the hub's folder; a file that is only in `before` is deleted, one
            that is in both with another digest is replaced.
        stays: what the party's presence may still show in.
        erased: whether only these people went, and the party is still in the model.
        due: whether the model still holds what their rows taught it, until it is trained again without them.
    """

    party: str
    at: str
    people: int
    before: dict[str, str]
    after: dict[str, str]
    stays: str
    erased: bool = False
    due: bool = False


@limit_threads()
def forget(folder: Path, party: str, *, accept: bool = False) -> tuple[Forgotten, Card]:
    """Delete what the hub keeps of a party and all that was learnt from it, and fit the same head without it.

    Args:
        folder: the model's, or the hub's own.
        accept: whether to do so even if the model becomes worse by more than a standard error on validation rows;
            otherwise that is said, and nothing changes.
    """
    part = load_part(hub_folder(folder))
    method = part.method()
    if isinstance(method, Mergeable):
        left, people = leave_model(part, method, party)
        done = _save(left, Model(left, method), part, _record(party, people, STAYS), ())
        bring_to_parts(load_part(hub_folder(folder)), method, without=party)
        return done
    _check(part, party)
    peers = tuple(name for name in part.about.peers if name != party)
    store = None if part.store is None else part.store.without(party)
    people = 0 if part.store is None else len(part.store.answers[party].ids)
    # The method's own model was fitted with the party's answers, so it goes too.
    left = replace(part, about=msgspec.structs.replace(part.about, peers=peers), memory={}, store=store)
    model = refitted(left, method, Model(part, method).refit)
    asked = [one for one in (part.card.asked if part.card else ()) if one.party != party]
    stays = APART if isinstance(method, Growable) else TOGETHER
    return _save(model.part, model, part, _record(party, people, stays), asked, accept=accept)


@limit_threads()
def erase(folder: Path, party: str, rows: Table) -> tuple[Forgotten, Card]:
    """Take some rows of one party out of a model exactly, if its method can; the party sends what they had added.

    What it sends gives these rows away to the server: of one row, its features and its label as they are. Where the
    method cannot, nobody is asked and the model stays as it is: the record says that these rows are due, and the next
    training leaves them out (`data.erased` of the party file).

    Args:
        folder: the model's, with the party's own folder in it.
        rows: the rows with their labels, as `laconic.inference.merge.read_labelled` reads them.
    """
    part = load_part(hub_folder(folder))
    method = part.method()
    if method.kind == "horizontal" and not isinstance(method, Erasable):
        record = msgspec.structs.replace(_record(party, rows.rows, DUE), erased=True, due=True)
        return _save(part, Model(part, method), part, record, part.card.asked if part.card else ())
    merged = erase_rows(part, method, party, rows)
    record = msgspec.structs.replace(_record(party, rows.rows, STAYS), erased=True)
    done = _save(merged.part, Model(merged.part, method), part, record, ())
    bring_to_parts(load_part(hub_folder(folder)), method)
    return done


def _record(party: str, people: int, stays: str) -> Forgotten:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Forgotten(party=party, at=now, people=people, before={}, after={}, stays=stays)


def _save(
    left: Part, model: Model, before: Part, record: Forgotten, asked: Sequence[Asked], *, accept: bool = False
) -> tuple[Forgotten, Card]:
    """Write what is left in place of what was there, and the record with the digests of both."""
    record = msgspec.structs.replace(record, before=read_digests(before.path or Path()))
    card = make_card(model, asked, model.ways)
    refuse_worse(before.card, card, accept)

    def write(after: dict[str, str]) -> dict[str, str]:
        nonlocal record
        record = msgspec.structs.replace(record, after={name: one for name, one in after.items() if name != RECORD})
        return {RECORD: before.texts.get(RECORD, "") + json.dumps(msgspec.to_builtins(record)) + "\n"}

    with unbroken():
        note_written(save_part(Path(), replace(left, heads=model.heads, card=card), write))
    return record, card


def forgotten(hub: Part) -> dict[str, str]:
    """Who left the model and did not join again, and when."""
    records = [msgspec.json.decode(line, type=Forgotten) for line in hub.texts.get(RECORD, "").splitlines()]
    there = {*hub.about.peers, *(members_of(hub, hub.method()) if records else ())}
    return {record.party: record.at for record in records if record.party not in there and not record.erased}


def rows_due(hub: Part) -> dict[str, int]:
    """By party, how many rows are to be erased from the model that it still holds: it must be trained again."""
    found: dict[str, int] = {}
    for line in hub.texts.get(RECORD, "").splitlines():
        record = msgspec.json.decode(line, type=Forgotten)
        if record.due:
            found[record.party] = found.get(record.party, 0) + record.people
    return found


def refuse_forgotten(hub: Part, files: Mapping[str, Path]) -> None:
    """Refuse files of parties that left the model: nothing in it uses their rows any more."""
    left = forgotten(hub)
    for name, path in files.items():
        if name in left:
            raise DataError(
                f"{name} was forgotten by this model at {left[name]} (see {RECORD} of {hub.about.party}), so its rows "
                f"in {path} would be ignored; leave this file out, or let {name} join again with: laconic add MODEL "
                f"--party {name}=FILE"
            )


def refitted(part: Part, method: Method, way: Refit) -> Model:
    """The model of everybody who is left, which predicts by a head fitted anew."""
    model = Model(replace(part, about=msgspec.structs.replace(part.about, head=way)), method)
    model.head_for(way, part.about.peers)
    return model


def _check(part: Part, party: str) -> None:
    about = part.about
    if party == about.hub:
        raise DataError(f"{party} holds the label and the model; to forget it, delete its folder")
    if part.store is None:
        raise DataError(
            f"the model of {about.method['type']} keeps no answers, so there is nothing to refit from; train it again "
            f"without {party}"
        )
    if party not in about.peers:
        raise DataError(f"{party!r} is no party of this model; it has {', '.join(about.peers) or 'none'}")
    if not part.store.own.columns and len(about.peers) == 1:
        raise DataError(f"without {party} nothing is left to predict from; delete the model instead")
