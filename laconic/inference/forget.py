"""A party leaves: its stored answers are deleted, the head is refitted, and a record says what was deleted.

Nobody is contacted. What is deleted is deleted from the hub's folder; copies elsewhere are for their keepers to delete.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from laconic.atomic_files import note_written, unbroken
from laconic.core.capabilities import Growable
from laconic.core.method import Method
from laconic.errors import DataError
from laconic.inference.absent import WAYS, Refit
from laconic.inference.bundle import Card, Part, load_part, save_part
from laconic.inference.bundle_files import read_digests
from laconic.inference.predict import Model, hub_folder
from laconic.inference.save import make_card
from laconic.threads import limit_threads

RECORD = "forgotten.jsonl"

APART = "other parties' parts do not depend on it: each learnt from its own rows alone"
TOGETHER = "other parties' nets were trained together with it and stay as they are; train again to be rid of that too"


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted when a party left.

    Attributes:
        party: who left. at: when, in UTC.
        people: about how many people its answers were.
        before, after: the digest of every file of the hub's folder; a file that is only in `before` is deleted, one
            that is in both with another digest is replaced.
        stays: what the party's presence may still show in.
    """

    party: str
    at: str
    people: int
    before: dict[str, str]
    after: dict[str, str]
    stays: str


@limit_threads()
def forget(folder: Path, party: str) -> tuple[Forgotten, Card]:
    """Delete what the hub keeps of a party and all that was learnt from it, and fit a new head without it.

    `folder` is the model's, or the hub's own.
    """
    part = load_part(hub_folder(folder))
    _check(part, party)
    before = read_digests(part.path or folder)
    method = part.method()
    peers = tuple(name for name in part.about.peers if name != party)
    store = None if part.store is None else part.store.without(party)
    people = 0 if part.store is None else len(part.store.answers[party].ids)
    # The method's own model was fitted with the party's answers, so it goes too.
    left = replace(part, about=msgspec.structs.replace(part.about, peers=peers), memory={}, store=store)
    model = refitted(left, method)
    asked = [one for one in (part.card.asked if part.card else ()) if one.party != party]
    card = make_card(model, asked, WAYS)
    record = Forgotten(
        party=party,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        people=people,
        before=before,
        after={},
        stays=APART if isinstance(method, Growable) else TOGETHER,
    )

    def write(after: dict[str, str]) -> dict[str, str]:
        nonlocal record
        record = msgspec.structs.replace(record, after={name: one for name, one in after.items() if name != RECORD})
        return {RECORD: part.texts.get(RECORD, "") + json.dumps(msgspec.to_builtins(record)) + "\n"}

    with unbroken():
        note_written(save_part(folder, replace(model.part, heads=model.heads, card=card), write))
    return record, card


def forgotten(hub: Part) -> dict[str, str]:
    """Who left the model and did not join again, and when."""
    records = (msgspec.json.decode(line, type=Forgotten) for line in hub.texts.get(RECORD, "").splitlines())
    return {record.party: record.at for record in records if record.party not in hub.about.peers}


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


def refitted(part: Part, method: Method) -> Model:
    """The model of everybody who is left, which predicts by a head fitted anew."""
    changed = replace(part, about=msgspec.structs.replace(part.about, head=Refit()))
    model = Model(changed, method)
    model.head_for(Refit(), part.about.peers)
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
