"""Late fusion: every party gets the labels, learns alone, and only predictions are put together.

What a method that gives labels away anyway has to beat: nothing of any row is sent up while learning.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.learn.models.supervised import fit_supervised, predict_supervised
from laconic.learn.nets.nets import Net, default_net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import labelled
from laconic.tables.task import Task
from laconic.values import Array

Kind = Literal["binary", "multiclass", "regression"]


class LateFusion(Method, frozen=True):
    """Models learnt apart, whose log-odds are summed (whose numbers are averaged, for regression).

    Attributes:
        net: each party's model; None takes one that suits its data.
        trainer: how each is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=30)

    rounds = 1  # Labels go down once.

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Send everybody the labels."""
        task, labels = task_of(hub), labelled(hub, "train")[1]
        if hub.data.columns:
            self.learn_alone(hub, task.kind, len(task.classes), labels)
        peers.ask(self.learn_alone, kind=task.kind, classes=len(task.classes), labels=labels)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put everybody's predictions together."""
        own = {hub.name: self.give_predictions(hub, rows)} if hub.data.columns else {}
        found = own | peers.ask(self.give_predictions, rows=rows)
        return _fused(task_of(hub), [found[name].astype(np.float64) for name in sorted(found)])

    def fit_opening(self) -> Opening:
        """Labels must be waited for."""
        return Opening((Ask.later(self.learn_alone),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_predictions, rows=rows),), then="ends")

    @step(takes="the labels of all training rows", gives=None)
    def learn_alone(self, party: Party, kind: Kind, classes: int, labels: Array) -> None:
        """Learn a model from the party's own columns."""
        party.memory["task"] = [kind, classes]
        x, task = party.data.part("train")[0], _task(kind, classes)
        party.memory["model"] = fit_supervised(self._net(party), task, [x], labels, self.trainer, party.rng)

    @step(takes=None, gives="its own model's predictions for the rows asked for")
    def give_predictions(self, party: Party, rows: str) -> Array:
        """Predict the rows of a cut from the party's own columns."""
        task, x = _task(*party.memory["task"]), party.data.part(rows)[0]
        return predict_supervised(self._net(party), task, party.memory["model"], [x])

    def _net(self, party: Party) -> Net:
        return self.net or default_net(party.data.shape)


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
