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
from laconic.learn.models.supervised import fit_supervised, fit_to_shares, predict_supervised
from laconic.learn.nets.nets import Mlp, make, weights_of
from laconic.learn.train.sgd import Sgd
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array, Settings, Weights, flat

_CUT = "\0cut"
"""Stands for the name of the cut in answers that name it: another cut will be asked for."""


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
        own: the hub's rows, with cuts "train" and "valid" for those that heads are fitted to and judged by.
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

    def knowing(self, ids: Sequence[str]) -> list[frozenset[str]]:
        """Which parties have answered for each id."""
        return [frozenset(name for name, one in self.answers.items() if person in one.places) for person in ids]

    def inputs(self, ids: Sequence[str], parties: Sequence[str]) -> Array:
        """The hub's columns and these parties' numbers side by side, a row for each id."""
        blocks = [self.answers[name].take(ids).block for name in parties]
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
        """The same with more rows of the hub, in cut `cut` too if one is named; rows that are there already stay."""
        new = [at for at, key in enumerate(more.keys.tolist()) if key not in self.own.places]
        count = self.own.rows
        cuts = dict(self.own.cuts)
        if cut is not None:
            cuts[cut] = np.concatenate([cuts[cut], count + np.arange(len(new))])
        own = Table(
            np.concatenate([self.own.raw, more.raw[new]]),
            self.own.columns,
            ids=[*self.own.keys.tolist(), *more.keys[new].tolist()],
            task=self.own.task,
            cuts=cuts,
            party=self.own.party,
            recipe=self.own.recipe,
        )
        return Store(own, np.concatenate([self.y, y[new]]), self.answers)

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


class Case(NamedTuple):
    """Some parties are absent: what there is to predict from.

    Attributes:
        task: what is predicted.
        store: the hub's rows, and all answers.
        present: the parties that are there, beside the hub.
        joint: the model of all parties: its predictions from a store for these people, with zeros for the answers of
            these parties.
    """

    task: Task
    store: Store
    present: Sequence[str]
    joint: Callable[[Store, Sequence[str], frozenset[str]], Array]


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
        return case.joint(case.store, ids, frozenset(case.store.answers) - set(case.present))


class Refit(_Way, frozen=True):
    """A head is fitted for this pattern of presence, to the stored answers of the parties that are there.

    Attributes:
        learner: the head, a model of the hub's columns and those answers side by side.
        seed: for its first weights.
    """

    word: ClassVar[str] = "refit"
    fits: ClassVar[bool] = True
    by_pattern: ClassVar[bool] = True

    learner: AnyLearner = NetModel(net=Mlp(hidden=(64,)), trainer=Sgd(epochs=40, batch=256, lr=3e-3, patience=5))
    seed: int = 0

    def can_fit(self, store: Store, present: Sequence[str]) -> bool:
        """Whether enough training rows are known to the parties present."""
        return len(_labelled(store, "train", present)[0]) >= _LEAST_ROWS

    def fit(self, case: Case) -> Weights:
        """Fit to the training rows that all parties present have answered for; stop early by such validation rows."""
        store, present = case.store, case.present
        (ids, y), valid = (_labelled(store, cut, present) for cut in ("train", "valid"))
        if not self.can_fit(store, present):
            raise DataError(
                f"only {len(ids)} training rows are known to {', '.join((store.own.party, *present))} together: too "
                "few to refit a head; use another way to make up for absent parties"
            )
        kept = (store.inputs(valid[0], present), valid[1]) if len(valid[0]) else None
        rng = np.random.default_rng(self.seed)
        return self.learner.fit(case.task, store.inputs(ids, present), y, rng, kept)

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The head's predictions."""
        return self.learner.predict(case.task, weights, case.store.inputs(ids, case.present))


class SoloModel(_Way, frozen=True):
    """Whoever is absent, the hub predicts from its own columns, by a net that learnt to imitate the joint model.

    Attributes:
        net: its layers.
        trainer: how it is trained.
        seed: for its first weights.
    """

    word: ClassVar[str] = "solo"
    fits: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    net: Mlp = Mlp(hidden=(64,))
    trainer: Sgd = Sgd(epochs=30, batch=128, lr=2e-3, decay="cosine")
    seed: int = 0

    def can_fit(self, store: Store, present: Sequence[str]) -> bool:
        """Whether there is a training row that everybody has answered for."""
        return bool(_labelled(store, "train", tuple(store.answers))[0])

    def fit(self, case: Case) -> Weights:
        """Distil the joint model on the training rows that everybody has answered for."""
        task, store = case.task, case.store
        ids, _ = _labelled(store, "train", tuple(store.answers))
        x, rng = store.inputs(ids, ()), np.random.default_rng(self.seed)
        taught = case.joint(store, ids, frozenset())
        if task.kind == "regression":
            return fit_supervised(self.net, task, [x], taught, self.trainer, rng, what="distilling")
        start = weights_of(make(self.net, x.shape[1:], task.outputs, rng))
        return fit_to_shares(self.net, task, start, (x, taught), self.trainer, rng)

    def predict(self, case: Case, weights: Weights, ids: Sequence[str]) -> Array:
        """The solo model's predictions."""
        return predict_supervised(self.net, case.task, weights, [case.store.inputs(ids, ())])


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


AnyAbsent: TypeAlias = Zeros | Refit | SoloModel | Abstain | Measured
WAYS: tuple[AnyAbsent, ...] = (Zeros(), Refit(), SoloModel(), Abstain())


def _labelled(store: Store, cut: str, parties: Sequence[str]) -> tuple[list[str], Array]:
    """The people of a cut whom all these parties have answered for, and their labels."""
    ids, y = store.ids_of(cut), store.labels_of(cut)
    there = [place for place, known in enumerate(store.knowing(ids)) if known >= set(parties)]
    return [ids[place] for place in there], y[there]
