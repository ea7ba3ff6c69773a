"""A scikit-learn estimator of one's own as a model: named by its path and settings, kept without pickle.

What it learnt is kept by `skops`, which writes no code and builds only types that the reader allows: those of
scikit-learn that hold numbers, and nothing else.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, ClassVar

import msgspec
import numpy as np

from laconic.errors import DataError, MissingExtra, PlanError, closest
from laconic.learn.models.gaps import apart, learn_gaps, without_gaps
from laconic.learn.models.supervised import Learner, Shard, fit_each, predict_each
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights, flat

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
