"""The classifiers to choose from by value: nets, logistic regression, forests and boosted trees."""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn.batched import fit_nets
from laconic.learn.classifier import Classifier, Shard
from laconic.learn.linear_model import fit_linear, predict_linear
from laconic.learn.nets import Net, default_net, load
from laconic.learn.sgd import Sgd
from laconic.learn.supervised import predict_supervised
from laconic.learn.trees import Boosted, Forest


class Network(Classifier, frozen=True):
    """A net trained by gradient descent; many of them are trained as one tensor program.

    A net of your own is a value with `build` and `model`, as `Mlp` has them.

    Attributes:
        net: its form; None takes a small net that suits the rows.
        trainer: how it is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=50, batch=32, lr=3e-3)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Train one net."""
        return self.fit_many(task, [(x, y)], rng)[0]

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Train a net for each shard, all at once."""
        return fit_nets(self._net(shards[0][0].shape[1:]), task, shards, self.trainer, rng) if shards else []

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Put the rows through the net."""
        return predict_supervised(self._net(x.shape[1:]), task, weights, [x])

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not the weights of this net."""
        load(self._net(shape).build(shape, task.outputs), weights)

    def _net(self, shape: tuple[int, ...]) -> Net:
        return self.net or default_net(shape)


class Logistic(Classifier, frozen=True):
    """Logistic regression.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a penalty that the solver cannot take."""
        if self.penalty <= 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Solve for the coefficients."""
        return fit_linear(task, x, y, self.penalty)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Probabilities of a linear map."""
        return predict_linear(task, weights, x)

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not this map's coefficients."""
        columns = prod(shape)
        if {name: array.shape for name, array in weights.items()} != {
            "coefficients": (task.outputs, columns),
            "intercept": (task.outputs,),
        }:
            raise ValueError(f"it does not have {task.outputs} x {columns} coefficients and {task.outputs} intercepts")


AnyClassifier: TypeAlias = Network | Logistic | Forest | Boosted
