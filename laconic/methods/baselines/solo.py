"""Solo: the label holder learns from its own columns and asks nobody. What every federation has to beat."""

from collections.abc import Iterator
from typing import ClassVar

from laconic.core.capabilities import Exported
from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.learners import AnyHead, yardstick
from laconic.learn.nets.nets import Net
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.rows import (
    all_labelled,
    computes_alone,
    groups_at,
    labelled,
    note_outside,
    note_tried,
    own_labelled,
)
from laconic.values import Array


class Solo(Method, frozen=True):
    """The label holder alone, on its own columns, with all its labels and the best model that it finds.

    Attributes:
        model: its model. None takes `Best()`, which tries linear models, trees and nets; a net for images, or where
            `net` or `trainer` ask for one.
        net: a plain net instead; None takes a small one that suits the data, if a net is trained.
        trainer: how a plain net is trained; None takes 100 epochs that end early.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", LABELLED)
    tasks: ClassVar[tuple[str, ...]] = (*Method.tasks, "survival")

    model: AnyHead | None = None
    net: Net | None = None
    trainer: Sgd | None = None

    rounds = 0  # Nobody is asked.

    def __post_init__(self) -> None:
        """Refuse two models at once."""
        yardstick(self.model, self.net, self.trainer, ())

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Learn from the hub's own columns."""
        if not hub.data.columns:
            raise ValueError(f"{hub.name} has labels but no columns of its own, so it cannot learn alone")
        (x, y), valid, own = all_labelled(hub), labelled(hub, "valid"), own_labelled(hub)
        note_outside(hub, own)
        groups = groups_at(hub, own)
        hub.memory["model"] = self._model(hub).fit_all(task_of(hub), x, y, hub.rng, valid, groups=groups)
        note_tried(hub)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Predict from the hub's own columns."""
        return self._model(hub).predict(task_of(hub), hub.memory["model"], hub.data.part(rows)[0])

    def fit_opening(self) -> Opening:
        """Nobody is asked."""
        return Opening(then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked."""
        return Opening(then="ends")

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The hub's model of its own columns; nobody else computes anything."""
        return computes_alone(party, self._model(party))

    def _model(self, hub: Party) -> AnyHead:
        return yardstick(self.model, self.net, self.trainer, hub.data.shape)
