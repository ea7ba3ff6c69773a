"""Federations as scikit-learn estimators: a table's columns are dealt among parties, and everything else is as usual.

For trying methods out with scikit-learn's own tools (clone, cross-validation, grid search, pipelines), on one machine.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from laconic.core.method import Method
from laconic.data.datasets import Dataset
from laconic.data.federation import Federation
from laconic.data.labels import as_numbers, guess_kind
from laconic.data.partition.columns import Cut, Equal, deal
from laconic.data.readers.cells import code_levels
from laconic.deploy.execute import FittedRun, train
from laconic.methods.vertical.fedonce import FedOnce
from laconic.tables.columns import Column
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame

_SEPARATOR = "__"
_LEAST_ROWS = 3


class _Federated(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the two estimators share.

    Settings of the method are parameters too, named as scikit-learn names nested ones: `method__encoder__dim`.
    """

    def __init__(
        self, method: Method | None = None, *, cut: Cut | None = None, hub: int = 0, valid: float = 0.1, seed: int = 0
    ) -> None:
        self.method = method
        self.cut = cut
        self.hub = hub
        self.valid = valid
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters; with `deep`, the settings within method and cut as well."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in ("method", "cut"):
                found |= _settings(found[name], name)
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; a setting within settings makes new settings, as they never change."""
        for key, value in sorted(params.items(), key=lambda pair: pair[0].count(_SEPARATOR)):
            name, _, within = key.partition(_SEPARATOR)
            if name not in super().get_params(deep=False):
                raise ValueError(
                    f"{type(self).__name__} has no parameter {key!r}; it has {', '.join(self.get_params())}"
                )
            default = FedOnce() if name == "method" else Equal(parties=3)
            current = getattr(self, name)
            setattr(self, name, _changed(default if current is None else current, within, value) if within else value)
        return self

    def _fit(self, raw: Array, columns: tuple[Column, ...], y: Array, task: Task) -> None:
        if len(y) < _LEAST_ROWS:
            raise ValueError(
                f"n_samples={len(y)} is too few to learn from and to validate on; give {_LEAST_ROWS} or more"
            )
        dataset = Dataset(name=type(self).__name__, raw=raw, columns=columns, y=y, task=task)
        cut = self.cut or Equal(parties=min(3, len(columns)))
        method = self.method or FedOnce()
        if method.kind != "vertical":
            raise ValueError(
                f"{type(method).__name__} is a horizontal method, and columns are dealt here; use one such as FedOnce"
            )
        federation = deal(dataset, cut, hub=self.hub, seed=self.seed, test=0.0, valid=self.valid)
        self.trained_: FittedRun = train(method, federation, seed=self.seed, rows="train")
        self.result_ = self.trained_.result
        self._columns = columns

    def _predictions(self, frame: Any) -> Array:
        check_is_fitted(self, "trained_")
        raw = self._read(frame)
        return self.trained_.predict("new", _rows_for(self.trained_.federation, self._columns, raw))

    def _read(self, x: Any) -> Array:
        """Cells of new rows, coded as those that were fitted to."""
        if not _is_frame(x):
            return cast("Array", validate_data(self, x, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))
        validate_data(self, x, reset=False, skip_check_array=True)
        return np.column_stack([_cells(x, column) for column in self._columns])

    def _learn_columns(self, x: Any) -> tuple[Array, tuple[Column, ...]]:
        if not _is_frame(x):
            raw = validate_data(self, x, dtype=np.float64, ensure_all_finite="allow-nan")
            return raw, tuple(Column(f"x{place}") for place in range(raw.shape[1]))
        validate_data(self, x, skip_check_array=True)
        columns = tuple(_column(x, str(name)) for name in x.columns)
        return np.column_stack([_cells(x, column) for column in columns]), columns

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn should know about it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags


class FederatedClassifier(ClassifierMixin, _Federated):  # type: ignore[misc]
    """A federation that predicts classes, as a scikit-learn classifier.

    Args:
        method: what is run; None for FedOnce().
        cut: how columns are dealt among parties; None for three equal shares.
        hub: which party has the labels.
        valid: share of the rows that methods may use to stop early.
        seed: for all randomness.

    Example:
        >>> from sklearn.model_selection import GridSearchCV
        >>> from laconic import FederatedClassifier
        >>> GridSearchCV(FederatedClassifier(), {"method__encoder__dim": [4, 8]}).fit(x, y).best_params_
    """

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's name)
        """Train on labelled rows: an array, or a frame whose text columns are categories."""
        raw, columns = self._learn_columns(X)
        y = _labels(raw, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: found only {self.classes_[0]!r}")
        names = tuple(str(one) for one in self.classes_)
        self._fit(raw, columns, codes, Task(kind="binary" if len(names) == 2 else "multiclass", classes=names))
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The likeliest class of each row."""
        check_is_fitted(self, "trained_")
        return cast("Array", self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class, in the order of `classes_`."""
        found = self._predictions(X).astype(np.float64)
        return found if len(self.classes_) > 2 else np.stack([1.0 - found, found], axis=1)


class FederatedRegressor(RegressorMixin, _Federated):  # type: ignore[misc]
    """A federation that predicts numbers, as a scikit-learn regressor; arguments as for `FederatedClassifier`."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on labelled rows: an array, or a frame whose text columns are categories."""
        raw, columns = self._learn_columns(X)
        self._fit(raw, columns, _labels(raw, y, numeric=True).astype(np.float64), Task(kind="regression"))
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The number of each row."""
        return self._predictions(X).astype(np.float64)


def _settings(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, msgspec.Struct):
        return {}
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(value):
        name, inner = f"{path}{_SEPARATOR}{field.name}", getattr(value, field.name)
        found |= {name: inner} | _settings(inner, name)
    return found


def _changed(settings: Any, path: str, value: Any) -> Any:
    name, _, within = path.partition(_SEPARATOR)
    known = [field.name for field in msgspec.structs.fields(settings)] if isinstance(settings, msgspec.Struct) else []
    if name not in known:
        raise ValueError(f"{type(settings).__name__} has no setting {name!r}; it has {', '.join(known) or 'none'}")
    return msgspec.structs.replace(
        settings, **{name: _changed(_begun(settings, name), within, value) if within else value}
    )


def _is_frame(x: Any) -> bool:
    return type(x).__module__.startswith("pandas") and hasattr(x, "columns")


def _column(frame: "DataFrame", name: str) -> Column:
    series = frame[name] if name in frame else frame[int(name)]
    if guess_kind(series) == "categorical":
        return Column(name, "categorical", code_levels(series)[1])
    return Column(name)


def _cells(frame: "DataFrame", column: Column) -> Array:
    series = frame[column.name] if column.name in frame else frame[int(column.name)]
    if column.kind == "categorical":
        return code_levels(series, column.levels)[0]
    return as_numbers(series, "the table")


def _labels(raw: Array, y: Any, *, numeric: bool = False) -> Array:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    numbers = numeric or type_of_target(y) in ("continuous",)
    return cast("Array", check_X_y(raw, y, ensure_all_finite="allow-nan", y_numeric=numbers)[1])


def _rows_for(federation: Federation, columns: tuple[Column, ...], raw: Array) -> Federation:
    """New rows dealt as the columns were, each party's prepared as its own."""
    places = {column.name: place for place, column in enumerate(columns)}
    tables = {}
    for name, table in federation.tables.items():
        tables[name] = Table(
            raw[:, [places[column.name] for column in table.columns]],
            table.columns,
            task=table.task,
            # A federation must have labels; these are not looked at.
            y=None if table.y is None else np.zeros(len(raw)),
            cuts={"new": np.arange(len(raw))},
            party=name,
            recipe=table.recipe,
        )
    return replace(federation, tables=tables, aligned=True)


def _begun(settings: msgspec.Struct, name: str) -> Any:
    """A setting to change within; where it is None, the first kind that it may be, as it comes."""
    if (current := getattr(settings, name)) is not None:
        return current
    found = next(one.type for one in msgspec.inspect.type_info(type(settings)).fields if one.name == name)  # type: ignore[attr-defined]
    kinds = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    return next((one.cls() for one in kinds if isinstance(one, msgspec.inspect.StructType)), None)
