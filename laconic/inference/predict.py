"""A trained model at its hub: predictions by id, from what is stored or by asking, with or without everyone."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from laconic.core.capabilities import Refittable
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.step import Script, step
from laconic.core.traffic import WireLog
from laconic.deploy.result import Result
from laconic.errors import DataError, PartyAbsent, StepError
from laconic.inference.absent import (
    OWN,
    WAYS,
    Abstain,
    Answers,
    AnyAbsent,
    Case,
    FromStore,
    Gaps,
    Measured,
    Refit,
    SoloModel,
    Store,
    Zeros,
    as_kept,
)
from laconic.inference.bundle import Card, Part, load_part
from laconic.inference.bundle_files import HEAD, model_folders, no_model
from laconic.learn.models.best import Mixture
from laconic.shown import counted, figure, html_table, metric_name
from laconic.tables.table import Table
from laconic.tables.task import LOWER_IS_BETTER, Score, Task
from laconic.threads import limit_threads
from laconic.values import Array, Weights

if TYPE_CHECKING:
    from pandas import DataFrame

    from laconic.data.readers.federate import Source
    from laconic.inference.new_rows import PartsAtHand


@dataclass(frozen=True)
class Scores:
    """Predictions, and how each came about.

    Attributes:
        ids: whom they are about.
        predictions: in the shape of `Task.shape`; NaN where there is none.
        present: which parties, beside the hub, had a say in each.
        how: what predicted each: `all`, the word for what was done about absent parties, or why there is no answer.
        task: what is predicted.
    """

    ids: tuple[str, ...]
    predictions: Array
    present: tuple[tuple[str, ...], ...]
    how: tuple[str, ...]
    task: Task

    def __repr__(self) -> str:
        answered = f"{int(self.answered.sum()):,} answered"
        return f"<Scores: {self.task.label} of {counted(len(self.ids), 'row')}, {answered}; to_frame() for a table>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return html_table(f"{self.task.label}, predicted", list(frame.columns), frame.head(_SHOWN).to_numpy().tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def to_frame(self) -> "DataFrame":
        """A table with a line per id: what is predicted, how likely each class is, and how it came about."""
        import pandas

        columns: dict[str, object] = {"id": self.ids, self.task.label: self.decisions}
        if self.task.of_classes:
            named = zip(self.task.classes, self.probabilities.T, strict=True)
            columns |= {f"probability of {name}": shares for name, shares in named}
        columns |= {"answered by": self.how, "parties": ["+".join(one) for one in self.present]}
        return pandas.DataFrame(columns)

    def followed_by(self, others: "Scores") -> "Scores":
        """These scores, and others of the same model after them."""
        predictions = np.concatenate([self.predictions, others.predictions])
        ids, present, how = self.ids + others.ids, self.present + others.present, self.how + others.how
        return Scores(ids, predictions, present, how, self.task)

    @property
    def probabilities(self) -> Array:
        """A column for each class, in their order; NaN where there is no answer."""
        if not self.task.of_classes:
            raise ValueError(f"{self.task.label} is a number, which has no probabilities; use the predictions")
        found = self.predictions.astype(np.float64)
        return found if self.task.kind == "multiclass" else np.stack([1.0 - found, found], axis=1)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each person's score is."""
        return {one: at for at, one in enumerate(self.ids)}

    def with_others(self, places: Sequence[int], others: "Scores") -> "Scores":
        """The same with the scores at these places replaced by others."""
        predictions = self.predictions.astype(np.float64)
        predictions[list(places)] = others.predictions
        present = dict(enumerate(self.present)) | dict(zip(places, others.present, strict=True))
        how = dict(enumerate(self.how)) | dict(zip(places, others.how, strict=True))
        return Scores(self.ids, predictions, tuple(present.values()), tuple(how.values()), self.task)

    def take(self, ids: Sequence[str]) -> "Scores":
        """The scores of these people, in this order, each as often as named."""
        if tuple(ids) == self.ids:
            return self
        at = [self.places[one] for one in ids]
        present, how = tuple(self.present[place] for place in at), tuple(self.how[place] for place in at)
        return Scores(tuple(ids), self.predictions[at], present, how, self.task)

    @property
    def answered(self) -> Array:
        """Whether there is an answer, row by row."""
        return np.asarray(np.isfinite(self.predictions.reshape(len(self.ids), -1)).all(axis=1))

    @property
    def decisions(self) -> list[str | float | None]:
        """The name of the likeliest class, or the number, row by row; None where there is no answer."""
        decided = self.task.decide(np.nan_to_num(self.predictions))
        named = [self.task.classes[one] if self.task.classes else float(one) for one in decided.tolist()]
        return [one if there else None for one, there in zip(named, self.answered.tolist(), strict=True)]


_SHOWN = 20
"""Rows that a notebook shows."""

ASKED = "asked "
"""How the cuts of people who are asked for after training begin."""
_AT_ONCE = 16
"""How many questions about different people a party remembers: several may be under way."""

_MOST = 20_000
"""Ids in one question; the wire takes no more than a hundred thousand values."""


class FindRows(Script, frozen=True):
    """Says to parties which people the next question is about."""

    @step(takes="the ids of the people to be predicted, in the clear", gives="which of these people it knows")
    def find_rows(self, party: Party, ids: list[str], rows: str) -> Array:
        """Put the rows of these people, as far as there are any, into the cut `rows`, in this order."""
        known = np.array([one in party.data.places for one in ids], dtype=bool)
        places = [party.data.places[one] for one in ids if one in party.data.places]
        asked = [name for name in party.data.cuts if name.startswith(ASKED)]
        old = asked[: max(0, len(asked) - _AT_ONCE)]
        party.data = party.data.with_cut(rows, np.array(places, dtype=np.int64), dropping=old)
        return known


def cut_name(ids: Sequence[str]) -> str:
    """A name for the rows of these people; other people, another name: some noise is drawn once for each name."""
    found = blake2b(digest_size=8)
    for one in ids:
        found.update(one.encode() + b"\0")
    return f"{ASKED}{found.hexdigest()}"


def collect(
    method: Method,
    steps: Sequence[str],
    hub: Party,
    carrier: Carrier,
    ids: Sequence[str],
    *,
    log: WireLog | None = None,
    rows: str | None = None,
    deadline: float | None = None,
) -> dict[str, Answers]:
    """What parties answer about these people, by party; whoever is late or lost, or knows none of them, is left out.

    Args:
        steps: the questions that the method asks when it predicts.
        log: where to write what crossed; None to write it nowhere.
        rows: what to call the cut; None for a name of these people's own.
        deadline: seconds for each question; None for as long as the runtime waits.
    """
    log = WireLog() if log is None else log
    found: dict[str, Answers] = {}
    for start in range(0, len(ids) if steps else 0, _MOST):
        some = list(ids[start : start + _MOST])
        peers = Peers(method, hub, carrier, log, carrier.names).tolerant.within(deadline)
        for name, answers in _ask(method, steps, peers, some, rows or cut_name(some)).items():
            found[name] = found[name].with_more(answers) if name in found else answers
    return {name: found[name] for name in carrier.names if name in found}


def _ask(method: Method, steps: Sequence[str], peers: Peers, ids: list[str], rows: str) -> dict[str, Answers]:
    known = find(peers, ids, rows)
    asked = peers.only(tuple(name for name, mask in known.items() if mask.any()))
    found: dict[str, dict[str, Any]] = {name: {} for name in asked.names}
    with peers.log.during("final"):
        for one in steps:
            for name, answer in asked.ask(getattr(method, one), rows=rows).items():
                kept = as_kept(answer, rows, int(known[name].sum()))
                if kept is None:
                    raise StepError(f"{name} did not answer `{one}` with one row for each person it was asked about")
                found[name][one] = kept
    people = {name: tuple(np.array(ids)[mask].tolist()) for name, mask in known.items()}
    return {name: Answers(people[name], answers) for name, answers in found.items() if len(answers) == len(steps)}


def find(peers: Peers, ids: list[str], rows: str) -> dict[str, Array]:
    """Say to parties which people are meant; which of them each party knows."""
    finding = FindRows()
    with peers.log.during("align"):
        found: dict[str, Array] = peers.speaking(finding).ask(finding.find_rows, ids=ids, rows=rows)
    return found


UNKNOWN = "unknown to the hub"
"""What is said of a person whom the hub has no row about."""


@dataclass(frozen=True)
class Model:
    """A model as its hub has it.

    Attributes:
        part: the hub's part.
        method: what it was trained with.
        heads: what was fitted for absent parties, by name; grows as it is used.
        at_hand: how to reach the parties whose parts are on this machine; None if only the hub's is used.
    """

    part: Part
    method: Method
    heads: dict[str, Weights] = field(default_factory=dict, repr=False)
    at_hand: "PartsAtHand | None" = field(default=None, repr=False)

    def __repr__(self) -> str:
        about, result = self.part.about, self.result
        asks = f" with {', '.join(about.peers)}" if about.peers and not self.asks_nobody else ""
        held_out = "" if result is None else f"; {metric_name(result.score.metric)} {figure(result.score.value)}"
        label = "" if about.task is None else f" predicts {about.task.label}"
        return f"<Model of {type(self.method).__name__}: {about.party}{label}{asks}{held_out}>"

    def _repr_html_(self) -> str:
        if self.part.card is not None:
            return self.part.card._repr_html_()
        return f"<b>{escape(repr(self)[1:-1])}</b>{'' if self.result is None else self.result._repr_html_()}"

    @property
    def result(self) -> Result | None:
        """The record of the run, with all that was released since; None for a model that was loaded."""
        return None if self.at_hand is None else self.at_hand.result

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """What each party whose part is at hand has released for this model until now."""
        parts = {} if self.at_hand is None else self.at_hand.parts()
        return {self.part.about.party: self.part.ledger} | {name: part.ledger for name, part in parts.items()}

    def save(self, folder: Path | str, *, keep: bool = True, replace_old: bool = False) -> Card:
        """Write a folder per party into `folder`, and return the model's card; uses are written there from then on.

        Args:
            keep: whether the hub keeps the answers it has about training rows, as for `save_model`.
            replace_old: whether to replace a model that is already there.
        """
        if self.at_hand is None:
            raise DataError(f"only the part of {self.part.about.party} is at hand; save the model where it was fitted")
        return self.at_hand.save(Path(folder), keep=keep, replace_old=replace_old)

    def score(self, rows: "Mapping[str, Source] | Source | None" = None) -> Score:
        """The headline figure: of the rows that were held out from fitting, or of new rows with labels.

        Args:
            rows: as for `predict`, with the label column at the party that has it; None for held-out rows.
        """
        from laconic.inference.new_rows import score_rows

        if rows is not None:
            return score_rows(self, rows)
        if self.result is None:
            raise DataError("a model that was loaded does not hold the rows it was scored on; give rows with labels")
        return self.result.score

    @property
    def task(self) -> Task:
        """What is predicted."""
        task = self.part.about.task
        if task is None:
            raise DataError(f"{self.part.about.party} does not hold the label; load the part of {self.part.about.hub}")
        return task

    @property
    def store(self) -> Store:
        """What the hub keeps."""
        if self.part.store is None:
            raise DataError(
                f"the model of {type(self.method).__name__} keeps no answers, so parties must be asked each time: "
                "give the rows of all parties"
            )
        return self.part.store

    @property
    def asks_nobody(self) -> bool:
        """Whether rows can be predicted here from their cells alone."""
        return self.method.kind == "horizontal" and bool(self.method.predicts_from)

    def predict(
        self,
        rows: "Mapping[str, Source] | Source",
        notes: list[str] | None = None,
        *,
        absent: AnyAbsent = Measured(),  # noqa: B008 (frozen)
        without: Sequence[str] = (),
    ) -> Scores:
        """Predictions for new rows.

        Args:
            rows: each party's new rows by its name, with the id column: pandas, Polars or Arrow tables, or paths of CSV
                or Parquet files. A model that asks nobody, as horizontal ones do, takes one table too; then rows are
                named by their place, counted from 1.
            notes: what was decided when reading, and should be looked at, is added to it; it is logged if this is None.
            absent: what to do about parties without rows here.
            without: parties to treat as absent.
        """
        from laconic.inference.new_rows import predict_rows

        found: list[str] = []
        scores = predict_rows(self, rows, found, absent=absent, without=without)
        for note in found if notes is None else ():
            logging.getLogger("laconic").warning("Read: %s", note)
        if notes is not None:
            notes.extend(found)
        return scores

    def predict_stored(self, ids: Sequence[str], *, absent: AnyAbsent = Abstain()) -> Scores:  # noqa: B008 (frozen)
        """Predictions from what the hub keeps; nobody is asked."""
        return self.predict_from(self.store, ids, absent=absent)

    def predict_from(self, store: Store, ids: Sequence[str], *, absent: AnyAbsent, rows: str | None = None) -> Scores:
        """Predictions from a store, which may hold more than the hub keeps for good.

        Args:
            absent: what to do where a party has not answered for a person.
            rows: the name of the cut for the method; None for a name of these people's own.
        """
        asked, ids = ids, list(dict.fromkeys(ids))
        peers = self.part.about.peers
        patterns: list[tuple[str, ...] | None] = []
        for one, have in zip(ids, store.knowing(ids), strict=True):
            # A hub without columns knows whomever any party knows.
            known = one in store.own.places or (have and not store.own.columns)
            patterns.append(tuple(name for name in peers if name in have) if known else None)
        found: dict[tuple[str, ...], tuple[list[int], Array]] = {}
        words = {peers: "all"}
        with limit_threads():
            for pattern in dict.fromkeys(one for one in patterns if one is not None):
                at = [place for place, one in enumerate(patterns) if one == pattern]
                some = [ids[place] for place in at]
                if pattern == peers:
                    found[pattern] = at, self._whole(store, some, rows=rows)
                    continue
                way = self.way_for(absent, pattern)
                weights = self.head_for(way, pattern) if way.fits else {}
                found[pattern] = at, way.predict(Case(self.task, store, pattern, self._whole), weights, some)
                words[pattern] = way.word
        how = [UNKNOWN if one is None else words[one] for one in patterns]
        present = tuple(one or () for one in patterns)
        return Scores(tuple(ids), self._together(len(ids), found), present, tuple(how), self.task).take(asked)

    @property
    def refit(self) -> Refit:
        """How heads are fitted anew: by the model that was chosen when it was trained, or has been refitted since."""
        part = self.part
        if isinstance(part.about.head, Refit):
            return part.about.head
        if not isinstance(self.method, Refittable) or part.store is None or "model" not in part.memory:
            return Refit()
        learner = self.method.head_as_fitted(part.party(part.store.own))
        return Refit() if learner is None else Refit(learner=learner)

    @property
    def solo(self) -> SoloModel:
        """How the hub predicts alone: by the same kind of model, chosen anew for its own columns if it was chosen."""
        learner = self.refit.learner
        return SoloModel(learner=(learner.chosen_by or learner) if isinstance(learner, Mixture) else learner)

    @property
    def ways(self) -> tuple[AnyAbsent, ...]:
        """The ways to make up for absent parties, with this model's own head where one is fitted anew."""
        own: dict[str, AnyAbsent] = {Refit.word: self.refit, SoloModel.word: self.solo}
        return tuple(own.get(one.word, one) for one in WAYS if one.word != Gaps.word or self.knows_gaps)

    @property
    def knows_gaps(self) -> bool:
        """Whether the model learnt from rows about which some party had sent nothing."""
        part = self.part
        if isinstance(part.about.head, Refit):
            return part.store is not None and bool(len(part.store.own.cuts.get(OWN, ())))
        return isinstance(self.method, Refittable) and bool(part.memory.get("outside"))

    def way_for(self, absent: AnyAbsent, present: tuple[str, ...]) -> AnyAbsent:
        """The way itself, with this model's own head; for `Measured`, the one that the card found best."""
        if absent in (Refit(), SoloModel()):
            return self.refit if isinstance(absent, Refit) else self.solo
        if isinstance(absent, Gaps) and not self.knows_gaps:
            raise DataError(
                "the model learnt from no row about which a party had sent nothing, so that it knows no gaps; take "
                "another way to make up for absent parties, such as best"
            )
        if not isinstance(absent, Measured):
            return absent
        card = self.part.card
        known = [one for one in (card.expected if card else ()) if set(one.present) == set(present)]
        by_word = {one.word: one for one in self.ways}
        scored = [one for one in known if one.value is not None and one.answer in by_word]
        if not scored:
            return self.refit if self.part.store and self.refit.can_fit(self.part.store, present) else Zeros()
        sign = 1 if scored[0].metric in LOWER_IS_BETTER else -1
        return by_word[min(scored, key=lambda one: sign * (one.value or 0.0)).answer]

    def head_for(self, absent: AnyAbsent, present: tuple[str, ...]) -> Weights:
        """What `absent` predicts with when only these parties are there; fitted when first needed."""
        key = head_key(absent, present)
        if key not in self.heads:
            with limit_threads():
                self.heads[key] = absent.fit(Case(self.task, self.store, present, self._whole))
        return self.heads[key]

    def ask(
        self,
        rows: Table,
        carrier: Carrier,
        ids: Sequence[str],
        *,
        absent: AnyAbsent = Zeros(),  # noqa: B008 (frozen)
        log: WireLog | None = None,
        name: str | None = None,
        deadline: float | None = None,
        note: bool = False,
    ) -> Scores:
        """Predictions made by asking the parties that a carrier reaches.

        Args:
            rows: the hub's own rows.
            absent: what to do about a party that does not answer, or does not know a person.
            log: where to write what crossed.
            name: what to call the cut of these people; None for a name of their own.
            deadline: seconds to wait for each answer.
            note: whether to write into the hub's part what it released by asking, such as ids.
        """
        asked, ids, steps = ids, list(dict.fromkeys(ids)), self.part.about.steps
        if steps is None:
            hub = self._asking(rows)
            try:
                return self._direct(hub, carrier, ids, log or WireLog(), name, deadline).take(asked)
            finally:
                self._note(hub, note)
        store = self.store_of(rows, carrier, ids, log=log, name=name, deadline=deadline, note=note)
        return self.predict_from(store, ids, absent=absent, rows=name).take(asked)

    def store_of(
        self,
        rows: Table,
        carrier: Carrier,
        ids: Sequence[str],
        *,
        log: WireLog | None = None,
        name: str | None = None,
        deadline: float | None = None,
        note: bool = False,
    ) -> Store:
        """These rows of the hub, and what the parties that a carrier reaches answer about these people.

        Its arguments are those of `ask`. A model whose parties do not answer row by row has no such answers.
        """
        steps = self.part.about.steps
        if steps is None:
            raise DataError(f"parties of {type(self.method).__name__} do not answer row by row; use ask")
        hub = self._asking(rows)
        hub.turn("final", 0)
        try:
            with limit_threads():
                answers = collect(self.method, steps, hub, carrier, ids, log=log, rows=name, deadline=deadline)
        finally:
            self._note(hub, note)
        kept = {} if self.part.store is None else self.part.store.answers
        forms = {one: kept[one].take(()) for one in self.part.about.peers if one in kept}
        return Store(rows, np.empty(0), forms | answers)

    def _asking(self, rows: Table) -> Party:
        """The hub with these rows and an empty ledger, so that what it releases by asking stands apart."""
        hub = self.part.party(rows)
        hub.ledger = Ledger()
        return hub

    def _note(self, hub: Party, note: bool) -> None:
        if note:
            self.part.note_releases(hub.ledger.entries)

    def _direct(
        self, hub: Party, carrier: Carrier, ids: Sequence[str], log: WireLog, name: str | None, deadline: float | None
    ) -> Scores:
        """Let the method ask as it pleases: everybody must be there and know everyone."""
        lacking = [one for one in self.part.about.peers if one not in carrier.names]
        if lacking and self.method.kind == "vertical":
            raise DataError(
                f"{type(self.method).__name__} predicts with all parties, and {' and '.join(lacking)} is not there; "
                "give the rows of everybody, or use a method that can do without, such as FedOnce"
            )
        some = list(ids)
        cut = name or cut_name(some)
        peers = Peers(self.method, hub, carrier, log, carrier.names).within(deadline)
        with limit_threads():
            if self.method.kind == "vertical":
                for party, mask in find(peers, some, cut).items():
                    if not mask.all():
                        first = some[int((~mask).argmax())]
                        raise DataError(
                            f"{party} does not know {int((~mask).sum())} of {len(ids)} people, such as {first!r}, and "
                            f"{type(self.method).__name__} cannot predict without; leave them out"
                        )
            if hub.data.rows:
                hub.data = hub.data.with_cut(cut, _places(hub.data, some))
            log.phase = "final"
            hub.turn("final", 0)
            predictions = self.method.predict(hub, peers, cut)
        present = (self.part.about.peers,) * len(ids)
        return Scores(tuple(ids), predictions, present, ("all",) * len(ids), self.task)

    def _together(self, rows: int, found: dict[tuple[str, ...], tuple[list[int], Array]]) -> Array:
        """Predictions of all groups of people, in the order asked; one group alone stays as it is, to the bit."""
        for at, predictions in found.values():
            if len(at) == rows:
                return predictions
        together = np.full(self.task.shape(rows), np.nan)
        for at, predictions in found.values():
            together[at] = predictions
        return together

    def _whole(
        self,
        store: Store,
        ids: Sequence[str],
        zeros: frozenset[str] = frozenset(),
        gaps: frozenset[str] = frozenset(),
        rows: str | None = None,
    ) -> Array:
        """The model of all parties, with zeros for some and gaps for others."""
        peers = self.part.about.peers
        if lacking := tuple(name for name in peers if name not in store.answers):
            raise PartyAbsent(lacking, "predict")
        answers = {
            name: store.answers[name].zeros(len(ids)) if name in zeros else store.answers[name].take(ids)
            for name in peers
            if name not in gaps
        }
        head = self.part.about.head
        own = store.own if store.own.columns else _nobody(store.own, ids)
        if head is not None:
            filled = {name: store.answers[name].take(()) for name in peers}
            filled |= {name: replace(one, ids=tuple(ids)) for name, one in answers.items()}
            weights = self.heads[head_key(head, peers)]
            return head.predict(Case(self.task, Store(own, store.y, filled), peers, self._whole), weights, ids)
        cut = rows or cut_name(ids)
        hub = self.part.party(own.with_cut(cut, _places(own, ids)))
        hub.turn("final", 0)
        carrier = FromStore(answers)
        return self.method.predict(hub, Peers(self.method, hub, carrier, WireLog(), carrier.names), cut)


def load_model(path: Path | str, *, method: type[Method] | None = None) -> Model:
    """The model in a folder: the hub's own, or one that holds a folder per party.

    Args:
        method: the class of its method, for one that no installed package offers.
    """
    from laconic.inference.local_transport import SavedParts

    part = load_part(hub_folder(Path(path)))
    if part.about.party != part.about.hub:
        raise DataError(
            f"{path} is the part of {part.about.party}, which only answers questions; load that of {part.about.hub}"
        )
    return Model(part, part.method(method), dict(part.heads), SavedParts(Path(path)))


def hub_folder(path: Path) -> Path:
    """The hub's folder of a model: the path itself, or the one within it."""
    if (path / HEAD).is_file() or not path.is_dir():
        return path
    parts = model_folders(path)
    hubs = [one for one in parts if (one / "heads.json").is_file()]
    if len(hubs) == 1:
        return hubs[0]
    if not parts:
        raise no_model(path)
    raise DataError(
        f"{path} holds {len(parts)} parts of models, {len(hubs)} of them a hub's; name the hub's own folder"
    )


def head_key(absent: AnyAbsent, present: Sequence[str]) -> str:
    """The name of what was fitted for absent parties."""
    return msgspec.json.encode([absent, sorted(present) if absent.by_pattern else []]).decode()


def _places(table: Table, ids: Sequence[str]) -> Array:
    unknown = [one for one in ids if one not in table.places]
    if unknown:
        raise DataError(
            f"{table.party} does not know {len(unknown)} of {len(ids)} people, such as {unknown[0]!r}; leave them out "
            "or add their rows"
        )
    return np.array([table.places[one] for one in ids], dtype=np.int64)


def _nobody(own: Table, ids: Sequence[str]) -> Table:
    """Rows without columns, for a hub that has only labels."""
    return Table(np.empty((len(ids), 0)), (), ids=list(ids), task=own.task, party=own.party, recipe=own.recipe)
