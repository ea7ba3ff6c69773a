"""Forests and boosted trees, grown by XGBoost and kept as plain arrays (see `complete_trees`)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from laconic.core.errors import MissingExtra
from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn.classifier import Classifier, Shard
from laconic.learn.complete_trees import check_trees, complete, predict_trees

_DEEPEST = 10
_BINS = 64
_MOST_BINS = 1024


class Forest(Classifier, frozen=True):
    """A random forest: the mean of many trees, each on a sample of the rows, each split on a sample of the columns.

    With one tree and all rows and columns it is a plain decision tree.

    Attributes:
        trees: how many there are.
        depth: questions from root to leaf at most.
        rows: share of the rows that each tree sees.
        columns: share of the columns that each split may choose from; None for the square root of their number.
    """

    trees: int = 100
    depth: int = 6
    rows: float = 0.632
    columns: float | None = None

    def __post_init__(self) -> None:
        """Refuse forests that cannot grow."""
        _check_counts(self.depth, trees=self.trees)
        _check_shares(rows=self.rows, columns=1.0 if self.columns is None else self.columns)

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Grow the forest."""
        return fit_trees(task, x, y, self, rng)

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Grow a forest for each shard; rows that shards share are sorted into bins once."""
        return _grow_all(task, shards, self, rng)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """The mean of what the trees say."""
        return predict_trees(task, weights, x)

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what is not a forest for such rows."""
        check_trees(task, weights, shape)

    def plan(self, task: Task, columns: int) -> "_Growth":
        """What to ask XGBoost for: squared error on class flags makes each leaf a class's share of its rows."""
        share = columns**-0.5 if self.columns is None else self.columns
        wanted = {"num_parallel_tree": self.trees, "subsample": self.rows, "colsample_bynode": share, "eta": 1.0}
        wanted |= {"objective": "reg:squarederror", "lambda": 0.0, "max_depth": self.depth}
        return _Growth(wanted, 1, _BINS, flags=task.kind == "multiclass", link="share")


class Boosted(Classifier, frozen=True):
    """Gradient-boosted trees.

    Attributes:
        trees: how many follow each other (for each class, if there are several).
        depth: questions from root to leaf at most.
        lr: the share of each tree's answer that is taken.
        penalty: weight of the squared size of the leaves.
        bins: into how many bins the rows of a column are put at most.
    """

    trees: int = 50
    depth: int = 6
    lr: float = 0.3
    penalty: float = 1.0
    bins: int = _BINS

    def __post_init__(self) -> None:
        """Refuse trees that cannot grow."""
        _check_counts(self.depth, trees=self.trees)
        _check_shares(lr=self.lr)
        if self.penalty < 0:
            raise ValueError(f"penalty must be 0 or more, not {self.penalty}")
        if not 2 <= self.bins <= _MOST_BINS:
            raise ValueError(f"bins must be 2 to {_MOST_BINS}, not {self.bins}")

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Grow the trees."""
        return fit_trees(task, x, y, self, rng)

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Grow trees for each shard; rows that shards share are sorted into bins once."""
        return _grow_all(task, shards, self, rng)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """The sum of what the trees say, as probabilities."""
        return predict_trees(task, weights, x)

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not trees for such rows."""
        check_trees(task, weights, shape)

    def plan(self, task: Task, columns: int) -> "_Growth":
        """What to ask XGBoost for."""
        objectives = {"binary": "binary:logistic", "multiclass": "multi:softprob", "regression": "reg:squarederror"}
        wanted = {"objective": objectives[task.kind], "eta": self.lr, "lambda": self.penalty, "max_depth": self.depth}
        if task.kind == "multiclass":
            wanted["num_class"] = len(task.classes)
        link = "logit" if task.kind != "regression" else "share"
        return _Growth(wanted, self.trees, self.bins, flags=False, link=link)


def fit_trees(task: Task, x: Array, y: Array, settings: Forest | Boosted, rng: Rng) -> Weights:
    """Grow trees on labelled rows; also for regression."""
    return _grow_all(task, [(x, y)], settings, rng)[0]


def read_model(written: bytes, depth: int) -> Weights:
    """The trees of a model that XGBoost wrote as JSON, and which output each is for."""
    model = msgspec.json.decode(written, type=_Document).learner.gradient_booster.model
    return complete(model.trees, depth) | {"output": np.array(model.tree_info, dtype=np.int16)}


class _Growth:
    """What to ask XGBoost for, and how to read what it gives."""

    def __init__(self, wanted: dict[str, Any], rounds: int, bins: int, *, flags: bool, link: str) -> None:
        self.rounds, self.flags, self.link = rounds, flags, link
        self.wanted = wanted | {"tree_method": "hist", "max_bin": bins, "nthread": 1, "verbosity": 0}


class _Tree(msgspec.Struct):
    left_children: list[int]
    right_children: list[int]
    split_indices: list[int]
    split_conditions: list[float]


class _Model(msgspec.Struct):
    trees: list[_Tree]
    tree_info: list[int]


class _Booster(msgspec.Struct):
    model: _Model


class _Learner(msgspec.Struct):
    gradient_booster: _Booster


class _Document(msgspec.Struct):
    learner: _Learner


def _grow_all(task: Task, shards: Sequence[Shard], settings: Forest | Boosted, rng: Rng) -> list[Weights]:
    try:
        import xgboost
    except ImportError as problem:
        raise MissingExtra("xgboost", "trees") from problem
    binned: dict[int, Any] = {}
    models = []
    for x, y in shards:
        if id(x) not in binned:
            flat = x.reshape(len(x), -1).astype(np.float32)
            bins = settings.bins if isinstance(settings, Boosted) else _BINS
            binned = {id(x): xgboost.QuantileDMatrix(flat, max_bin=bins, nthread=1)}
        models.append(_grow(task, binned[id(x)], y, settings, rng))
    return models


def _grow(task: Task, rows: Any, y: Array, settings: Forest | Boosted, rng: Rng) -> Weights:
    import xgboost

    growth = settings.plan(task, rows.num_col())
    base = float(np.mean(y)) if task.kind == "regression" else 0.5
    labels = np.eye(len(task.classes), dtype=np.float32)[y] if growth.flags else y.astype(np.float32)
    rows.set_label(labels)
    wanted = growth.wanted | {"base_score": base, "seed": int(rng.integers(2**31))}
    booster = xgboost.train(wanted, rows, growth.rounds)
    is_logit = growth.link == "logit"
    return read_model(bytes(booster.save_raw("json")), settings.depth) | {
        "base": np.full(task.outputs, 0.0 if is_logit else base, dtype=np.float32),
        "logit": np.array([is_logit], dtype=np.uint8),
    }


def _check_counts(depth: int, **counts: int) -> None:
    if not 1 <= depth <= _DEEPEST:
        raise ValueError(f"depth must be 1 to {_DEEPEST}, not {depth}")
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} must be 1 or more, not {value}")


def _check_shares(**shares: float) -> None:
    for name, value in shares.items():
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be above 0 and at most 1, not {value}")
