"""Late fusion: every party gets the labels, learns alone, and only predictions are put together.

What a method that gives labels away anyway has to beat: nothing of any row is sent up while learning.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.learn.models.learners import AnyHead, yardstick
from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.contributions import Check
from laconic.methods.families.rows import all_labelled, groups_at, labelled, note_outside, note_tried, own_labelled
from laconic.tables.task import Task
from laconic.values import Array

Kind = Literal["binary", "multiclass", "regression"]


class LateFusion(Method, frozen=True):
    """Models learnt apart, whose log-odds are summed (whose numbers are averaged, for regression).

    Attributes:
        model: each party's model. None takes `Best()`, which tries linear models, trees and nets; a net for images, or
            where `net` or `trainer` ask for one.
        net: a plain net instead; None takes a small one that suits the data, if a net is trained.
        trainer: how a plain net is trained; None takes 30 epochs.
        check: what the label holder looks for in parties' predictions of validation rows, which are asked for then;
            None looks at nothing.
    """

    model: AnyHead | None = None
    net: Net | None = None
    trainer: Sgd | None = None
    check: Check | None = None

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", LABELLED)

    @property
    def rounds(self) -> int:
        """Labels go down once; predictions of validation rows come up, if they are to be checked."""
        return 1 if self.check is None else 2

    def __post_init__(self) -> None:
        """Refuse two models at once."""
        yardstick(self.model, self.net, self.trainer, ())

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Send everybody the labels."""
        task, labels = task_of(hub), labelled(hub, "train")[1]
        if hub.data.columns:
            own = own_labelled(hub)
            note_outside(hub, own)
            self._learn(hub, task, *all_labelled(hub), groups_at(hub, own))
            note_tried(hub)
        peers.ask(self.learn_alone, kind=task.kind, classes=len(task.classes), labels=labels)
        if self.check is not None:
            self._sift(self.check, hub, peers)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put everybody's predictions together."""
        own = {hub.name: self.give_predictions(hub, rows)} if hub.data.columns else {}
        gone = {one["party"] for one in hub.memory.get("contributions", ()) if one["left_out"]}
        kept = peers.only(tuple(name for name in peers.names if name not in gone))
        found = own | kept.ask(self.give_predictions, rows=rows)
        return _fused(task_of(hub), [found[name].astype(np.float64) for name in sorted(found)])

    def _sift(self, check: Check, hub: Party, peers: Peers) -> None:
        """Judge everybody by rows whose labels nobody else has: of training rows, a bad party knows what is right."""
        sent = peers.ask(self.give_predictions, rows="valid")
        own = {"train": _wide(self.give_predictions(hub, "valid"))} if hub.data.columns else {}
        # These are the rows that the check knows as training rows: there are no others whose labels are secret.
        received = {name: {"train": _wide(values)} for name, values in sent.items()}
        check.sift(hub, received, own, {"train": labelled(hub, "valid")[1]}, predictions=True)

    def fit_opening(self) -> Opening:
        """Labels must be waited for."""
        first = Ask.later(self.learn_alone)
        if self.check is None:
            return Opening((first,), then="ends")
        return Opening((first, Ask.known(self.give_predictions, rows="valid")), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_predictions, rows=rows),), then="ends")

    @step(takes="the labels of all training rows", gives=None)
    def learn_alone(self, party: Party, kind: Kind, classes: int, labels: Array) -> None:
        """Learn a model from the party's own columns."""
        self._learn(party, _task(kind, classes), party.data.part("train")[0], labels)

    @step(takes=None, gives="its own model's predictions for the rows asked for")
    def give_predictions(self, party: Party, rows: str) -> Array:
        """Predict the rows of a cut from the party's own columns."""
        task, x = _task(*party.memory["task"]), party.data.part(rows)[0]
        said = self._model(party).predict(task, party.memory["model"], x)
        return said if task.kind == "regression" else said.astype(np.float32, copy=False)

    def _learn(self, party: Party, task: Task, x: Array, y: Array, groups: Array | None = None) -> None:
        party.memory["task"] = [task.kind, len(task.classes)]
        party.memory["model"] = self._model(party).fit_all(task, x, y, party.rng, groups=groups)

    def _model(self, party: Party) -> AnyHead:
        # Parties have no labels of validation rows to stop by.
        no_model = self.model is None and (self.net is not None or len(party.data.shape) == 3)
        trainer = self.trainer or (Sgd(epochs=30) if no_model else None)
        return yardstick(self.model, self.net, trainer, party.data.shape)


def _wide(values: Array) -> Array:
    return values if values.ndim > 1 else values[:, None]


def _task(kind: Kind, classes: int) -> Task:
    return Task(kind=kind, classes=tuple(map(str, range(classes))))


def _fused(task: Task, predictions: list[Array]) -> Array:
    if task.kind == "regression":
        return np.asarray(np.mean(predictions, axis=0))
    safe = [np.clip(values, 1e-9, 1 - 1e-9) for values in predictions]
    if task.kind == "binary":
        odds = np.sum([np.log(values) - np.log1p(-values) for values in safe], axis=0)
        return np.asarray(1.0 / (1.0 + np.exp(-odds)))
    logits = np.sum([np.log(values) for values in safe], axis=0)
    exact = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exact / exact.sum(axis=1, keepdims=True))
