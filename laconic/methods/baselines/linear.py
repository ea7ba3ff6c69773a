"""Linear: logistic or ridge regression on pooled columns. Shows where a net is worth its while at all."""

from collections.abc import Iterator

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.values import Array
from laconic.learn.linear_model import fit_linear, predict_linear
from laconic.methods.pooling import Pooling
from laconic.methods.rows import labelled


class Linear(Pooling, frozen=True):
    """A linear model of everybody's columns.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a penalty that the solvers cannot take."""
        if self.penalty <= 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Collect all columns and fit."""
        x = self.pool(hub, peers, "train")["train"]
        hub.memory["model"] = fit_linear(task_of(hub), x, labelled(hub, "train")[1], self.penalty)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Collect the columns of these rows and predict."""
        return predict_linear(task_of(hub), hub.memory["model"], self.pool(hub, peers, rows)[rows])
