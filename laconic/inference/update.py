"""New rows and new parties are added to a saved model by sending only the difference.

A party joins a saved model, or the others get it again after one left, between machines: the model's end of it.

What crosses is a run like any other (`laconic.deploy.coordinator`), hosted from the server's site; here the model's
folder gives what it begins with, and takes what it ends with.

Predicting and scoring new rows with a model: each party's own, as tables or as files.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from laconic.atomic_files import note_written, read_sealed, unbroken
from laconic.core.capabilities import Growable, Mergeable
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import steps_of
from laconic.core.traffic import WireLog
from laconic.core.wire import encode
from laconic.data.readers.federate import Source
from laconic.data.schema import OwnData
from laconic.deploy.coordinator import Growth, growing, refuse_growth, write_growth
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.result import Result
from laconic.deploy.session import online_session
from laconic.deploy.transports.inprocess import open_calls
from laconic.errors import DataError, PlanError, closest
from laconic.inference.absent import Answers, AnyAbsent, FromStore, Measured, Store
from laconic.inference.bundle import About, Asked, Card, Part, save_part
from laconic.inference.bundle_files import folder_name
from laconic.inference.local_transport import read_new, read_new_labels
from laconic.inference.merge import (
    Difference,
    bring_to_parts,
    forgotten,
    merge_party,
    merge_rows,
    refitted,
    refuse_forgotten,
)
from laconic.inference.predict import Model, Scores, collect, find, load_model
from laconic.inference.save import KEPT, as_answers, as_asked, make_card, refuse_worse, without_source
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan, write_plan
from laconic.tables.table import Table
from laconic.tables.task import Score, headline, metrics
from laconic.threads import limit_threads
from laconic.values import Array


@limit_threads()
def add_rows(model: Model, rows: Table, labels: Array | None, carrier: Carrier) -> tuple[Model, Difference]:
    """Ask parties about people whom they have not answered for yet, and keep the answers.

    Args:
        model: the hub's model, which is left as it is; save what comes back.
        rows: the hub's own new rows.
        labels: with labels they become training rows and the head is refitted; with None they can only be predicted.
        carrier: the other parties, with their new rows.
    """
    part, (kept, steps) = model.part, kept_answers(model)
    ids, log = rows.keys.tolist(), WireLog()
    unknown = np.full(rows.rows, -1 if model.task.of_classes else np.nan)
    store = kept.with_rows(rows, unknown if labels is None else labels, None if labels is None else "train")
    added: dict[str, Answers] = {}
    for name in carrier.names:
        # Each party is asked only about people whom it has not answered for.
        asked = [one for one in ids if name not in store.answers or one not in store.answers[name].places]
        hub = part.party(rows)
        added |= collect(model.method, steps, hub, _Only(carrier, name), asked, log=log) if asked else {}
    store = store.with_answers(added)
    grown = replace(part, store=store)
    difference = _difference(log, added, store)
    if labels is not None:
        return refitted(grown, model.method, model.refit), difference
    return Model(grown, model.method, model.heads), difference


@limit_threads()
def add_more(model: Model, tables: Mapping[str, Table]) -> tuple[Model, Difference]:
    """Let parties of a model that keeps apart what each added (`Analytic`) add labelled rows; no other is asked.

    Args:
        model: the server's model, which is left as it is; save what comes back with `save_grown`.
        tables: the new rows of each party, whose folders are beside the server's.
    """
    merged = merge_rows(model.part, model.method, tables)
    return Model(merged.part, model.method), merged.difference


def kept_answers(model: Model) -> tuple[Store, tuple[str, ...]]:
    """What the hub keeps of parties' answers, and to which questions; it must keep some for rows to be added."""
    if model.part.store is None or model.part.about.steps is None:
        raise DataError(
            f"the model of {type(model.method).__name__} keeps no answers, so rows cannot be added to it; train it "
            "again with all rows, or use FedOnce"
        )
    return model.part.store, model.part.about.steps


@limit_threads()
def add_party(
    model: Model, name: str, table: Table, *, seed: int = 0, data: OwnData | None = None
) -> tuple[Model, Difference, Part]:
    """Let one more party learn and send, and refit the head; nobody else is asked.

    Args:
        name, table: the new party, and its rows with ids.
        seed: for its randomness.
        data: how new rows of it are read, as its party file says; None for tables with the model's id column.

    Returns:
        The model, what crossed, and the new party's part; save model and part with `save_grown`.
    """
    method, part = model.method, model.part
    if isinstance(method, Mergeable):
        merged, joined = merge_party(part, method, name, table, data=data, seed=seed)
        return Model(merged.part, method), merged.difference, joined
    if not isinstance(method, Growable) or part.store is None:
        raise DataError(
            f"{type(method).__name__} trains all parties together, so that none can join later without the others; "
            "train again with everybody, or use FedOnce"
        )
    if name in (part.about.hub, *part.about.peers):
        raise DataError(f"there is a party {name!r} already; to add rows of it, name its file without --party")
    party, log = Party(name, table, seed), WireLog()
    with open_calls((party,)) as carrier:
        peers = Peers(method, part.party(part.store.own), carrier, log, carrier.names)
        known = {cut: find(peers, part.store.ids_of(cut), cut)[name] for cut in KEPT}
        if not known["train"].any():
            raise DataError(f"{name} knows none of the people that the model was trained on; compare the ids")
        answers = as_answers(part.store, method.take_in(peers), known)[name]
    if any(value is None for value in answers.steps.values()):
        raise DataError(f"{name} did not answer with one row for each person")
    store = part.store.with_answers({name: answers})
    about = msgspec.structs.replace(part.about, peers=(*part.about.peers, name))
    asked = (*(part.card.asked if part.card else ()), *_asked(method, name, answers))
    grown = replace(part, about=about, store=store, card=part.card and msgspec.structs.replace(part.card, asked=asked))
    difference = _difference(log, {name: answers}, store)
    return refitted(grown, method, model.refit), difference, _new_part(about, party, data)


def save_grown(model: Model, joined: Part | None = None, *, accept: bool = False) -> Card:
    """Write a model back to its folder, measured anew, and the part of a party that joined to a folder beside it.

    A model that has become worse by more than a standard error on validation rows is not written, and the former one
    stays, unless `accept` is set.
    """
    before = model.part.card
    card = make_card(model, before.asked if before else (), model.ways)
    refuse_worse(before, card, accept)
    path = model.part.path or Path()
    with unbroken():
        if joined is not None:
            save_part(path.parent, joined)
        note_written(save_part(path, replace(model.part, heads=model.heads, card=card)))
        bring_to_parts(model.part, model.method)
    return card


def _asked(method: Method, name: str, answers: Answers) -> list[Asked]:
    words, found = steps_of(method), []
    few, many = answers.take(answers.ids[:1]), answers.take(answers.ids[:2])
    for step in answers.steps:
        less, more = (len(encode(one.for_cut(step, "rows"))) for one in (few, many))
        row = float(more - less)
        found.append(as_asked(name, step, words[step], up=row, down=0.0, fixed=less - row))
    return found


def _new_part(about: About, party: Party, data: OwnData | None) -> Part:
    own = msgspec.structs.replace(
        about,
        party=party.name,
        seed=party.seed,
        columns=party.data.columns,
        recipe=party.data.recipe,
        task=None,
        steps=("find_rows", *(about.steps or ())),
        head=None,
        data=None if data is None else without_source(data),
    )
    return Part(own, party.memory, Ledger(party.ledger.entries))


def _difference(log: WireLog, added: Mapping[str, Answers], store: Store) -> Difference:
    crossed: Counter[str] = Counter()
    for one in log.crossings:
        crossed[one.party] += one.down + (one.up or 0)
    whole = {
        name: sum(len(encode(answers.for_cut(step, "rows"))) for step in answers.steps) + len(encode(list(answers.ids)))
        for name, answers in store.answers.items()
    }
    return Difference(people={name: len(one.ids) for name, one in added.items()}, bytes=crossed, whole=whole)


class _Only:
    """A carrier that reaches one party."""

    def __init__(self, within: Carrier, name: str) -> None:
        self._within = within
        self.names = (name,)
        self.carry, self.ledgers = within.carry, within.ledgers


Host = Callable[[str], Result]
"""Hosts the run of that name to its end."""

_PLAN = "plan.toml"
_OF_PARTIES = ("journal*", "incoming", "model", "start")
"""What a run's folder at the server holds of parties' answers."""


def change_between(
    site: PartySite, part: Part, growth: Growth, host: Host, plan: Plan | None = None
) -> tuple[Model, Result]:
    """The server's model once parties joined, which everybody who is there gets, and the run; not yet saved.

    Cut off and given again, it goes on where it was: what a party answered is not asked twice.

    Args:
        site: the server's.
        part: the server's own part of the model, as `laconic home` puts it into a folder.
        plan: the plan that names who joins, if it is another than the model was trained by.
    """
    plan = _plan_of(part) if plan is None else plan
    run = _begin(site, part, growth, plan)
    folder = site.run(run)
    if not (folder / "result").exists():
        host(run)
    hub = PartyFolder(folder / "model").load()
    found = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
    texts = part.texts | {_PLAN: write_plan(plan)}
    return Model(replace(part, memory=hub.memory, texts=texts), part.method()), found


def _begin(site: PartySite, part: Part, growth: Growth, plan: Plan) -> str:
    """The name of the run, whose folder has all that it begins with: the same for the same change of the same model."""
    about = part.about
    growing(part.method())
    session = online_session(plan, site.consortium)
    if about.party != session.hub or about.made_by:
        raise PlanError(
            f"{part.path} is the model of {about.party}, which has no other party's part of it; name the folder of the "
            f"server, which `laconic home {site.folder}` writes at {session.host}"
        )
    if (session.method, plan.seed) != (part.method(), about.seed):
        raise PlanError(
            f"the model was trained by {about.method['type']} with other settings or another seed than the plan has; "
            "take the model's plan (plan.toml in its folder), and change data.files alone"
        )
    rows = Table.without_rows(about.party).changed(
        raw=np.empty((0, len(about.columns))), columns=about.columns, task=about.task, recipe=about.recipe
    )
    hub = Party(about.party, rows, about.seed, dict(part.memory))
    refuse_growth(session, growth, hub)
    whole = [plan_fingerprint(plan), msgspec.to_builtins(growth), part.memory]
    run = stem = f"change-{blake2b(encode(whole), digest_size=6).hexdigest()}"
    again = 1
    while not growth.joins and (site.run(run) / "result").exists():
        # Nobody sends anything, so that the same model may be brought to parties as often as they missed it.
        again += 1
        run = f"{stem}-{again}"
    if not (site.run(run) / _PLAN).exists():
        write_growth(site.run(run), growth, hub)
        (site.run(run) / _PLAN).write_text(write_plan(plan), encoding="utf-8")
    return run


def forget_runs(site: PartySite, part: Part, party: str) -> list[str]:
    """Delete what the server's finished runs of a model keep of what parties answered; returns which runs these are.

    The journal of a run, and the model as it was, hold the answers of a party that left. What was learnt of the others
    is in the model's folder; results, which hold no rows, stay.
    """
    plan, gone = _plan_of(part), []
    for folder in sorted((site.folder / "runs").glob("*")):
        if not (folder / "result").exists() or not (folder / _PLAN).exists():
            continue
        its = read_plan((folder / _PLAN).read_text(encoding="utf-8"))
        if (its.method, its.seed) != (plan.method, plan.seed) or not _held(folder, party):
            continue
        found = [one for pattern in _OF_PARTIES for one in folder.glob(pattern)]
        for one in found:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        gone += [folder.name] if found else []
    return gone


def _held(folder: Path, party: str) -> bool:
    """Whether a run began or ended with what a party sent."""
    kept = [PartyFolder(folder / name) for name in ("start", "model") if (folder / name).exists()]
    memories = [one.load().memory for one in kept if one.begun]
    return any(party in value for memory in memories for value in memory.values() if isinstance(value, dict))


def _plan_of(part: Part) -> Plan:
    if _PLAN not in part.texts:
        raise DataError(
            f"{part.path} names no plan, so that nobody can join it between machines: it is a trial's, whose parties "
            "join by their files (--party NAME=FILE)"
        )
    return read_plan(part.texts[_PLAN])


class PartsAtHand(Protocol):
    """All parties' parts of a model that are on this machine: in a folder, or in memory after fitting."""

    @property
    def folder(self) -> Path | None:
        """The folder they are in; None if they were not saved."""
        ...

    @property
    def result(self) -> Result | None:
        """The record of the run; None if it is not known."""
        ...

    def parts(self) -> dict[str, Part]:
        """Every party's part, the hub's too, as it is now."""
        ...

    def reach(
        self, hub: Part, parts: Mapping[str, Part], tables: Mapping[str, Table]
    ) -> AbstractContextManager[Carrier]:
        """Reach the parties that have rows; what they release is written into their parts."""
        ...

    def save(self, folder: Path, *, keep: bool, replace_old: bool) -> Card:
        """Write a folder per party, and return the model's card."""
        ...


def predict_rows(
    model: Model,
    rows: "Mapping[str, Source] | Source",
    notes: list[str],
    *,
    absent: AnyAbsent = Measured(),  # noqa: B008 (frozen)
    without: Sequence[str] = (),
) -> Scores:
    """Predictions for new rows, as `Model.predict` describes; what was decided when reading is added to `notes`."""
    if not isinstance(rows, Mapping):
        return _predict_alone(model, rows, notes, read_as=by_place(model))
    if not rows:
        raise DataError("there are no rows to predict; give each party's, such as {'bank': new_rows}")
    if model.asks_nobody:
        found = [_predict_alone(model, one, notes, read_as=model.part.about) for one in rows.values()]
        together = found[0]
        for more in found[1:]:
            together = together.followed_by(more)
        return together
    with reach_rows(model, rows, notes, without) as (own, carrier, ids):
        return as_saved(model).ask(own, carrier, ids, absent=absent, note=True)


def as_saved(model: Model) -> Model:
    """The model in its folder, if it was saved since it was fitted: what is released from then on is written there."""
    if model.part.path is None and model.at_hand is not None and model.at_hand.folder is not None:
        return load_model(model.at_hand.folder, method=type(model.method))
    return model


@contextmanager
def reach_rows(
    model: Model, rows: Mapping[str, Source], notes: list[str], without: Sequence[str] = ()
) -> Iterator[tuple[Table, Carrier, list[str]]]:
    """The hub's own new rows, a way to ask the parties that have some, and whom they are about."""
    model = as_saved(model)
    parts = {model.part.about.party: model.part} if model.at_hand is None else model.at_hand.parts()
    _refuse_strangers(model, parts, rows, without)
    tables = {name: read_new(parts[name].about, one, notes) for name, one in rows.items()}
    hub = model.part.about.party
    own = tables.get(hub, Table.without_rows(hub))
    if model.part.about.columns and hub not in tables:
        raise DataError(f"{hub} predicts, but there is no file with its rows, and no table; add one by its name")
    ids = (own if own.rows else next(iter(tables.values()))).keys.tolist()
    if model.method.kind == "horizontal":
        # A party may hold a model that is asked for, and needs no new rows for that.
        tables = {name: Table.without_rows(name) for name in parts} | tables
    there = {name: table for name, table in tables.items() if name not in without}
    if model.at_hand is None:
        yield own, FromStore({}), ids
        return
    with model.at_hand.reach(model.part, parts, there) as carrier:
        yield own, carrier, ids


def score_rows(model: Model, rows: "Mapping[str, Source] | Source") -> Score:
    """The headline figure of the predictions of new rows with labels, as far as there is an answer."""
    by_party = rows if isinstance(rows, Mapping) else {model.part.about.party: rows}
    scores = model.predict(rows)
    about, holders = model.part.about, list(by_party) if model.asks_nobody else [model.part.about.party]
    labels = []
    for name in holders:
        read_as = about if isinstance(rows, Mapping) else by_place(model)
        found = read_new_labels(read_as, by_party[name], read_new(read_as, by_party[name]))
        if found is None:
            raise DataError(f"the rows of {name} have no label column {model.task.label!r} to score by; add it")
        labels.append(found)
    answered = scores.answered
    if not answered.any():
        raise DataError("no row has an answer, so there is nothing to score; see the scores of predict")
    return headline(model.task, metrics(model.task, np.concatenate(labels)[answered], scores.predictions[answered]))


def by_place(model: Model) -> About:
    """How one table is read that says nothing of a party: rows are known by their place, and need no id."""
    return msgspec.structs.replace(model.part.about, id="", data=None)


def _predict_alone(model: Model, rows: Source, notes: list[str], read_as: About) -> Scores:
    """Predictions of a model that has to ask nobody, for rows that are read as this says."""
    if not model.asks_nobody:
        own = [model.part.about.party] if model.part.about.columns else []
        parties = [*own, *model.part.about.peers]
        example = ", ".join(f"{name!r}: ..." for name in parties)
        raise DataError(
            f"{type(model.method).__name__} predicts with several parties, so give the rows of each by its name: "
            f"predict({{{example}}})"
        )
    table = read_new(read_as, rows, notes)
    return model.ask(table, FromStore({}), table.keys.tolist())


def _refuse_strangers(
    model: Model, parts: Mapping[str, Part], rows: Mapping[str, Source], without: Sequence[str]
) -> None:
    """Refuse parties that the model does not know, does not have any more, or whose part is elsewhere."""
    refuse_forgotten(model.part, dict.fromkeys(rows, Path()))
    known = list(dict.fromkeys([*parts, *model.part.about.peers, *forgotten(model.part)]))
    for name in (*rows, *without):
        if name not in known:
            raise PlanError(f"there is no party {name!r} in this model; {closest(name, known, 'The parties are')}")
    lost = [name for name in rows if name not in parts]
    if lost:
        where = (model.at_hand.folder if model.at_hand is not None else model.part.path) or Path()
        raise DataError(
            f"{where} has no part of {lost[0]}, without which nobody can read its rows; bring the folder "
            f"{where / folder_name(lost[0])} back, or leave its rows out: absent= or --absent says what is done then"
        )
