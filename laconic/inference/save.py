"""Saving a trained model: one folder per party, and a card that says who can predict what.

A party's own folder of the model that came home to it, once the server's signature is checked.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laconic.atomic_files import make_private_folder, note_written, unbroken
from laconic.core.capabilities import Cacheable, Kept, Mergeable
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import Declared, Script, steps_of
from laconic.core.traffic import Crossing, WireLog
from laconic.core.wire import Blob, Question, decode, decode_question, encode
from laconic.data.schema import OwnData
from laconic.deploy.execute import FittedRun
from laconic.deploy.homecoming import MODEL, SIGNED, Homecoming, final_model, model_text
from laconic.deploy.party_context import find_run
from laconic.deploy.party_files import PartySite
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.session import Session, envelope_session, online_session
from laconic.deploy.statements import Checked
from laconic.deploy.transports.envelopes.keys import KeyRing
from laconic.deploy.transports.inprocess import open_calls
from laconic.errors import DataError, PartyAbsent, PlanError
from laconic.inference.absent import OWN, WAYS, Answers, AnyAbsent, Measured, Store, as_kept
from laconic.inference.bundle import About, Asked, Card, Expected, Part, load_part, save_part
from laconic.inference.bundle_files import drop_parts, refuse_full
from laconic.inference.predict import FindRows, Model, collect, cut_name
from laconic.methods.families.rows import own_labelled
from laconic.plan.runtime import Faults, InProcess
from laconic.plan.text import read_plan, read_plan_file, write_plan
from laconic.shown import figure, metric_name
from laconic.tables.table import PAIRED, Table, paired_with
from laconic.tables.task import LOWER_IS_BETTER, Task, headline_metric, metrics, weighted_score
from laconic.threads import limit_threads
from laconic.values import Array

_FEW, _MANY = "probe 1", "probe 2"  # of one length, or the names would count as bytes
_ROWS = 64


def probe(trained: FittedRun) -> tuple[tuple[Asked, ...], tuple[str, ...] | None]:
    """What each party is asked for a prediction, and the steps whose answers can be kept.

    The second is None if the method asks anything but its rows' own answers: then it has to ask anew each time.
    """
    if trained.federation.at_home:
        return (), ()  # Whoever has the model predicts from it, and asks nobody.
    rows = min(_ROWS, *(len(_shared(party)) for party in (trained.hub, *trained.others) if party.data.rows))
    few, many = max(1, rows // 2), rows
    one, _, _ = _predict(trained, _FEW, few)
    other, kept, _ = _predict(trained, _MANY, many)
    asked = []
    for first, second in zip(one, other, strict=True):
        up, down = ((getattr(second, way) - getattr(first, way)) / max(1, many - few) for way in ("up", "down"))
        fixed = (second.up or 0) + second.down - many * (up + down)
        needed = _predict(trained, _MANY, many, absent=second.party)[2]
        asked.append(as_asked(second.party, second.step, second, up=up, down=down, fixed=fixed, needed=needed))
    if asked and trained.method.kind == "vertical":
        asked = [*_finding(trained), *asked]
    steps = tuple(dict.fromkeys(crossing.step for crossing in other)) if kept else None
    return tuple(asked), steps


def _finding(trained: FittedRun) -> list[Asked]:
    """What it takes to say whom a prediction is about."""
    words = steps_of(FindRows)["find_rows"]
    found = []
    for party in trained.others:
        keys = party.data.keys[_shared(party)].tolist()
        none, all_of_them = _asking_bytes([]), _asking_bytes(keys)
        fixed = none + len(encode(np.empty(0, dtype=bool)))
        row = (all_of_them - none) / len(keys)
        found.append(as_asked(party.name, "find_rows", words, up=1.0, down=row, fixed=fixed))
    return found


def as_asked(
    party: str, step: str, words: Crossing | Declared, *, up: float, down: float, fixed: float, needed: bool = False
) -> Asked:
    """What a party is asked, in the step's words, with its bytes per row and besides."""
    return Asked(
        party=party,
        step=step,
        gives=words.gives,
        takes=words.takes,
        bytes_up=up,
        bytes_down=down,
        bytes_fixed=fixed,
        needed=needed,
    )


def _asking_bytes(ids: list[str]) -> int:
    return len(encode(Question("find_rows", "align", 1, {"ids": ids, "rows": cut_name(ids)})))


def _predict(trained: FittedRun, cut: str, count: int, absent: str | None = None) -> tuple[list[Crossing], bool, bool]:
    """Let the method predict some rows; what crossed, whether all of it can be kept, and whether it failed."""
    hub, *others = (_copy(party, cut, count) for party in (trained.hub, *trained.others))
    faults = Faults(absent=(absent,)) if absent else Faults()
    log = WireLog()
    log.phase = "final"
    with open_calls(tuple(others), InProcess(faults=faults)) as within:
        carrier = _Listening(within, count)
        hub.turn("final", 0)
        try:
            trained.method.predict(hub, Peers(trained.method, hub, carrier, log, carrier.names), cut)
        except PartyAbsent:
            return log.crossings, carrier.row_by_row, True
    return log.crossings, carrier.row_by_row, False


def _copy(party: Party, cut: str, count: int) -> Party:
    table = party.data.with_cut(cut, _shared(party)[:count]) if party.data.rows else party.data
    # Deep: what a party is asked while it is tried out must leave no trace.
    return Party(party.name, table, party.seed, deepcopy(party.memory), Ledger(party.ledger.entries))


def _shared(party: Party) -> Array:
    """Rows to try it out on: in a vertical federation, the same people at every party."""
    cuts = party.data.cuts
    # A server without public rows has only rows to score on.
    found = [cuts[name] for name in ("train", "public") if name in cuts]
    return np.concatenate(found or [cuts["test"]])


class _Listening:
    """A carrier that notes whether every question names just a cut, and every answer has a row for each of its rows."""

    def __init__(self, within: Carrier, count: int) -> None:
        self._within, self._count = within, count
        self.names, self.ledgers = within.names, within.ledgers
        self.row_by_row = True

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, blob in self._within.carry(script, blobs, deadline):
            asked: dict[str, Any] = decode_question(blobs[name]).payload
            fits = asked.keys() == {"rows"} and as_kept(decode(blob), asked["rows"], self._count) is not None
            self.row_by_row = self.row_by_row and fits
            yield name, blob


_ALL_PATTERNS = 4
"""With up to this many peers every pattern of presence is tried; with more, everybody, each one missing, and nobody."""

_HALVINGS, _LEAST_HALF = 20, 10
"""How often validation rows are halved to say what the best way is worth, and how many rows a half must have."""

KEPT = ("train", "valid")
"""The rows for which answers are kept."""


@limit_threads()
def save_model(
    trained: FittedRun,
    folder: Path | str,
    *,
    id: str = "id",  # noqa: A002 the word every reader of a table looks for
    plan: str | None = None,
    keep: bool = True,
    ways: Sequence[AnyAbsent] | None = None,
    replace_old: bool = False,
    data: Mapping[str, OwnData] | None = None,
    deliver: Sequence[str] | None = None,
) -> Card:
    """Write a folder per party, named after it, into `folder`; each may be moved to that party's own machine.

    Where parties have other rows, the model comes home: each party's folder predicts by itself.

    Args:
        id: the column that says who a row is about, in later files; empty if there is none, for horizontal methods.
        plan: the plan of the run as TOML, to be kept with every part.
        keep: whether the hub keeps the answers it has about training and validation rows, and its own such rows.
            Without them it cannot refit, and absent parties cannot be made up for.
        ways: what to do about absent parties: each is fitted and measured for each pattern of presence. None takes all
            of them, with the hub's own model where a head is fitted anew.
        replace_old: whether to replace a model that is already in `folder`, with all its parts and records. How often
            its parts were used is kept, so that the same randomness is not drawn again.
        data: what party files say of each party's data, by which new rows are read; None for tables with the column
            `id`.
        deliver: with other rows, the parties to which the model comes home; None for all.
    """
    folder = Path(folder)
    refuse_full(folder, replace_old=replace_old)
    log, texts = WireLog(), {} if plan is None else {"plan.toml": plan}
    asked, steps = probe(trained)
    abouts = abouts_of(trained, asked, steps, id, data or {})
    keeps = keep and steps is not None and trained.method.kind == "vertical"
    store = _store(trained, steps or (), log) if keeps else None
    _bring_home(trained, deliver, log)
    parts = [_part(party, abouts[party.name], texts) for party in (trained.hub, *trained.others)]
    model = Model(replace(parts[0], store=store), trained.method)
    card = make_card(model, asked, model.ways if ways is None else ways, log.bytes["align"] + log.bytes["final"])
    hub = replace(model.part, heads=model.heads, card=card)
    with unbroken():
        make_private_folder(folder)
        drop_parts(folder, keep={part.about.party for part in parts})
        for part in (hub, *parts[1:]):
            save_part(folder, part)
        note_written(folder)
    return card


def abouts_of(
    trained: FittedRun, asked: Sequence[Asked], steps: tuple[str, ...] | None, id_name: str, data: Mapping[str, OwnData]
) -> dict[str, About]:
    """What each party's part says of itself."""
    said = {name: without_source(one) for name, one in data.items()}
    return {party.name: _about(trained, party, asked, steps, id_name, said) for party in (trained.hub, *trained.others)}


def store_at_hand(trained: FittedRun) -> Store | None:
    """What the hub has of others' answers without asking for more; None if it has none."""
    if trained.method.kind != "vertical" or not _at_hand(trained):
        return None
    return _store(trained, (), WireLog())


def _sent(trained: FittedRun) -> Kept:
    """Answers that the hub has from training."""
    return trained.method.answers_at_hand(trained.hub) if isinstance(trained.method, Cacheable) else {}


def _at_hand(trained: FittedRun) -> Kept:
    """Answers that the hub has from training, if they are about all rows that it keeps answers about."""
    found = _sent(trained)
    # A head that looks at no validation rows never had them sent: then they are asked for like everything else.
    complete = all(cuts.keys() >= set(KEPT) for steps_kept in found.values() for cuts in steps_kept.values())
    return found if complete else {}


def _bring_home(trained: FittedRun, deliver: Sequence[str] | None, log: WireLog) -> None:
    """Send the final model to the parties that do not have it yet, where they can predict from it."""
    model = final_model(trained.method, trained.hub)
    wanted = [one for one in trained.others if deliver is None or one.name in deliver]
    lacking = tuple(one for one in wanted if MODEL not in one.memory)
    if model is None or not lacking:
        return
    with open_calls(lacking) as carrier, log.during("final"):
        home = Homecoming.of(trained.method)
        home.deliver(trained.hub, Peers(home, trained.hub, carrier, log, carrier.names), model)


def _part(party: Party, about: About, texts: dict[str, str]) -> Part:
    """A party's part: what it remembers, or the model that came home to it."""
    ledger = Ledger(party.ledger.entries)
    if MODEL not in party.memory:
        return Part(about, party.memory, ledger, texts=texts)
    return home_part(about, party.memory[MODEL], ledger, texts)


def home_part(about: About, model: dict[str, Any], ledger: Ledger, texts: dict[str, str]) -> Part:
    """The part of a party that has the whole model of its server, and predicts by itself."""
    own = msgspec.structs.replace(about, hub=about.party, peers=(), steps=None, made_by=about.hub)
    return Part(own, model, ledger, texts=texts)


def make_card(model: Model, asked: Sequence[Asked], ways: Sequence[AnyAbsent], crossed: int = 0) -> Card:
    """Who can predict what, measured on the validation rows that the hub keeps."""
    store, about = model.part.store, model.part.about
    measured = [] if store is None else [one for present in _patterns(model) for one in _expect(model, present, ways)]
    return Card(
        method=str(about.method["type"]),
        hub=about.hub,
        label="" if about.task is None else about.task.label,
        asked=tuple(asked),
        kept=store is not None,
        rows=0 if store is None else len(store.people),
        bytes=crossed,
        expected=tuple(measured),
    )


def refuse_worse(before: Card | None, after: Card, accept: bool) -> None:
    """Refuse a change that makes a card worse by more than a standard error, unless accepted.

    The model of everybody is held against that of everybody before, and each pattern of presence against the same
    pattern before, both by the way that does best for it.
    """
    old, new = _best_by_pattern(before), _best_by_pattern(after)
    pairs = [(_of_everybody(before), _of_everybody(after)), *((old.get(present), one) for present, one in new.items())]
    worse = list(dict.fromkeys(words for one, other in pairs if (words := _worse(one, other))))
    if worse and not accept:
        raise DataError(
            f"this makes the model worse: {'; '.join(worse)}; the model is left as it was. Say --accept (accept=True) "
            "to change it all the same"
        )


def _worse(old: Expected | None, new: Expected | None) -> str:
    """How much worse a score has become, in words; empty if by no more than a standard error."""
    if old is None or new is None or old.value is None or new.value is None or old.metric != new.metric:
        return ""
    error = (
        new.value / sqrt(2 * new.rows)
        if new.metric in LOWER_IS_BETTER
        else sqrt(new.value * (1 - new.value) / new.rows)
    )
    lost = new.value - old.value if new.metric in LOWER_IS_BETTER else old.value - new.value
    if lost <= error:
        return ""
    who = "" if new.answer == "all" else f" with {' and '.join(new.present) or 'no other party'} present"
    return (
        f"{metric_name(new.metric)} {figure(new.value)} on {new.rows:,} validation rows{who}, which was "
        f"{figure(old.value)} (a standard error is {figure(error)})"
    )


def _of_everybody(card: Card | None) -> Expected | None:
    return next((one for one in (card.expected if card else ()) if one.answer == "all"), None)


def _best_by_pattern(card: Card | None) -> dict[frozenset[str], Expected]:
    """For each pattern of presence, what to expect by the way that does best."""
    found: dict[frozenset[str], Expected] = {}
    for one in card.expected if card else ():
        if one.answer == Measured.word:
            continue
        known, sign = found.get(frozenset(one.present)), -1 if one.metric in LOWER_IS_BETTER else 1
        if one.value is not None and (known is None or known.value is None or sign * (one.value - known.value) > 0):
            found[frozenset(one.present)] = one
    return found


def _patterns(model: Model) -> list[tuple[str, ...]]:
    """The patterns of presence that are measured, everybody first."""
    peers = model.part.about.peers
    sizes = range(len(peers) + 1) if len(peers) <= _ALL_PATTERNS else (0, len(peers) - 1, len(peers))
    return [present for size in sorted(sizes, reverse=True) for present in combinations(peers, size)]


def _expect(model: Model, present: tuple[str, ...], ways: Sequence[AnyAbsent]) -> list[Expected]:
    """The score on validation rows if only these parties are there, by each way; none if there is nothing to go by."""
    store, task = model.store, model.task
    people, y = store.ids_of("valid"), store.labels_of("valid")
    known = [set(model.part.about.peers) <= have for have in store.knowing(people)]
    ids, y = [one for one, there in zip(people, known, strict=True) if there], y[np.array(known, dtype=bool)]
    for name in set(store.answers) - set(present):
        store = store.as_if_absent(name)
    metric, found, said = headline_metric(task), list[Expected](), list[Array]()
    for way in (None,) if present == model.part.about.peers else ways:
        if not ids or (not store.own.columns and (not present or (way is not None and way.alone))):
            continue
        # With too few rows there is no head for this pattern, and so no answer.
        chosen = way if way is not None and way.can_fit(model.store, present) else WAYS[-1]
        predictions = model.predict_from(store, ids, absent=chosen).predictions
        value = metrics(task, y, predictions).get(metric) if np.isfinite(predictions).all() else None
        answer = "all" if way is None else way.word
        found.append(Expected(present=present, answer=answer, metric=metric, value=value, rows=len(ids)))
        said += [] if value is None else [predictions]
    value = _of_the_best(task, y, said) if len(said) > 1 else None
    if value is not None:
        found.append(Expected(present=present, answer=Measured.word, metric=metric, value=value, rows=len(ids)))
    return found


def _of_the_best(task: Task, y: Array, said: Sequence[Array]) -> float | None:
    """What the best of several ways is worth: chosen by one half of the rows and scored on the other, many times.

    The best score of several on the same rows would promise too much. None if halves are too few to be scored.
    """
    if len(y) < 2 * _LEAST_HALF:
        return None
    rng, sign = np.random.default_rng(0), -1 if headline_metric(task) in LOWER_IS_BETTER else 1
    scores, values = [weighted_score(task, y, one) for one in said], list[float]()
    for _ in range(_HALVINGS):
        order = rng.permutation(len(y))
        order = order if task.kind == "regression" else order[np.argsort(y[order], kind="stable")]
        half = np.zeros(len(y))
        half[order[::2]] = 1.0
        for chosen_by in (half, 1 - half):
            best = int(np.argmax([sign * score(chosen_by) for score in scores]))
            values.append(scores[best](1 - chosen_by))
    return float(np.mean(values))


def _about(
    trained: FittedRun,
    party: Party,
    asked: Sequence[Asked],
    steps: tuple[str, ...] | None,
    id_name: str,
    data: Mapping[str, OwnData],
) -> About:
    table, is_hub, names = party.data, party is trained.hub, {one.party for one in asked}
    return About(
        party=party.name,
        hub=trained.hub.name,
        peers=tuple(one.name for one in trained.others if one.name in names),
        method=msgspec.to_builtins(trained.method),
        seed=party.seed,
        id=id_name,
        columns=table.columns,
        recipe=table.recipe if table.columns else None,
        task=trained.federation.task if is_hub else table.task,
        steps=steps if is_hub else tuple(one.step for one in asked if one.party == party.name),
        data=data.get(party.name),
        people=len({row for rows in table.cuts.values() for row in rows.tolist()}),
        saved=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def without_source(data: OwnData) -> OwnData:
    """What new rows need: how ids are written and files are read, but not where the rows of the training were."""
    return OwnData(
        source="",
        key=data.key,
        ids=data.ids,
        on_duplicate=data.on_duplicate,
        on_empty=data.on_empty,
        delimiter=data.delimiter,
        encoding=data.encoding,
    )


def _store(trained: FittedRun, steps: tuple[str, ...], log: WireLog) -> Store:
    """The hub's rows that it learnt from or is judged by, and what parties answered about them.

    Nobody is asked about rows outside the overlap: who is not shared with a party stays unknown to it.
    """
    table = trained.hub.data
    cuts = {name: table.cut(name) for name in KEPT} | {OWN: own_labelled(trained.hub)}
    ends = np.cumsum([len(rows) for rows in cuts.values()])
    rows = np.concatenate(list(cuts.values()))
    own = table.with_cut("kept", rows).as_new("kept")
    if table.parting is not None and not table.parting.in_time:
        own = own.changed(parting=table.parting._replace(values=table.parting.values[rows]))
    for (name, at), end in zip(cuts.items(), ends.tolist(), strict=True):
        own = own.with_cut(name, np.arange(end - len(at), end))
    store = Store(own, np.asarray(table.y)[rows], {})
    if at_hand := _at_hand(trained):
        kept = as_answers(store, at_hand)
    else:
        with open_calls(trained.others) as carrier:
            hub = Party(trained.hub.name, table, trained.hub.seed, dict(trained.hub.memory))
            shared = [one for name in KEPT for one in store.ids_of(name)]
            kept = collect(trained.method, steps, hub, carrier, shared, log=log)
    store = store.with_answers({name: kept[name] for name in (one.name for one in trained.others) if name in kept})
    return store.with_answers(_paired(trained.hub.data, store, _sent(trained)))


def _paired(table: Table, store: Store, at_hand: Kept) -> dict[str, Answers]:
    """What parties sent, while fitting, about labelled rows of the hub that not all of them have."""
    found, outside = {}, set(store.ids_of(OWN))
    for name, steps in at_hand.items():
        if name in store.answers and all(PAIRED in cuts for cuts in steps.values()):
            ids = table.keys[table.cut(paired_with(name))].tolist()
            sent = {step: as_kept(cuts[PAIRED], PAIRED, len(ids)) for step, cuts in steps.items()}
            found[name] = Answers(tuple(ids), sent).take([one for one in ids if one in outside])
    return found


def as_answers(store: Store, kept: Kept, known: Mapping[str, Array] | None = None) -> dict[str, Answers]:
    """Answers by party, step and cut, as answers by party and id; `known` is which rows of each cut."""
    found: dict[str, Answers] = {}
    for name, steps in kept.items():
        for cut in KEPT:
            ids = store.ids_of(cut) if known is None else np.array(store.ids_of(cut))[known[cut]].tolist()
            some = {step: as_kept(cuts[cut], cut, len(ids)) for step, cuts in steps.items()}
            answers = Answers(tuple(ids), some)
            found[name] = found[name].with_more(answers) if name in found else answers
    return found


SIGNATURE = "signature.toml"
"""The file in a model's folder that says who made the model, and signed it."""


def take_from_site(site: PartySite, out: Path, run: str | None = None, *, replace_old: bool = False) -> Path:
    """The model of a run, by default the last that ended here, as a folder of the party's own within `out`."""
    runs = sorted((site.folder / "runs").glob("*"), key=lambda one: one.stat().st_mtime, reverse=True)
    chosen = [one for one in runs if run in (None, one.name) and (one / "plan.toml").exists()]
    for folder in chosen:
        kept = _kept(folder / "memory", folder / "model")
        if kept is not None:
            plan = read_plan((folder / "plan.toml").read_text(encoding="utf-8"))
            session = online_session(plan, site.consortium)
            refuse_full(out, replace_old=replace_old)
            _keep_server(folder / "model", kept, session, site.ring, out)
            return _save(kept, session, site.ring, out)
    raise PlanError(f"no model came home to {site.name} in {run or 'any run'} yet; see `laconic status {site.folder}`")


def take_from_mail(plan_path: Path, party_path: Path, ring: KeyRing, out: Path, *, replace_old: bool = False) -> Path:
    """The same of a run by envelope."""
    plan, run = read_plan_file(plan_path), find_run(plan_path, party_path)
    kept = _kept(run / "party", run / "model")
    if kept is None:
        raise PlanError(
            f"no model of this plan came home yet in {run}; answer the envelope that brings it with `laconic answer`"
        )
    session = envelope_session(plan, kept.data)
    refuse_full(out, replace_old=replace_old)
    _keep_server(run / "model", kept, session, ring, out)
    return _save(kept, session, ring, out)


def check_home(folder: Path, ring: KeyRing) -> Checked:
    """Whether the model in a folder is as the server that is named there signed it."""
    part = load_part(folder)
    text = part.texts.get(SIGNATURE)
    if text is None:
        return Checked(part.about.party, "unsigned", "the model came from a trial in one process, where nobody signs")
    said = tomllib.loads(text)
    key = ring.named(said["server"])
    if key.verifies(bytes.fromhex(said["signature"]), model_text(part.method(), part.memory, part.about)):
        return Checked(part.about.party, "confirmed", f"the model is as {said['server']} signed it")
    return Checked(part.about.party, "forged", f"the model is not as {said['server']} signed it; take it home again")


def _kept(*folders: Path) -> Party | None:
    """The party of the first of these folders that has a model: its own, or that of the server it runs."""
    for folder in folders:
        kept = PartyFolder(folder)
        if folder.exists() and kept.begun:
            party = kept.load()
            if MODEL in party.memory or folder.name == "model":
                return party
    return None


def _keep_server(folder: Path, kept: Party, session: Session, ring: KeyRing, out: Path) -> None:
    """Beside the model of a party that runs the server too, the server's own, if parties can join and leave that."""
    server = PartyFolder(folder)
    if MODEL in kept.memory and folder.exists() and server.begun and isinstance(session.method, Mergeable):
        _save(server.load(), session, ring, out)


def _save(party: Party, session: Session, ring: KeyRing, out: Path) -> Path:
    plan, method, host = session.plan, session.method, session.host
    model = party.memory.get(MODEL) or final_model(method, party)
    if model is None:
        raise DataError(f"{party.name} has nothing to predict from; {type(method).__name__} asks parties for that")
    signature = party.memory.get(SIGNED, "")
    if MODEL in party.memory and not ring.named(host).verifies(
        bytes.fromhex(signature), model_text(method, model, party.data)
    ):
        raise DataError(
            f"the model at {party.name} is not as {host} signed it; do not use it, and ask {host} to run the plan again"
        )
    table: Table = party.data
    about = About(
        party=party.name,
        hub=party.name,
        peers=(),
        method=msgspec.to_builtins(method),
        seed=plan.seed if MODEL not in party.memory else 0,
        id="",
        columns=table.columns,
        recipe=table.recipe,
        task=table.task,
    )
    texts = {"plan.toml": write_plan(plan)}
    if signature:
        texts[SIGNATURE] = f'server = "{host}"\nsignature = "{signature}"\n'
    if MODEL not in party.memory and isinstance(method, Mergeable):
        # The server's own: with what each party sent, so that one can leave or join.
        return save_part(out, Part(about, dict(party.memory), Ledger(party.ledger.entries), texts=texts))
    return save_part(
        out, home_part(msgspec.structs.replace(about, hub=host), model, Ledger(party.ledger.entries), texts)
    )
