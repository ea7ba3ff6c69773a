"""New rows and new parties are added to a saved model by sending only the difference."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

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
from laconic.data.schema import OwnData
from laconic.deploy.coordinator import Growth, growing, refuse_growth, write_growth
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.result import Result
from laconic.deploy.session import online_session
from laconic.deploy.transports.inprocess import open_calls
from laconic.errors import DataError, PlanError
from laconic.inference.absent import Answers, Store
from laconic.inference.bundle import About, Asked, Card, Part, save_part
from laconic.inference.merge import Difference, bring_to_parts, merge_party, merge_rows, refitted
from laconic.inference.predict import Model, collect, find
from laconic.inference.save import KEPT, as_answers, as_asked, make_card, refuse_worse, without_source
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan, write_plan
from laconic.tables.table import Table
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
