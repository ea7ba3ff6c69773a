"""What everything that learns labels from rows can do, and fitting many models at once, one-class shards and all."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from laconic.errors import PlanError, WireError
from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights, flat

Shard: TypeAlias = tuple[Array, Array]
"""Prepared rows and their labels."""

CONSTANT = "constant"
"""The one array of a model that always says the same class, or the same number."""


class Learner(Settings, frozen=True):
    """Abstract: settings that learn labels from rows.

    To bring a model of your own, write a frozen subclass with `fit` and `predict`; what is learnt must be plain arrays,
    for it is sent and kept as such. Override `fit_many` where many models are faster together, and `check` to refuse
    arrays that your `predict` could not stand. Such a class is known to your own process only: plans and parties in
    other processes take the classes of `laconic.learn.models.learners`.
    """

    takes_gaps: ClassVar[bool] = False
    """Whether rows may have NaN where a party sent nothing."""

    @property
    def cuts(self) -> tuple[str, ...]:
        """The rows that `fit` looks at: training rows, unless it also validates."""
        return ("train",)

    @abstractmethod
    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Learn from rows, of at least two classes if there are classes; `valid` is for learners that stop early."""

    def fit_all(
        self,
        task: Task,
        x: Array,
        y: Array,
        rng: Rng,
        valid: Shard | None = None,
        judged: int | None = None,
        groups: Array | None = None,
        own: int = 0,
    ) -> Weights:
        """Learn from rows of which the first `judged` are like those to be predicted; None for all of them.

        `groups` are numbers, the same for rows that belong together; learners that hold rows out keep these together.
        The first `own` columns are the label holder's, so that learners that choose may do without all others.
        """
        return self.fit(task, x, y, rng, valid)

    @abstractmethod
    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Probabilities or numbers for rows, in the shape of `Task.shape`."""

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """A model for each shard."""
        return [self.fit(task, x, y, own) for (x, y), own in zip(shards, rng.spawn(len(shards)), strict=True)]

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Raise an error if these arrays, which may come from anyone, are not a model for rows of this shape."""


def fit_each(fit: Callable[[Array], Weights], y: Array) -> Weights:
    """A model of the labels, or one of each of several numbers per row, its arrays named `0/...`, `1/...`."""
    if y.ndim == 1:
        return fit(y)
    models = [fit(np.ascontiguousarray(numbers)) for numbers in y.T]
    return {f"{place}/{name}": values for place, model in enumerate(models) for name, values in model.items()}


def predict_each(predict: Callable[[Weights], Array], weights: Weights) -> Array:
    """What the model, or each of several, predicts."""
    models: dict[str, Weights] = {}
    for key, values in weights.items():
        place, _, name = key.rpartition("/")
        models.setdefault(place, {})[name] = values
    found = [predict(model) for model in models.values()]
    return found[0] if "" in models else np.column_stack(found)


def refuse_missing(model: str, x: Array) -> None:
    """Refuse rows that lack numbers, for a model that cannot learn from them."""
    lacking = int(np.isnan(flat(x)).any(axis=1).sum())
    if lacking:
        raise PlanError(
            f"{model} takes no missing numbers, and {lacking:,} of {len(x):,} rows lack some; use Best(), Boosted() or "
            "Forest(), or an Estimator whose pipeline begins with sklearn.impute.SimpleImputer"
        )


def fit_models(learner: Learner, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
    """A model for each shard that has rows; for a shard of one class or number, the model that always says it."""
    filled = [(x, y) for x, y in shards if len(y)]
    models: list[Weights] = [{CONSTANT: np.unique(y)} for _, y in filled]
    varied = [place for place, model in enumerate(models) if len(model[CONSTANT]) > 1]
    for place, model in zip(varied, learner.fit_many(task, [filled[i] for i in varied], rng), strict=True):
        models[place] = model
    return models


def predict_model(learner: Learner, task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities or numbers for rows from one of the models of `fit_models`."""
    if CONSTANT not in weights:
        return learner.predict(task, weights, x)
    if task.kind == "regression":
        return np.full(len(x), float(weights[CONSTANT][0]))
    code = int(weights[CONSTANT][0])
    if task.kind == "binary":
        return np.full(len(x), float(code), dtype=np.float32)
    return np.repeat(np.eye(len(task.classes), dtype=np.float32)[[code]], len(x), axis=0)


def classes_of(learner: Learner, task: Task, models: Sequence[Weights], x: Array) -> Array:
    """The class that each model gives each row, shape (models, rows)."""
    decided = [task.decide(predict_model(learner, task, weights, x)) for weights in models]
    return np.array(decided, dtype=np.int64).reshape(len(models), len(x))


def numbers_of(learner: Learner, task: Task, models: Sequence[Weights], x: Array) -> Array:
    """The mean of the numbers that models give each row."""
    return np.asarray(np.mean([predict_model(learner, task, weights, x) for weights in models], axis=0))


def check_model(learner: Learner, task: Task, weights: object, shape: tuple[int, ...], sender: str) -> Weights:
    """The weights, if they can be a model of this learner for rows of this shape; else a `WireError` says why not."""
    try:
        model = _arrays(weights)
        if CONSTANT in model:
            _check_constant(model, task)
        else:
            learner.check(task, model, shape)
    except (ValueError, KeyError, TypeError) as problem:
        raise WireError(
            f"the model from {sender} is no {type(learner).__name__} for these rows: {problem}"
        ) from problem
    return model


def _arrays(weights: object) -> Weights:
    if not isinstance(weights, dict) or not all(isinstance(one, np.ndarray) for one in weights.values()):
        raise ValueError("it is not arrays by name")
    if not all(array.dtype.kind in "iuf" for array in weights.values()):
        raise ValueError("it holds something else than numbers")
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise ValueError("it holds numbers that are not finite; if the party trained it so, a smaller lr may help")
    return weights


def _check_constant(model: Weights, task: Task) -> None:
    code, classes = model[CONSTANT], len(task.classes)
    if task.kind == "regression":
        if len(model) != 1 or code.shape != (1,) or code.dtype.kind != "f":
            raise ValueError("a constant must be one number")
        return
    if len(model) != 1 or code.shape != (1,) or code.dtype.kind not in "iu" or not 0 <= code[0] < classes:
        raise ValueError(f"a constant must be one class code from 0 to {classes - 1}")
