"""Saving a trained model: one folder a party, and a card that says who can predict what."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.log import WireLog
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.score import headline_metric, metrics
from laconic.core.table import Table
from laconic.core.values import Array
from laconic.model.absent import WAYS, AnyAbsent
from laconic.model.asking import collect
from laconic.model.card import Asked, Card, Expected
from laconic.model.folder import drop_parts, refuse_full
from laconic.model.model import Model
from laconic.model.part import About, Part, save_part
from laconic.model.probe import probe
from laconic.model.store import Answers, Store, as_kept
from laconic.runtime.inprocess import InProcess
from laconic.trained import Trained

_ALL_PATTERNS = 4
"""With up to this many peers every pattern of presence is tried; with more, everybody, each one missing, and nobody."""

KEPT = ("train", "valid")
"""The rows for which answers are kept."""

Kept = dict[str, dict[str, dict[str, Array]]]


@runtime_checkable
class Remembers(Protocol):
    """A method whose hub has, when it is fitted, what parties would answer about the rows it was fitted to."""

    def answers_at_hand(self, hub: Party) -> Kept:
        """Those answers, by party, step and cut."""
        ...


@runtime_checkable
class TakesIn(Protocol):
    """A method that a party can join later without any other being asked."""

    def take_in(self, peers: Peers) -> Kept:
        """What new parties answer about the rows the model is fitted to, by party, step and cut."""
        ...


def save_model(
    trained: Trained,
    folder: Path | str,
    *,
    id: str = "id",  # noqa: A002 the word every reader of a table looks for
    plan: str | None = None,
    keep: bool = True,
    ways: Sequence[AnyAbsent] = WAYS,
    replace_old: bool = False,
) -> Card:
    """Write a folder for each party, named after it, into `folder`; each may be moved to that party's own side.

    Args:
        id: the column that says who a row is about, in files to come; empty if there is none, with other rows.
        plan: the plan of the run as TOML, to be kept with every part.
        keep: whether the hub keeps the answers it has about training and validation rows, and its own such rows.
            Without them it cannot refit, and absent parties cannot be made up for.
        ways: what to do about absent parties: each is fitted and measured for each pattern of presence.
        replace_old: whether a model that is in `folder` already may go, with all its parts and records. How often its
            parts were used is kept, so that the same chance is not drawn again.

    Returns:
        Who can predict what.

    Raises:
        DataError: `folder` holds a model that may not go, or something else.
    """
    folder = Path(folder)
    refuse_full(folder, replace_old=replace_old)
    asked, steps = probe(trained)
    log = WireLog()
    keeps = keep and steps is not None and trained.method.kind == "vertical"
    store = _store(trained, steps or (), log) if keeps else None
    parts = [_part(trained, party, asked, steps, id, plan) for party in (trained.hub, *trained.others)]
    model = Model(replace(parts[0], store=store), trained.method)
    card = make_card(model, asked, ways, log.bytes_of("align") + log.bytes_of("final"))
    folder.mkdir(parents=True, exist_ok=True)
    drop_parts(folder, keep={part.about.party for part in parts})
    save_part(folder, replace(model.part, heads=model.heads, card=card))
    for part in parts[1:]:
        save_part(folder, part)
    return card


def make_card(model: Model, asked: Sequence[Asked], ways: Sequence[AnyAbsent], crossed: int = 0) -> Card:
    """Who can predict what, measured on the validation rows that the hub keeps."""
    store, about = model.part.store, model.part.about
    measured = [] if store is None else [_expect(model, present, way) for present, way in _patterns(model, ways)]
    return Card(
        method=str(about.method["type"]),
        hub=about.hub,
        label="" if about.task is None else about.task.label,
        asked=tuple(asked),
        kept=store is not None,
        rows=0 if store is None else store.own.rows,
        bytes=crossed,
        expected=tuple(one for one in measured if one is not None),
    )


def _patterns(model: Model, ways: Sequence[AnyAbsent]) -> list[tuple[tuple[str, ...], AnyAbsent | None]]:
    peers = model.part.about.peers
    sizes = range(len(peers) + 1) if len(peers) <= _ALL_PATTERNS else (0, len(peers) - 1, len(peers))
    found: list[tuple[tuple[str, ...], AnyAbsent | None]] = []
    for size in sorted(sizes, reverse=True):
        for present in combinations(peers, size):
            found += [(present, None)] if present == peers else [(present, way) for way in ways]
    return found


def _expect(model: Model, present: tuple[str, ...], way: AnyAbsent | None) -> Expected | None:
    """The score on validation rows if only these parties are there; None if the hub alone has nothing to go by."""
    store = model.store
    people, y = store.ids_of("valid"), store.labels_of("valid")
    if not store.own.columns and (not present or (way is not None and way.alone)):
        return None
    known = [set(model.part.about.peers) <= have for have in store.knowing(people)]
    ids, y = [one for one, there in zip(people, known, strict=True) if there], y[np.array(known, dtype=bool)]
    if not ids:
        return None
    for name in set(store.answers) - set(present):
        store = store.as_if_absent(name)
    scores = model.predict_from(store, ids, absent=way or WAYS[-1])
    answered = np.isfinite(scores.predictions).all()
    values = metrics(model.task, y, scores.predictions) if answered else {}
    metric = headline_metric(model.task)
    return Expected(
        present=present,
        answer="all" if way is None else way.word,
        metric=metric,
        value=values.get(metric),
        rows=len(ids),
    )


def _part(
    trained: Trained,
    party: Party,
    asked: Sequence[Asked],
    steps: tuple[str, ...] | None,
    id_name: str,
    plan: str | None,
) -> Part:
    table = party.data
    is_hub = party is trained.hub
    names = {one.party for one in asked}
    about = About(
        party=party.name,
        hub=trained.hub.name,
        peers=tuple(one.name for one in trained.others if one.name in names),
        method=msgspec.to_builtins(trained.method),
        seed=party.seed,
        id=id_name,
        columns=table.columns,
        recipe=table.recipe if table.rows else None,
        task=trained.federation.task if is_hub else table.task,
        steps=steps if is_hub else tuple(one.step for one in asked if one.party == party.name),
    )
    texts = {} if plan is None else {"plan.toml": plan}
    return Part(about, party.memory, Ledger(party.ledger.entries), texts=texts)


def _store(trained: Trained, steps: tuple[str, ...], log: WireLog) -> Store:
    table = trained.hub.data
    rows = np.concatenate([table.cut(name) for name in KEPT])
    ends = np.cumsum([0, *(len(table.cut(name)) for name in KEPT)])
    own = Table(
        table.raw[rows],
        table.columns,
        ids=table.keys[rows],
        task=table.task,
        cuts={name: np.arange(ends[place], ends[place + 1]) for place, name in enumerate(KEPT)},
        party=table.party,
        recipe=table.recipe,
    )
    store = Store(own, np.asarray(table.y)[rows], {})
    at_hand = trained.method.answers_at_hand(trained.hub) if isinstance(trained.method, Remembers) else {}
    # A head that looks at no validation rows never had them sent: then they are asked for like everything else.
    if at_hand and all(cuts.keys() >= set(KEPT) for steps_kept in at_hand.values() for cuts in steps_kept.values()):
        kept = as_answers(store, at_hand)
        return store.with_answers({name: kept[name] for name in (one.name for one in trained.others) if name in kept})
    with InProcess().open(trained.others) as carrier:
        hub = Party(trained.hub.name, table, trained.hub.seed, dict(trained.hub.memory))
        return store.with_answers(collect(trained.method, steps, hub, carrier, own.keys.tolist(), log=log))


def as_answers(store: Store, kept: Kept) -> dict[str, Answers]:
    """Answers by party, step and cut, as answers by party and id."""
    found: dict[str, Answers] = {}
    for name, steps in kept.items():
        for cut in KEPT:
            ids = store.ids_of(cut)
            some = {step: as_kept(cuts[cut], cut, len(ids)) for step, cuts in steps.items()}
            answers = Answers(tuple(ids), some)
            found[name] = found[name].with_more(answers) if name in found else answers
    return found
