"""A party leaves, or rows of it: what is kept of them is deleted, the rest is fitted anew, and a record states it.

Nobody is contacted when a party leaves; when only rows of it do, that party is. What is deleted is deleted from the
hub's folder; copies elsewhere are for their keepers to delete.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from laconic.atomic_files import note_written, unbroken
from laconic.core.capabilities import Erasable, Growable, Mergeable
from laconic.core.method import Method
from laconic.errors import DataError
from laconic.inference.absent import Refit
from laconic.inference.bundle import Asked, Card, Part, load_part, save_part
from laconic.inference.bundle_files import read_digests
from laconic.inference.merge import STAYS, bring_to_parts, erase_rows, leave_model, members_of
from laconic.inference.predict import Model, hub_folder
from laconic.inference.save import make_card, refuse_worse
from laconic.tables.table import Table
from laconic.threads import limit_threads

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
