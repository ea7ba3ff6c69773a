"""Why a prediction is what it is: the share of each party, and of each column of the hub.

Shares are Shapley values. A person's cells and numbers are put, one after the other in a drawn order, in the place of
those of somebody the model was trained on; what each changes in the prediction is its share in that order. The mean
over many people and orders is its share. This works for every model that predicts from what the hub holds: trees,
linear models, nets, stacks and estimators of one's own. Of a linear model of numbers the shares are exact, given the
people compared with; of others they are means with a standard error. In any case they add up to the prediction, less
what is said of the people compared with.

Nobody is asked: the hub has the numbers from which it predicts. But whoever is shown the shares learns how far another
party's numbers moved a prediction, and so something of what that party knows of the person.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laconic.errors import DataError
from laconic.inference.absent import Abstain, Answers, AnyAbsent, Store
from laconic.inference.predict import Model
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, check_least, track

if TYPE_CHECKING:
    from pandas import DataFrame

_AT_ONCE = 20_000
"""Rows predicted at a time."""


@dataclass(frozen=True)
class Reasons:
    """What moved each prediction.

    Attributes:
        ids: whom the predictions are about.
        task: what is predicted.
        said: the number predicted; for classes, the probability of the second of two, or of the likeliest of several.
        base: the mean of the same over the people compared with.
        names: what has a share: parties, then the hub's columns as `bank: income`.
        shares: by person and name: how far it moved the prediction from `base`; they sum to `said` - `base`. 0 for a
            party that had no say, NaN without an answer.
        errors: the standard error of each share, as a mean over the people compared with.
    """

    ids: tuple[str, ...]
    task: Task
    said: Array
    base: Array
    names: tuple[str, ...]
    shares: Array
    errors: Array

    @property
    def about(self) -> str:
        """What the shares are shares of, in words."""
        words = {
            "regression": f"the {self.task.label} predicted",
            "survival": "the logarithm of the events expected",
            "multiclass": "the probability of the class predicted",
        }
        return words.get(self.task.kind) or f"the probability of {self.task.label} {self.task.classes[1]}"

    @property
    def error(self) -> float:
        """The standard error that half of all shares do not pass."""
        known = self.errors[np.isfinite(self.errors)]
        return float(np.median(known)) if known.size else float("nan")

    def to_frame(self) -> "DataFrame":
        """A table with a line per id: `base`, and a column for each share."""
        import pandas

        columns = {"base": self.base} | {
            f"share of {name}": self.shares[:, place] for place, name in enumerate(self.names)
        }
        return pandas.DataFrame({"id": self.ids} | columns)


@limit_threads()
def explain(
    model: Model,
    ids: Sequence[str],
    *,
    store: Store | None = None,
    absent: AnyAbsent = Abstain(),  # noqa: B008 (frozen)
    people: int = 16,
    seed: int = 0,
) -> Reasons:
    """The share of each party, and of each column of the hub, in predictions.

    Args:
        model: the hub's model, which must keep answers about the people it was trained on.
        ids: whose predictions.
        store: the rows and answers to predict from, as `Model.store_of` collects them; None for what the hub keeps.
        absent: what is done where a party has not answered for a person, as in predicting.
        people: with how many people of the training rows each is compared, in two orders each. More take longer, and
            make shares more exact.
        seed: for who they are, and for the orders.

    Raises:
        DataError: the model keeps no answers, so that there is nobody to compare with.
    """
    check_least(1, people=people)
    refuse_without_answers(model)
    given = model.store if store is None else store
    scores = model.predict_from(given, ids, absent=absent)
    own = _own_players(given.own)
    found = _Sums(len(ids), (*model.part.about.peers, *own))
    groups: dict[tuple[str, ...], list[int]] = {}
    for place in np.flatnonzero(scores.answered).tolist():
        groups.setdefault(scores.present[place], []).append(place)
    for present, at in groups.items():
        way = model.way_for(absent, present)
        walks = _Walks(model, given, present, [*(() if way.alone else present), *own], way, seed)
        at_once = max(1, _AT_ONCE // (len(walks.players) + 1))
        for some in np.split(np.array(at), range(at_once, len(at), at_once)):
            walks.add(found, some, [scores.ids[place] for place in some], people)
    return found.reasons(scores.ids, model.task)


def refuse_without_answers(model: Model) -> None:
    """Refuse a model that cannot say why: one that keeps nothing of the people it was trained on."""
    if model.part.store is None:
        raise DataError(
            f"the model of {type(model.method).__name__} keeps no answers about the people it was trained on, so that "
            "reasons have nothing to compare with; leave reasons out, or train a model that does, such as FedOnce"
        )


def _own_players(own: Table) -> list[str]:
    """What of the hub's own row has a share: each column, or all of an image."""
    names = [one.name for one in own.columns] if own.raw.ndim == 2 else ["image"]
    return [f"{own.party}: {one}" for one in names]


class _Sums:
    """Shares as they are added up."""

    def __init__(self, rows: int, names: tuple[str, ...]) -> None:
        self.names = names
        self.said, self.base = np.full(rows, np.nan), np.full(rows, np.nan)
        self.shares, self.errors = (np.full((rows, len(names)), np.nan) for _ in range(2))

    def reasons(self, ids: Sequence[str], task: Task) -> Reasons:
        return Reasons(tuple(ids), task, self.said, self.base, self.names, self.shares, self.errors)


class _Walks:
    """Ways from somebody of the training rows to a person, one cell or party's numbers at a time."""

    def __init__(
        self, model: Model, store: Store, present: tuple[str, ...], players: Sequence[str], way: AnyAbsent, seed: int
    ) -> None:
        self.model, self.store, self.present, self.players, self.way = model, store, present, players, way
        self.seed, self.kept = seed, model.store
        self.own = _own_players(store.own)
        known = self.kept.ids_of("train")
        self.others = [one for one, have in zip(known, self.kept.knowing(known), strict=True) if have >= set(present)]
        if not self.others:
            raise DataError(
                f"nobody of the training rows is known to {' and '.join(present)} together, so that reasons have "
                "nothing to compare with; leave reasons out"
            )

    def add(self, found: _Sums, places: Array, ids: Sequence[str], people: int) -> None:
        """Work out the shares for these people."""
        rng = np.random.default_rng(self.seed)
        compared = [self.others[place] for place in rng.permutation(len(self.others))[:people]]
        said, decided = self._ends(ids)
        base, moves = [], []
        for turn in track(len(compared), "reasons"):
            order = rng.permutation(len(self.players))
            both = [self._moves(ids, compared[turn], one, decided) for one in (order, order[::-1])]
            base.append(both[0][0])
            moves.append((both[0][1] + both[1][1]) / 2)
        where = np.ix_(places, np.array([found.names.index(name) for name in self.players]))
        found.said[places], found.base[places] = said, np.mean(base, axis=0)
        found.shares[places], found.errors[places] = 0.0, 0.0
        found.shares[where] = np.mean(moves, axis=0)
        spread = np.std(moves, axis=0, ddof=1) if len(moves) > 1 else np.full(moves[0].shape, np.nan)
        found.errors[where] = spread / np.sqrt(len(moves))

    def _ends(self, ids: Sequence[str]) -> tuple[Array, Array]:
        """What is predicted of these people, and which class it is about."""
        predictions = self._predict(
            _rows(self.store, ids), {name: self.store.answers[name].take(ids) for name in self.present}
        )
        several = predictions.ndim == 2 and self.model.task.kind == "multiclass"
        decided = predictions.argmax(axis=1) if several else np.zeros(len(ids), dtype=np.int64)
        return _about(predictions, decided), decided

    def _moves(self, ids: Sequence[str], other: str, order: Array, decided: Array) -> tuple[Array, Array]:
        """What is said of the other person, and how far each part of the way moves that towards these people."""
        count, steps = len(ids), len(order) + 1
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        theirs = np.repeat(_rows(self.store, ids)[None], steps, axis=0)
        before = _rows(self.kept, [other])[0]
        for place in range(len(self.own)):
            late = rank[len(self.players) - len(self.own) + place] + 1
            if theirs.ndim == 3:
                theirs[:late, :, place] = before[place]
            else:
                theirs[:late] = before
        answers = {}
        for name in self.present:
            late = rank[self.players.index(name)] + 1 if name in self.players else 0
            which = self.store.answers[name].take(ids), self.kept.answers[name].take([other])
            answers[name] = _mixed(*which, count, steps, int(late))
        predictions = self._predict(theirs.reshape(-1, *theirs.shape[2:]), answers)
        path = _about(predictions, np.tile(decided, steps)).reshape(steps, count)
        return path[0], np.diff(path, axis=0)[rank].T

    def _predict(self, raw: Array, answers: dict[str, Answers]) -> Array:
        ids = [str(place) for place in range(len(raw))]
        own = self.store.own
        table = Table(raw, own.columns, ids=ids, task=own.task, party=own.party, recipe=own.recipe)
        forms = {name: one.take(()) for name, one in self.store.answers.items()}
        named = {name: Answers(tuple(ids), one.steps) for name, one in answers.items()}
        return self.model.predict_from(Store(table, np.empty(0), forms | named), ids, absent=self.way).predictions


def _rows(store: Store, ids: Sequence[str]) -> Array:
    """The hub's cells of these people; no cells if it has no columns."""
    if not store.own.columns:
        return np.empty((len(ids), 0))
    return np.asarray(store.own.raw[[store.own.places[one] for one in ids]])


def _mixed(these: Answers, other: Answers, count: int, steps: int, late: int) -> Answers:
    """For each part of a way the other person's answers until `late`, and then these people's own."""
    everyone, somebody = [str(place) for place in range(count)], "other"
    both = Answers(tuple(everyone), these.steps).with_more(Answers((somebody,), other.steps))
    wanted = [somebody] * (count * late) + everyone * (steps - late)
    return both.take(wanted)


def _about(predictions: Array, decided: Array) -> Array:
    """One number per row: the prediction, or the probability of the class that it is about."""
    if predictions.ndim == 1:
        return predictions.astype(np.float64)
    return np.asarray(predictions[np.arange(len(predictions)), decided], dtype=np.float64)
