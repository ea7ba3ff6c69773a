"""The learners: nets, linear models and trees.

`Network`, `Logistic`, `Forest` and `Boosted` are local models of horizontal methods. `NetModel`, `LinearModel`,
`TreeModel` and `Best`, which tries them all, learn from columns that parties sent, several numbers per row too.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from math import prod
from typing import Any, ClassVar, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET
from torch.nn import functional

from laconic.errors import DataError, MissingExtra, PlanError, closest
from laconic.learn.models.best import Best, Mixture, chosen_in
from laconic.learn.models.supervised import (
    Learner,
    Shard,
    apart,
    fit_each,
    fit_linear,
    fit_supervised,
    learn_gaps,
    predict_each,
    predict_linear,
    predict_supervised,
    refuse_missing,
    without_gaps,
)
from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Mlp, Net, default_net, initialise, load, to_array, to_tensor, weights_of
from laconic.learn.train.descent import fit_dense_nets
from laconic.learn.train.losses import MEAN, SD
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.learn.trees.dense_trees import Boosted, Forest
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights, check_above_zero, flat

_KEPT = "estimator"
_PATH, _SETTINGS, _NONE = "path", "settings", "none"
_ALLOWED = (
    *("numpy.dtype", "sklearn._loss.", "sklearn.ensemble._hist_gradient_boosting.", "sklearn.metrics._dist_metrics."),
    *("sklearn.neighbors._kd_tree.", "sklearn.neighbors._ball_tree.", "sklearn.neural_network._stochastic_optimizers."),
    *("sklearn.tree._tree.Tree", "sklearn.gaussian_process.kernels.", "sklearn.calibration._"),
)
"""How the names of types begin that may be read back, besides those that skops itself trusts: they hold numbers, and
nothing that reads files or the network."""


class Estimator(Learner, frozen=True):
    """A scikit-learn estimator, as a model of columns and received numbers.

    One that takes missing numbers, or a pipeline that fills them, is given gaps as they are; any other the means.

    Attributes:
        path: where it is, such as `sklearn.ensemble.ExtraTreesClassifier`; nothing outside scikit-learn.
        settings: its parameters. One that is an estimator itself, as in a pipeline, is again a table with `path` and
            `settings`.

    Example:
        >>> from sklearn.linear_model import Lasso
        >>> Estimator.of(Lasso(alpha=0.5)).path
        'sklearn.linear_model.Lasso'
    """

    takes_gaps: ClassVar[bool] = True

    path: str
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is not there, or not scikit-learn's."""
        self.make()

    @classmethod
    def of(cls, estimator: Any) -> "Estimator":
        """The same estimator as settings, which a plan and a result can hold.

        Raises:
            PlanError: it has a parameter that cannot be written down, such as a function.
        """
        plain = _plain(estimator, type(estimator).__name__)
        return cls(**plain)

    def make(self) -> Any:
        """The estimator, not fitted."""
        return _made({_PATH: self.path, _SETTINGS: self.settings})

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Fit the estimator; all its randomness comes from `rng`."""
        made, rows, means = self.make(), flat(x), learn_gaps(flat(x))
        self._refuse_unfit(task, made)
        seeds = {name: int(rng.integers(2**31)) for name in sorted(made.get_params()) if name.endswith("random_state")}
        made.set_params(**seeds)

        def kept(gaps: Weights) -> Weights:
            filled = without_gaps(gaps, rows)
            with limit_threads():
                return fit_each(lambda numbers: self._kept(self._fitted(made, filled, numbers)), y) | gaps

        # Only trying says for sure whether an estimator, or a pipeline, takes gaps as they are.
        try:
            return kept({name: np.full_like(values, np.nan) for name, values in means.items()})
        except PlanError:
            if not means:
                raise
            return kept(means)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the estimator says."""
        rows = without_gaps(weights, flat(x))
        with limit_threads():
            return predict_each(lambda model: self._said(task, model, rows), apart(weights))

    def _said(self, task: Task, weights: Weights, x: Array) -> Array:
        found = _read(weights[_KEPT])
        if not isinstance(found, type(self.make())):
            raise DataError(f"the model that was kept is a {type(found).__name__}, but its settings name {self.path}")
        if task.kind == "regression":
            return np.asarray(found.predict(x), dtype=np.float64)
        shares = np.zeros((len(x), max(len(task.classes), 2)))
        shares[:, np.asarray(found.classes_, dtype=np.int64)] = found.predict_proba(x)
        return shares[:, 1] if task.kind == "binary" else shares

    def _refuse_unfit(self, task: Task, made: Any) -> None:
        from sklearn.base import is_classifier, is_regressor

        wanted = is_classifier(made) if task.of_classes else task.kind == "regression" and is_regressor(made)
        if not wanted:
            raise PlanError(f"{self.path} does not predict a label of kind {task.kind}; choose an estimator that does")
        if task.kind != "regression" and not callable(getattr(made, "predict_proba", None)):
            raise PlanError(
                f"{self.path} gives no probabilities; put it into sklearn.calibration.CalibratedClassifierCV"
            )

    def _fitted(self, made: Any, x: Array, y: Array) -> Any:
        try:
            return made.fit(x, y)
        except ValueError as problem:
            raise PlanError(f"{self.path} cannot learn from these rows: {problem}") from problem

    def _kept(self, fitted: Any) -> Weights:
        skops = _skops()
        written = skops.dumps(fitted)
        odd = [one for one in skops.get_untrusted_types(data=written) if not one.startswith(_ALLOWED)]
        if odd:
            raise PlanError(f"{self.path} cannot be kept: it holds {', '.join(odd)}; choose another estimator")
        return {_KEPT: np.frombuffer(written, dtype=np.uint8).copy()}


def _read(written: Array) -> Any:
    """A fitted estimator; anything that holds more than numbers is refused before it is built."""
    skops, data = _skops(), written.tobytes()
    found = skops.get_untrusted_types(data=data)
    odd = [one for one in found if not one.startswith(_ALLOWED)]
    if odd:
        raise DataError(f"the model that was kept holds {', '.join(odd)}, which no model of ours does; it is not read")
    return skops.loads(data, trusted=found)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as problem:
        raise MissingExtra("skops", "estimators") from problem
    return skops.io


def _made(plain: Any) -> Any:
    """An estimator from its path and settings, and those within it."""
    if isinstance(plain, Mapping) and _PATH in plain:
        kind, given = _class_at(str(plain[_PATH])), {key: _made(one) for key, one in plain.get(_SETTINGS, {}).items()}
        known = list(signature(kind).parameters)
        for key in given:
            if key not in known:
                raise PlanError(f"{plain[_PATH]} has no setting {key}; {closest(key, known)}")
        return kind(**given)
    if isinstance(plain, list | tuple):
        return [tuple(map(_made, one)) if _is_step(one) else _made(one) for one in plain]
    return None if plain == _NONE else plain


def _is_step(value: Any) -> bool:
    """Whether this is a step of a pipeline: a name and an estimator."""
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], Mapping)


def _class_at(path: str) -> Any:
    from sklearn.base import BaseEstimator

    home, _, name = path.rpartition(".")
    if home.split(".")[0] != "sklearn":
        raise PlanError(f"path = {path!r} is not in scikit-learn, and nothing else may be named; write sklearn. ...")
    try:
        found = getattr(import_module(home), name)
    except (ImportError, AttributeError) as problem:
        raise PlanError(f"path = {path!r}: scikit-learn has no such estimator; look up its full name") from problem
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise PlanError(f"path = {path!r} is no estimator of scikit-learn")
    return found


def _plain(value: Any, name: str) -> Any:
    """A parameter as text can hold it."""
    from sklearn.base import BaseEstimator

    if isinstance(value, BaseEstimator):
        kind = type(value)
        usual = {one.name: one.default for one in signature(kind).parameters.values()}
        changed = {key: one for key, one in value.get_params(deep=False).items() if one is not usual[key]}
        public = kind.__module__.partition("._")[0]
        settings = {key: _plain(one, f"{name}.{key}") for key, one in changed.items()}
        return {_PATH: f"{public}.{kind.__name__}"} | ({_SETTINGS: settings} if settings else {})
    if value is None:
        return _NONE
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Sequence):
        return [_plain(one, name) for one in value]
    raise PlanError(
        f"{name} is a {type(value).__name__}, which cannot be written down; use numbers, text or estimators"
    )


class Network(Learner, frozen=True):
    """A net trained by gradient descent; many of them are trained side by side.

    A net of your own is a value with `build` and `model`, as `Mlp` has them.

    Attributes:
        net: its form; None takes a small net that suits the rows.
        trainer: how it is trained.
    """

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=50, batch=32, lr=3e-3)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Train one net."""
        return self.fit_many(task, [(x, y)], rng)[0]

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Train a net for each shard: fully connected ones without dropout all at once, others in turn."""
        if self.trainer.patience is not None:
            raise ValueError("patience needs rows to validate on, which these nets do not have; use patience=None")
        if not shards:
            return []
        net, own = self.form(shards[0][0].shape[1:]), rng.spawn(len(shards))
        if isinstance(net, Mlp) and net.dropout == 0:
            return fit_dense_nets(net, task, shards, self.trainer, own)
        return [fit_supervised(net, task, [x], y, self.trainer, one) for (x, y), one in zip(shards, own, strict=True)]

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Put the rows through the net."""
        return predict_supervised(self.form(x.shape[1:]), task, weights, [x])

    def check(self, task: Task, weights: Weights, shape: Shape) -> None:
        """Refuse what are not the weights of this net, and the scale of numbers if parties agreed on none."""
        scale = {name: values for name, values in weights.items() if name in (MEAN, SD)}
        own = task.kind == "regression" and task.scale is UNSET
        if scale.keys() != ({MEAN, SD} if own else set()) or any(values.shape != (1,) for values in scale.values()):
            raise ValueError(
                f"it has the scale {sorted(scale)} of numbers, which does not fit the label {task.label!r}"
            )
        load(
            self.form(shape).build(shape, task.outputs), {name: weights[name] for name in weights if name not in scale}
        )

    def form(self, shape: Shape) -> Net:
        """The net for rows of this shape."""
        return self.net or default_net(shape)


class NetModel(Learner, frozen=True):
    """A fully connected net; see `gaps` for rows that lack what a party did not send.

    Attributes:
        net: its layers; no hidden layer makes it linear. None takes a small net that suits the rows, images too.
        trainer: how it is trained; with patience, it also looks at validation rows.
    """

    takes_gaps: ClassVar[bool] = True

    net: Net | None = Mlp(hidden=(128,))
    trainer: Sgd = Sgd(epochs=100, patience=10)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Validation rows too, if it has patience."""
        return ("train",) if self.trainer.patience is None else ("train", "valid")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Train the net; several numbers per row share its hidden layers."""
        if y.ndim == 2:
            refuse_missing("NetModel of several numbers", x)
            return self._fit_numbers(x, y, rng, valid)
        kept = valid and ([valid[0]], valid[1])
        return fit_supervised(self.form(x.shape[1:]), task, [x], y, self.trainer, rng, valid=kept, what="net")

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Put the rows through the net."""
        several = weights[MEAN].size if task.kind == "regression" else 1
        if several == 1:
            return predict_supervised(self.form(x.shape[1:]), task, weights, [x])
        layers = {name: values for name, values in weights.items() if name not in (MEAN, SD)}
        found = evaluate(load(self.form(x.shape[1:]).build(x.shape[1:], several), layers), [to_tensor(x)])
        return np.asarray(to_array(found).astype(np.float64) * weights[SD] + weights[MEAN])

    def form(self, shape: Shape) -> Net:
        """The net for rows of this shape."""
        return self.net or default_net(shape)

    def _fit_numbers(self, x: Array, y: Array, rng: Rng, valid: Shard | None) -> Weights:
        """One net with an output for each number, trained on the sum of their squared errors."""
        mean, sd = y.mean(axis=0, dtype=np.float64), y.std(axis=0, dtype=np.float64)
        module = initialise(self.form(x.shape[1:]).build(x.shape[1:], y.shape[1]), rng)
        kept = valid and ([to_tensor(valid[0])], to_tensor((valid[1] - mean) / sd))
        targets = to_tensor((y - mean) / sd)
        self.trainer.fit(module, [to_tensor(x)], targets, functional.mse_loss, rng, valid=kept, what="net")
        return {**weights_of(module), MEAN: mean, SD: sd}


class _Linear(Learner, frozen=True):
    """Abstract: logistic regression for classes, ridge regression for numbers, by exact solvers."""

    takes_gaps: ClassVar[bool] = True

    penalty: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero(penalty=self.penalty)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Solve for the coefficients; takes no randomness."""
        gaps = learn_gaps(x)
        rows = without_gaps(gaps, x)
        return fit_each(lambda numbers: fit_linear(task, rows, numbers, self.penalty), y) | gaps

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the linear map says."""
        rows = without_gaps(weights, x)
        return predict_each(lambda model: predict_linear(task, model, rows), apart(weights))

    def check(self, task: Task, weights: Weights, shape: Shape) -> None:
        """Refuse what are not this map's coefficients."""
        wanted = {"coefficients": (task.outputs, prod(shape)), "intercept": (task.outputs,)}
        if {name: array.shape for name, array in weights.items()} != wanted:
            raise ValueError(
                f"it does not have {task.outputs} x {prod(shape)} coefficients and {task.outputs} intercepts"
            )


class Logistic(_Linear, frozen=True):
    """Logistic regression.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """


class LinearModel(_Linear, frozen=True):
    """Logistic regression for classes, ridge regression for numbers, by exact solvers.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """


class TreeModel(Learner, frozen=True):
    """Boosted trees or a forest.

    They split on one column at a time, so they lose accuracy where columns were mixed with each other.

    Attributes:
        trees: which, and how many.
    """

    takes_gaps: ClassVar[bool] = True

    trees: Boosted | Forest = Boosted(trees=200, lr=0.2)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Grow the trees."""
        return fit_each(lambda numbers: self.trees.fit(task, x, numbers, rng), y)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the trees say together."""
        return predict_each(lambda model: self.trees.predict(task, model, x), weights)


AnyClassifier: TypeAlias = Network | Logistic | Forest | Boosted
AnyLearner: TypeAlias = Best | NetModel | LinearModel | TreeModel | Estimator | Mixture
AnyHead: TypeAlias = Best | NetModel | LinearModel | Boosted | Forest | Estimator
"""A label holder's model of all numbers side by side."""


def yardstick(model: AnyHead | None, net: Net | None, trainer: Sgd | None, shape: Shape) -> AnyHead:
    """The model of a method that has `model`, and `net` and `trainer` for a plain net, for rows of this shape."""
    if net is None and trainer is None:
        return model or (NetModel(net=None) if len(shape) == 3 else Best())
    if model is not None:
        raise ValueError(
            f"model = {type(model).__name__} leaves no place for net and trainer, which are of a plain net; leave out "
            "either model, or net and trainer"
        )
    return NetModel(net=net, trainer=trainer or Sgd(epochs=100, patience=10))


def as_fitted(model: object, weights: Weights) -> AnyLearner | None:
    """The learner that fits a head anew as it was fitted: what `Best` chose, trees as trees; None for a joint net."""
    if isinstance(model, Boosted | Forest):
        return TreeModel(trees=model)
    if isinstance(model, Best):
        return chosen_in(weights, model) or model
    return model if isinstance(model, NetModel | LinearModel | TreeModel | Estimator | Mixture) else None
