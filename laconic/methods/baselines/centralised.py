"""Centralised: all columns pooled at the label holder and the best model of them. What federation should reach."""

from collections.abc import Iterator
from math import prod
from typing import ClassVar

from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.learners import AnyHead, yardstick
from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import Pooling, beside_columns, labelled, note_tried, pooled_with_own_rows
from laconic.tables.table import PAIRED
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
        valid, shared = (pooled["valid"], labelled(hub, "valid")[1]), len(pooled["train"])
        x, y, groups = pooled_with_own_rows(hub, sent)
        own = prod(hub.data.shape) if hub.data.columns and x.ndim == 2 else 0
        hub.memory["model"] = self._model(x).fit_all(task_of(hub), x, y, hub.rng, valid, shared, groups, own)
        note_tried(hub)
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
