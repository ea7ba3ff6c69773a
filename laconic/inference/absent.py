"""What to do at predict time about parties that are not there: a choice by value.

Everything here works from the hub's store: no party is asked again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.step import Script
from laconic.core.wire import decode_question, encode
from laconic.errors import DataError
from laconic.learn.models.learners import AnyLearner, NetModel
from laconic.learn.models.supervised import Shard
from laconic.learn.nets.nets import Mlp
from laconic.learn.train.sgd import Sgd
from laconic.tables.table import Parting, Table
from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights, flat

_CUT = "\0cut"
"""Stands for the name of the cut in answers that name it: another cut will be asked for."""

OWN = "own"
"""The hub's cut of labelled rows outside the overlap: learnt from, and of nobody who is predicted from the store."""


@dataclass(frozen=True)
class Answers:
    """What one party answered, row by row.

    Attributes:
        ids: whose rows, as text.
        steps: by step: an array with a row for each id, or a dict of such arrays.
    """

    ids: tuple[str, ...]
    steps: dict[str, Any]

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each id's row is."""
        return {one: at for at, one in enumerate(self.ids)}

    @property
    def block(self) -> Array:
        """All numbers of each row side by side, float32."""
        blocks = [flat(array).astype(np.float32) for array in _arrays(self.steps)]
        return np.concatenate([np.zeros((len(self.ids), 0), np.float32), *blocks], axis=1)

    def block_of(self, ids: Sequence[str]) -> Array:
        """All numbers side by side, a row for each id; NaN where there is no answer."""
        block = self.block
        found = np.full((len(ids), block.shape[1]), np.nan, np.float32)
        known = [at for at, one in enumerate(ids) if one in self.places]
        found[known] = block[[self.places[ids[at]] for at in known]]
        return found

    def take(self, ids: Sequence[str]) -> "Answers":
        """The rows of these ids, in this order."""
        at = np.array([self.places[one] for one in ids], dtype=np.int64)
        return Answers(tuple(ids), _each(self.steps, lambda array: array[at]))

    def with_more(self, more: "Answers") -> "Answers":
        """These rows, and after them those that are new in `more`; a row that both have is taken from `more`."""
        kept = self.take([one for one in self.ids if one not in more.places])
        return Answers(kept.ids + more.ids, _beneath(kept.steps, more.steps))

    def zeros(self, count: int) -> "Answers":
        """As many rows of zeros in the same form."""
        steps = _each(self.steps, lambda array: np.zeros((count, *array.shape[1:]), array.dtype))
        return Answers(tuple(str(place) for place in range(count)), steps)

    def for_cut(self, step: str, rows: str) -> Any:
        """The answer to a step asked for the cut `rows`."""
        return _renamed(self.steps[step], _CUT, rows)


def as_kept(answer: Any, rows: str, count: int) -> Any:
    """An answer in the form in which it is kept, or None if it has not one row for each of the `count` asked for."""
    answer = _renamed(answer, rows, _CUT)
    arrays = list(_arrays(answer))
    fits = bool(arrays) and all(isinstance(one, np.ndarray) and one.ndim and len(one) == count for one in arrays)
    return answer if fits else None


@dataclass(frozen=True)
class Store:
    """The hub's own rows and labels, and every party's answers.

    Attributes:
        own: the hub's rows, with cuts "train" and "valid" for those that heads are fitted to and judged by, and "own"
            for labelled rows outside the overlap, from which heads learn too.
        y: a label for each of those rows; -1 or NaN where there is none.
        answers: by party.
    """

    own: Table
    y: Array
    answers: dict[str, Answers]

    def ids_of(self, cut: str) -> list[str]:
        """The ids of a cut's rows."""
        return [str(one) for one in self.own.keys[self.own.cut(cut)]]

    def labels_of(self, cut: str) -> Array:
        """The labels of a cut's rows."""
        return np.asarray(self.y[self.own.cut(cut)])

    def groups_of(self, ids: Sequence[str]) -> Array | None:
        """The group of each id's row; None if rows were not parted by groups."""
        parting = self.own.parting
        return None if parting is None else parting.values[[self.own.places[one] for one in ids]]

    @property
    def people(self) -> list[str]:
        """Everybody whom the hub predicts from what it keeps: all but those outside the overlap, known to nobody."""
        ids = self.own.keys.tolist()
        outside = set(self.own.cuts.get(OWN, np.empty(0)).tolist())
        known = self.knowing(ids)
        return [one for place, one in enumerate(ids) if place not in outside or known[place]]

    def knowing(self, ids: Sequence[str]) -> list[frozenset[str]]:
        """Which parties have answered for each id."""
        return [frozenset(name for name, one in self.answers.items() if person in one.places) for person in ids]

    def inputs(self, ids: Sequence[str], parties: Sequence[str]) -> Array:
        """The hub's columns and these parties' numbers side by side, a row for each id; NaN for what is not known."""
        blocks = [self.answers[name].block_of(ids) for name in parties]
        if self.own.columns:
            x = self.own.x[[self.own.places[one] for one in ids]]
            blocks.insert(0, flat(x))
        if not blocks:
            raise DataError(f"{self.own.party} has no columns of its own, so it cannot predict without any other party")
        return np.concatenate(blocks, axis=1)

    def as_if_absent(self, party: str) -> "Store":
        """The same as if a party had answered about nobody; the form of its answers stays known."""
        return Store(self.own, self.y, self.answers | {party: self.answers[party].take(())})

    def without(self, party: str) -> "Store":
        """The same without a party's answers."""
        return Store(self.own, self.y, {name: one for name, one in self.answers.items() if name != party})

    def with_answers(self, more: Mapping[str, Answers]) -> "Store":
        """The same with more answers."""
        joined = {name: kept.with_more(more[name]) for name, kept in self.answers.items() if name in more}
        return Store(self.own, self.y, {**self.answers, **more, **joined})

    def with_rows(self, more: Table, y: Array, cut: str | None) -> "Store":
        """The same with more rows of the hub, in cut `cut` too if one is named.

        A row that is there already stays as it is, but takes its label, and is in that cut, if it was in none to learn
        or to judge by.
        """
        new = [at for at, key in enumerate(more.keys.tolist()) if key not in self.own.places]
        count, labels, cuts = self.own.rows, self.y.copy(), dict(self.own.cuts)
        if cut is not None:
            fixed = set(np.concatenate([cuts[name] for name in ("train", "valid")]).tolist())
            there = {self.own.places[key]: at for at, key in enumerate(more.keys.tolist()) if key in self.own.places}
            moved = np.array([place for place in there if place not in fixed], dtype=np.int64)
            labels[moved] = y[[there[place] for place in moved.tolist()]]
            cuts |= {OWN: np.setdiff1d(cuts[OWN], moved)} if OWN in cuts else {}
            cuts[cut] = np.concatenate([cuts[cut], moved, count + np.arange(len(new))])
        own = Table(
            np.concatenate([self.own.raw, more.raw[new]]),
            self.own.columns,
            ids=[*self.own.keys.tolist(), *more.keys[new].tolist()],
            task=self.own.task,
            cuts=cuts,
            party=self.own.party,
            recipe=self.own.recipe,
            parting=_with_singles(self.own.parting, len(new)),
        )
        return Store(own, np.concatenate([labels, y[new]]), self.answers)

    def to_plain(self) -> dict[str, Any]:
        """The hub's own rows as plain values; answers are kept party by party."""
        return {"table": self.own.to_plain(), "y": self.y}


class FromStore:
    """Parties that answer from the store: a carrier, for a method that believes it is asking them."""

    def __init__(self, answers: Mapping[str, Answers]) -> None:
        self._answers, self.names = answers, tuple(answers)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        """Give again what was answered before."""
        for name, blob in blobs.items():
            question = decode_question(blob)
            if name in self._answers:
                yield name, encode(self._answers[name].for_cut(question.step, question.payload["rows"]))

    def ledgers(self) -> dict[str, Ledger]:
        """Nothing is given away."""
        return {}


def _with_singles(parting: Parting | None, count: int) -> Parting | None:
    """The same groups, and so many more of one row each."""
    if parting is None:
        return None
    last = parting.values.max(initial=0.0)
    return parting._replace(values=np.concatenate([parting.values, last + 1 + np.arange(count)]))


def _renamed(answer: Any, old: str, new: str) -> Any:
    return {new if key == old else key: one for key, one in answer.items()} if isinstance(answer, dict) else answer


def _arrays(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for inner in tree.values():
            yield from _arrays(inner)
    else:
        yield tree


def _each(tree: Any, change: Any) -> Any:
    return {key: _each(inner, change) for key, inner in tree.items()} if isinstance(tree, dict) else change(tree)


def _beneath(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: _beneath(one[key], other[key]) for key in one}
    return np.concatenate([one, other])


_LEAST_ROWS = 10
"""Fewer labelled rows than this fit no head."""

_NET = NetModel(net=Mlp(hidden=(64,)), trainer=Sgd(epochs=40, batch=256, lr=3e-3, patience=5))


class Case(NamedTuple):
    """Some parties are absent: what there is to predict from.

    Attributes:
        task: what is predicted.
        store: the hub's rows, and all answers.
        present: the parties that are there, beside the hub.
        joint: the model of all parties: its predictions from a store for these people, with zeros for the answers of
            these parties, and gaps for those of others.
    """

    task: Task
    store: Store
    present: Sequence[str]
    joint: Callable[[Store, Sequence[str], frozenset[str], frozenset[str]], Array]


class _Way(Settings, frozen=True):
    """Abstract: a way to predict without some parties; here, one for which nothing has to be learnt.

    Attributes:
        word: what it is called. fits: whether something is learnt, and `by_pattern` whether for each pattern of
            presence. alone: whether the hub uses nothing but its own columns.
    """

    word: ClassVar[str]
    fits: ClassVar[bool] = False
    by_pattern: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def can_fit(self, store: Store, present: Sequence[str]) -> bool:
        """Whether there is enough to learn from."""
        return True

    def fit(self, case: Case) -> Weights:
        """What is learnt."""
        return {}


class Zeros(_Way, frozen=True):
    """Absent parties' numbers count as zeros, and the model stays as it is."""

    word: ClassVar[str] = "zeros"

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The joint model's predictions."""
        return case.joint(case.store, ids, frozenset(case.store.answers) - set(case.present), frozenset())


class Gaps(_Way, frozen=True):
    """Absent parties' numbers are missing, and the model, which learnt from rows that lacked some, stays as it is."""

    word: ClassVar[str] = "gaps"

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The joint model's predictions."""
        return case.joint(case.store, ids, frozenset(), frozenset(case.store.answers) - set(case.present))


class Refit(_Way, frozen=True):
    """A head is fitted for this pattern of presence, to the stored answers of the parties that are there.

    Attributes:
        learner: the head, a model of the hub's columns and those answers side by side.
        seed: for its first weights.
    """

    word: ClassVar[str] = "refit"
    fits: ClassVar[bool] = True
    by_pattern: ClassVar[bool] = True

    learner: AnyLearner = _NET
    seed: int = 0

    def can_fit(self, store: Store, present: Sequence[str]) -> bool:
        """Whether enough training rows are known to the parties present."""
        return len(_labelled(store, "train", present)[0]) >= _LEAST_ROWS

    def fit(self, case: Case) -> Weights:
        """Fit to the training rows that all parties present have answered for, and to all others that can be used.

        Others are training rows that only some of them know, and the hub's labelled rows outside the overlap: learners
        that take gaps learn from all, and any learner does if nobody else is present.
        """
        store, present = case.store, case.present
        ids, y = _labelled(store, "train", present)
        if not self.can_fit(store, present):
            raise DataError(
                f"only {len(ids)} training rows are known to {', '.join((store.own.party, *present))} together: too "
                "few to refit a head; use another way to make up for absent parties"
            )
        rng = np.random.default_rng(self.seed)
        (x, y), valid = _held_back(self.learner, (store.inputs(ids, present), y), rng)
        more, more_y = _others(store, present) if self.learner.takes_gaps or not present else (x[:0], y[:0])
        x, y, judged = np.concatenate([x, more]), np.concatenate([y, more_y]), len(y)
        return self.learner.fit_all(case.task, x, y, rng, valid, judged)

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The head's predictions."""
        return self.learner.predict(case.task, weights, case.store.inputs(ids, case.present))


class SoloModel(_Way, frozen=True):
    """Whoever is absent, the hub predicts from its own columns, by a model that learnt from all its labels.

    Attributes:
        learner: the model.
        seed: for its randomness.
    """

    word: ClassVar[str] = "solo"
    fits: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    learner: AnyLearner = _NET
    seed: int = 0

    def can_fit(self, store: Store, present: Sequence[str]) -> bool:
        """Whether the hub has columns, and enough labels."""
        return bool(store.own.columns) and len(store.ids_of("train")) + len(_others(store, ())[1]) >= _LEAST_ROWS

    def fit(self, case: Case) -> Weights:
        """Learn from the hub's columns of all rows for which it has a label, in the overlap and outside."""
        store, rng = case.store, np.random.default_rng(self.seed)
        ids, (more, more_y) = store.ids_of("train"), _others(store, ())
        x = np.concatenate([store.inputs(ids, ()), more])
        groups = store.groups_of([*ids, *(store.ids_of(OWN) if OWN in store.own.cuts else ())])
        rows, valid = _held_back(self.learner, (x, np.concatenate([store.labels_of("train"), more_y])), rng)
        return self.learner.fit_all(case.task, *rows, rng, valid, groups=groups if valid is None else None)

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The solo model's predictions."""
        return self.learner.predict(case.task, weights, case.store.inputs(ids, ()))


class Abstain(_Way, frozen=True):
    """No answer unless everybody is there."""

    word: ClassVar[str] = "abstain"

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """NaN: no answer."""
        return np.full(case.task.shape(len(ids)), np.nan)


class Measured(_Way, frozen=True):
    """The way that did best for this pattern of presence on the validation rows, as the model's card says.

    `Model.way_for` looks it up; nothing is predicted by this way itself.
    """

    word: ClassVar[str] = "best"

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """No answer: another way is taken before it comes to this."""
        return Abstain().predict(case, weights, ids)


AnyAbsent: TypeAlias = Zeros | Gaps | Refit | SoloModel | Abstain | Measured
WAYS: tuple[AnyAbsent, ...] = (Zeros(), Gaps(), Refit(), SoloModel(), Abstain())


def _labelled(store: Store, cut: str, parties: Sequence[str]) -> tuple[list[str], Array]:
    """The people of a cut whom all these parties have answered for, and their labels."""
    ids, y = store.ids_of(cut), store.labels_of(cut)
    there = [place for place, known in enumerate(store.knowing(ids)) if known >= set(parties)]
    return [ids[place] for place in there], y[there]


def _others(store: Store, present: Sequence[str]) -> Shard:
    """Labelled rows that not all parties present have answered for, with gaps: training rows, and those outside."""
    known = {*_labelled(store, "train", present)[0]}
    found = [
        (one, y) for one, y in zip(store.ids_of("train"), store.labels_of("train"), strict=True) if one not in known
    ]
    if OWN in store.own.cuts:
        found += zip(store.ids_of(OWN), store.labels_of(OWN), strict=True)
    if not store.own.columns:
        some = store.knowing([one for one, _ in found])
        found = [one for one, knows in zip(found, some, strict=True) if knows & set(present)]
    x = store.inputs([one for one, _ in found], present)
    return x, np.array([y for _, y in found], dtype=store.y.dtype)


def _held_back(learner: AnyLearner, rows: Shard, rng: Rng) -> tuple[Shard, Shard | None]:
    """The rows, and a tenth of them to stop early by, for learners that do.

    Validation rows would do, but the card is measured on them, and would promise too much.
    """
    (x, y), count = rows, len(rows[1]) // 10
    if "valid" not in learner.cuts or not count:
        return rows, None
    order = rng.permutation(len(y))
    return (x[order[count:]], y[order[count:]]), (x[order[:count]], y[order[:count]])
