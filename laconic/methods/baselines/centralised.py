"""Centralised: all columns pooled at the label holder and the best model of them. What federation should reach."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from laconic.core.align import PAIRED
from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.best import what_was_tried
from laconic.learn.models.learners import AnyHead, yardstick
from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import (
    Pooling,
    beside_columns,
    beside_own,
    groups_at,
    labelled,
    labels_at,
    note_outside,
    own_labelled,
)
from laconic.values import Array


class Centralised(Pooling, frozen=True):
    """The best model that is found on everybody's columns.

    Attributes:
        model: it. None takes `Best()`, which tries linear models, trees and nets; a net for images, or where `net` or
            `trainer` ask for one.
        net: a plain net instead; None takes a small one that suits the data, if a net is trained.
        trainer: how a plain net is trained; None takes 100 epochs that end early.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", PAIRED, LABELLED)
    tasks: ClassVar[tuple[str, ...]] = (*Method.tasks, "survival")

    model: AnyHead | None = None
    net: Net | None = None
    trainer: Sgd | None = None

    def __post_init__(self) -> None:
        """Refuse two models at once."""
        yardstick(self.model, self.net, self.trainer, ())

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all columns and learn from them."""
        sent = peers.ask(self.give_columns, rows="train+valid")
        pooled = beside_columns(hub, sent, "train+valid")
        y, valid_y = (labelled(hub, cut)[1] for cut in ("train", "valid"))
        model, x, groups = self._model(pooled["train"]), pooled["train"], groups_at(hub, own_labelled(hub)[:0])
        if model.takes_gaps and hub.data.columns and x.ndim == 2:
            at = own_labelled(hub)
            paired = {name: block[PAIRED] for name, block in sent.items() if PAIRED in block and len(at)}
            others = beside_own(hub, at, {name: block["train"].shape[1] for name, block in sent.items()}, paired)
            note_outside(hub, at, paired)
            x = np.concatenate([x, np.concatenate([hub.data.x[at], others], axis=1)])
            y, groups = np.concatenate([y, labels_at(hub, at)]), groups_at(hub, at)
        valid = (pooled["valid"], valid_y)
        own = hub.data.x.shape[1] if hub.data.columns and x.ndim == 2 else 0
        hub.memory["model"] = model.fit_all(task_of(hub), x, y, hub.rng, valid, len(pooled["train"]), groups, own)
        hub.memory["tried"] = what_was_tried([hub.memory["model"]])
        yield

    def fit_opening(self) -> Opening:
        """All columns of the rows to learn from."""
        return self.predict_opening("train+valid")

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Collect the columns of these rows and predict."""
        x = self.pool(hub, peers, rows)[rows]
        return self._model(x).predict(task_of(hub), hub.memory["model"], x)

    def _model(self, x: Array) -> AnyHead:
        return yardstick(self.model, self.net, self.trainer, x.shape[1:])
