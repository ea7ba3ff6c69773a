"""PATE: all rows in one place, and otherwise what one party of FedKT does. What knowledge transfer can reach at best.

Papernot, Abadi, Erlingsson, Goodfellow, Talwar: Semi-supervised Knowledge Transfer for Deep Learning from Private
Training Data (2017); without noise, as the FedKT paper uses it.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from laconic.core.capabilities import Exported
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.learn.models.aggregation import count_votes, winners
from laconic.learn.models.learners import AnyClassifier, Network
from laconic.learn.models.supervised import classes_of, fit_models, numbers_of, predict_model
from laconic.methods.families.rows import RowPooling, computes_alone
from laconic.values import Array


class Pate(RowPooling, frozen=True):
    """Teachers on shards of everybody's rows label the public rows, and the model learns that.

    Classes are voted on; of numbers, the mean over teachers is learnt.

    Attributes:
        model: what is learnt in the end.
        teacher: what teachers are; None for the same.
        teachers: into how many shards the rows are cut.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "public")

    model: AnyClassifier = Network()
    teacher: AnyClassifier | None = None
    teachers: int = 5

    def __post_init__(self) -> None:
        """Refuse to teach with nobody."""
        if self.teachers < 1:
            raise ValueError(f"teachers must be 1 or more, not {self.teachers}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all rows, train teachers, let them label the public rows, and learn that."""
        x, y = self.pool(peers)
        public, task = hub.data.part("public")[0], task_of(hub)
        shards = [(x[rows], y[rows]) for rows in np.array_split(hub.rng.permutation(len(y)), self.teachers)]
        teachers = fit_models(self.teacher or self.model, task, shards, hub.rng)
        kind = self.teacher or self.model
        if task.kind == "regression":
            labels = numbers_of(kind, task, teachers, public)
        else:
            labels = winners(count_votes(classes_of(kind, task, teachers, public), len(task.classes)), hub.rng)
        hub.memory["model"] = fit_models(self.model, task, [(public, labels)], hub.rng)[0]
        yield

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The model, at whoever has it."""
        return computes_alone(party, self.model)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Ask the model."""
        return predict_model(self.model, task_of(hub), hub.memory["model"], hub.data.part(rows)[0])
