"""What to do at predict time about parties that are not there: a choice by value.

Everything here works from the hub's store: no party is asked again.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from laconic.core.errors import DataError
from laconic.core.task import Task
from laconic.core.values import Array, Settings, Weights
from laconic.learn.learners import AnyLearner, NetModel
from laconic.learn.local import fit_to_shares
from laconic.learn.nets import Mlp, make, weights_of
from laconic.learn.sgd import Sgd
from laconic.learn.supervised import fit_supervised, predict_supervised
from laconic.model.store import Store

_LEAST_ROWS = 10
"""Fewer labelled rows than this fit no head."""


class Joint(Protocol):
    """The model of all parties, as the hub has it."""

    def __call__(self, store: Store, ids: Sequence[str], zeros: frozenset[str], /) -> Array:
        """Its predictions for these people, with zeros for these parties' answers."""
        ...


class _AsItIs(Settings, frozen=True):
    """Abstract: a way for which nothing has to be learnt."""

    fits: ClassVar[bool] = False
    by_pattern: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def fit(self, task: Task, store: Store, present: Sequence[str], joint: Joint) -> Weights:
        """Nothing is fitted."""
        return {}


class Zeros(_AsItIs, frozen=True):
    """Absent parties' numbers count as zeros, and the model stays as it is."""

    word: ClassVar[str] = "zeros"

    def predict(
        self, task: Task, store: Store, present: Sequence[str], joint: Joint, weights: Weights, ids: Sequence[str]
    ) -> Array:
        """The joint model's predictions."""
        return joint(store, ids, frozenset(store.answers) - set(present))


class Refit(Settings, frozen=True):
    """A head is fitted for this pattern of presence, to the stored answers of the parties that are there.

    Attributes:
        learner: the head, a model of the hub's columns and those answers side by side.
        seed: for its first weights.
    """

    word: ClassVar[str] = "refit"
    fits: ClassVar[bool] = True
    by_pattern: ClassVar[bool] = True
    alone: ClassVar[bool] = False

    learner: AnyLearner = NetModel(net=Mlp(hidden=(64,)), trainer=Sgd(epochs=40, batch=256, lr=3e-3, patience=5))
    seed: int = 0

    def fit(self, task: Task, store: Store, present: Sequence[str], joint: Joint) -> Weights:
        """Fit to the training rows that all parties present have answered for; stop early by such validation rows."""
        (ids, y), valid = (_labelled(store, cut, present) for cut in ("train", "valid"))
        if len(ids) < _LEAST_ROWS:
            raise DataError(
                f"only {len(ids)} training rows are known to {_listed(store, present)} together: too few to refit a "
                "head; use another way to make up for absent parties"
            )
        kept = (store.inputs(valid[0], present), valid[1]) if len(valid[0]) else None
        rng = np.random.default_rng(self.seed)
        return self.learner.fit(task, store.inputs(ids, present), y, rng, kept)

    def predict(
        self, task: Task, store: Store, present: Sequence[str], joint: Joint, weights: Weights, ids: Sequence[str]
    ) -> Array:
        """The head's predictions."""
        return self.learner.predict(task, weights, store.inputs(ids, present))


class SoloModel(Settings, frozen=True):
    """Whoever is absent, the hub predicts from its own columns, by a net that learnt to say what the joint model says.

    Attributes:
        net: its layers.
        trainer: how it is trained.
        seed: for its first weights.
    """

    word: ClassVar[str] = "solo"
    fits: ClassVar[bool] = True
    by_pattern: ClassVar[bool] = False
    alone: ClassVar[bool] = True

    net: Mlp = Mlp(hidden=(64,))
    trainer: Sgd = Sgd(epochs=30, batch=128, lr=2e-3, decay="cosine")
    seed: int = 0

    def fit(self, task: Task, store: Store, present: Sequence[str], joint: Joint) -> Weights:
        """Distil the joint model on the training rows that everybody has answered for."""
        ids, _ = _labelled(store, "train", tuple(store.answers))
        x, rng = store.inputs(ids, ()), np.random.default_rng(self.seed)
        taught = joint(store, ids, frozenset())
        if task.kind == "regression":
            return fit_supervised(self.net, task, [x], taught, self.trainer, rng, what="distilling")
        start = weights_of(make(self.net, x.shape[1:], task.outputs, rng))
        return fit_to_shares(self.net, task, start, (x, taught), self.trainer, rng)

    def predict(
        self, task: Task, store: Store, present: Sequence[str], joint: Joint, weights: Weights, ids: Sequence[str]
    ) -> Array:
        """The solo model's predictions."""
        return predict_supervised(self.net, task, weights, [store.inputs(ids, ())])


class Abstain(_AsItIs, frozen=True):
    """No answer unless everybody is there."""

    word: ClassVar[str] = "abstain"

    def predict(
        self, task: Task, store: Store, present: Sequence[str], joint: Joint, weights: Weights, ids: Sequence[str]
    ) -> Array:
        """NaN: no answer."""
        return np.full(task.shape(len(ids)), np.nan)


AnyAbsent: TypeAlias = Zeros | Refit | SoloModel | Abstain
WAYS: tuple[AnyAbsent, ...] = (Zeros(), Refit(), SoloModel(), Abstain())


def _labelled(store: Store, cut: str, parties: Sequence[str]) -> tuple[list[str], Array]:
    """The people of a cut whom all these parties have answered for, and their labels."""
    ids, y = store.ids_of(cut), store.labels_of(cut)
    there = [place for place, known in enumerate(store.knowing(ids)) if known >= set(parties)]
    return [ids[place] for place in there], y[there]


def _listed(store: Store, present: Sequence[str]) -> str:
    return ", ".join((store.own.party, *present))
