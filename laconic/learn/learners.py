"""Models of labels to choose from by value: a net, a linear model, or boosted trees.

Each has `fit(task, x, y, rng, valid) -> Weights` and `predict(task, weights, x)`. For regression `y` may hold several
numbers a row; predictions then have a column for each.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from torch.nn import functional

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Settings, Weights
from laconic.learn import heads
from laconic.learn.linear_model import fit_linear, predict_linear
from laconic.learn.nets import Mlp, initialise, load, to_tensor, weights_of
from laconic.learn.sgd import Sgd, evaluate
from laconic.learn.supervised import fit_supervised, predict_supervised
from laconic.learn.trees import Boosted, Forest

Valid: TypeAlias = tuple[Array, Array] | None


class NetModel(Settings, frozen=True):
    """A fully connected net.

    Attributes:
        net: its layers; no hidden layer makes it linear.
        trainer: how it is trained; with patience, it also looks at validation rows.
    """

    net: Mlp = Mlp(hidden=(128,))
    trainer: Sgd = Sgd(epochs=100, patience=10)

    @property
    def cuts(self) -> tuple[str, ...]:
        """The rows it looks at."""
        return ("train",) if self.trainer.patience is None else ("train", "valid")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Valid = None) -> Weights:
        """Train the net; several numbers a row share its hidden layers."""
        if y.ndim == 2:
            return _fit_numbers(self, x, y, rng, valid)
        kept = valid and ([valid[0]], valid[1])
        return fit_supervised(self.net, task, [x], y, self.trainer, rng, valid=kept, what="server")

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Predictions as `Task` shapes them."""
        several = weights[heads.MEAN].size if task.kind == "regression" else 1
        if several == 1:
            return predict_supervised(self.net, task, weights, [x])
        scale = {name: weights[name] for name in (heads.MEAN, heads.SD)}
        layers = {name: values for name, values in weights.items() if name not in scale}
        found = evaluate(load(self.net.build(x.shape[1:], several), layers), [to_tensor(x)])
        return np.asarray(found.double().numpy() * scale[heads.SD] + scale[heads.MEAN])


class LinearModel(Settings, frozen=True):
    """Logistic regression for classes, ridge regression for numbers, by exact solvers.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a penalty that the solvers cannot take."""
        if self.penalty <= 0:
            raise ValueError(f"penalty must be above 0, not {self.penalty}")

    @property
    def cuts(self) -> tuple[str, ...]:
        """Training rows are all it looks at."""
        return ("train",)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Valid = None) -> Weights:
        """Solve for the coefficients; takes no chance."""
        return _fit_each(lambda numbers: fit_linear(task, x, numbers, self.penalty), y)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Predictions as `Task` shapes them."""
        return _predict_each(lambda model: predict_linear(task, model, x), weights)


class TreeModel(Settings, frozen=True):
    """Boosted trees or a forest.

    They split on one column at a time, so they lose accuracy where columns were mixed with each other.

    Attributes:
        trees: which, and how many.
    """

    trees: Boosted | Forest = Boosted(trees=200, lr=0.2)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Training rows are all it looks at."""
        return ("train",)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Valid = None) -> Weights:
        """Grow the trees."""
        return _fit_each(lambda numbers: self.trees.fit(task, x, numbers, rng), y)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Predictions as `Task` shapes them."""
        return _predict_each(lambda model: self.trees.predict(task, model, x), weights)


AnyLearner: TypeAlias = NetModel | LinearModel | TreeModel


def _fit_numbers(model: NetModel, x: Array, y: Array, rng: Rng, valid: Valid) -> Weights:
    """One net with an output for each number, trained on the sum of their squared errors."""
    mean, sd = y.mean(axis=0, dtype=np.float64), y.std(axis=0, dtype=np.float64)
    module = initialise(model.net.build(x.shape[1:], y.shape[1]), rng)
    model.trainer.fit(
        module,
        [to_tensor(x)],
        to_tensor((y - mean) / sd),
        functional.mse_loss,
        rng,
        valid=valid and ([to_tensor(valid[0])], to_tensor((valid[1] - mean) / sd)),
        what="server",
    )
    return {**weights_of(module), heads.MEAN: mean, heads.SD: sd}


def _fit_each(fit: Callable[[Array], Weights], y: Array) -> Weights:
    """A model of the labels, or one of each of several numbers a row, its arrays named `0/...`, `1/...`."""
    if y.ndim == 1:
        return fit(y)
    models = [fit(np.ascontiguousarray(numbers)) for numbers in y.T]
    return {f"{place}/{name}": values for place, model in enumerate(models) for name, values in model.items()}


def _predict_each(predict: Callable[[Weights], Array], weights: Weights) -> Array:
    """What the model, or each of several, predicts."""
    models: dict[str, Weights] = {}
    for key, values in weights.items():
        place, _, name = key.rpartition("/")
        models.setdefault(place, {})[name] = values
    found = [predict(model) for model in models.values()]
    return found[0] if "" in models else np.column_stack(found)
