"""Linear: logistic or ridge regression on pooled columns. Shows where a net is worth its while at all."""

from collections.abc import Iterator
from typing import ClassVar

from laconic.core.method import LABELLED, Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening
from laconic.learn.models.learners import LinearModel
from laconic.methods.families.rows import Pooling, pooled_with_own_rows
from laconic.tables.table import PAIRED
from laconic.values import Array


class Linear(Pooling, frozen=True):
    """A linear model of everybody's columns.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    uses: ClassVar[tuple[str, ...]] = ("train", "valid", PAIRED, LABELLED)
    tasks: ClassVar[tuple[str, ...]] = (*Method.tasks, "survival")

    penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a penalty that the solvers cannot take."""
        if self.penalty <= 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all columns and fit."""
        x, y, _ = pooled_with_own_rows(hub, peers.ask(self.give_columns, rows="train"))
        hub.memory["model"] = LinearModel(penalty=self.penalty).fit(task_of(hub), x, y, hub.rng)
        yield

    def fit_opening(self) -> Opening:
        """All columns of the rows to learn from."""
        return self.predict_opening("train")

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Collect the columns of these rows and predict."""
        x = self.pool(hub, peers, rows)[rows]
        return LinearModel(penalty=self.penalty).predict(task_of(hub), hub.memory["model"], x)
