"""Forests and boosted trees, grown by XGBoost and kept as plain arrays: all of one depth, padded where one is shorter.

A row that lacks the number a question is about goes where XGBoost learnt to send it, if it learnt from such rows at
all; else to the left.
"""

from abc import abstractmethod
from collections.abc import Sequence
from math import log, prod
from typing import Any, ClassVar

import msgspec
import numpy as np

from laconic.errors import PlanError
from laconic.learn.models.cox import base_of
from laconic.learn.models.supervised import Learner, Shard
from laconic.tables.task import Task, events_of
from laconic.values import Array, Rng, Weights, check_above_zero, check_least

ALWAYS = np.finfo(np.float32).max
"""The threshold of a padding node: every prepared number is below it, so all rows go left."""

_MOST_NODES = 2**26
_ROWS_AT_ONCE = 8192


MISSING = "missing"
"""The array that holds 1 for each question of which rows that lack the number go right; left out if none did."""


def read_model(written: bytes, depth: int, *, missing: bool = False) -> Weights:
    """The trees of a model that XGBoost wrote as JSON, and which output each is for.

    With `missing`, also where rows go that lack a number.

    All are padded to the same depth, level by level for all of them at once. XGBoost writes a tree node by node; a leaf
    has children -1 and its answer for a condition.
    """
    model = msgspec.json.decode(written)["learner"]["gradient_booster"]["model"]
    trees = model["trees"]
    left, right, column, value, stays = (
        np.concatenate([np.array(tree[name]) for tree in trees])
        for name in ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    )
    sizes = [len(tree["left_children"]) for tree in trees]
    starts = np.cumsum([0, *sizes])[:-1]
    offsets = np.repeat(starts, sizes)
    ends = left < 0
    left, right = np.where(ends, 0, left + offsets), np.where(ends, 0, right + offsets)
    at, columns, thresholds, goes_right = starts[:, None], [], [], []
    for _ in range(depth):
        done = ends[at]
        columns.append(np.where(done, 0, column[at]))
        thresholds.append(np.where(done, ALWAYS, value[at]))
        goes_right.append(np.where(done, 0, 1 - stays[at]))
        both = np.stack([np.where(done, at, left[at]), np.where(done, at, right[at])], axis=2)
        at = both.reshape(len(trees), -1)
    return {
        "column": np.concatenate(columns, axis=1).astype(np.int16 if column.max() < 2**15 else np.int32),
        "threshold": np.concatenate(thresholds, axis=1).astype(np.float32),
        "leaf": value[at].astype(np.float32),
        "output": np.array(model["tree_info"], dtype=np.int16),
        **({MISSING: np.concatenate(goes_right, axis=1).astype(np.uint8)} if missing else {}),
    }


def predict_trees(task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities, numbers, or risks, for rows."""
    from scipy.special import expit, softmax

    flat = np.ascontiguousarray(x.reshape(len(x), prod(x.shape[1:])), dtype=np.float32)
    parts = np.array_split(flat, len(flat) // _ROWS_AT_ONCE + 1)
    sums = np.concatenate([_sums(weights, part) for part in parts]) + weights["base"]
    if not task.of_classes:
        numbers = sums[:, 0].astype(np.float64)
        # Of counts, trees say the logarithm of the mean; one that anybody may have sent is not followed for ever.
        logged = task.kind == "regression" and weights["logit"][0]
        return np.exp(np.minimum(numbers, _MOST_LOG)) if logged else numbers
    if weights["logit"][0]:
        sums = expit(sums) if task.kind == "binary" else softmax(sums, axis=1)
    sums = np.clip(sums, 0, 1)
    if task.kind == "binary":
        return np.asarray(sums[:, 0])
    total = sums.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, sums / np.where(total > 0, total, 1), 1 / sums.shape[1]))


def check_trees(task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
    """Raise a `ValueError` unless these arrays, which may come from anyone, are trees for rows of this shape."""
    if weights.keys() - {MISSING} != {"column", "threshold", "leaf", "output", "base", "logit"}:
        raise ValueError(f"its arrays are {sorted(weights)}")
    column, threshold, leaf, output = (weights[name] for name in ("column", "threshold", "leaf", "output"))
    if leaf.ndim != 2 or leaf.size == 0 or leaf.size > _MOST_NODES or leaf.shape[1].bit_count() != 1:
        raise ValueError(f"leaves of shape {leaf.shape}; a power of two for each of some trees is needed")
    inner = (len(leaf), leaf.shape[1] - 1)
    if (
        any(one.shape != inner for one in (column, threshold, weights.get(MISSING, column)))
        or output.shape != inner[:1]
    ):
        raise ValueError("its arrays do not fit each other")
    if weights["base"].shape != (task.outputs,) or weights["logit"].shape != (1,):
        raise ValueError(f"it does not give {task.outputs} numbers per row")
    _check_range("columns", column, prod(shape))
    _check_range("outputs", output, task.outputs)


def _sums(weights: Weights, x: Array) -> Array:
    """What all trees say of each row, summed by output."""
    trees, leaves = weights["leaf"].shape
    starts = np.arange(trees, dtype=np.int32)[:, None] * np.int32(leaves - 1)
    rows = np.arange(len(x), dtype=np.int32)[None] * np.int32(x.shape[1])
    column, threshold = weights["column"].astype(np.int32).ravel(), weights["threshold"].ravel()
    cells, at = x.ravel(), np.zeros((trees, len(x)), dtype=np.int32)
    missing = weights[MISSING].ravel() if MISSING in weights and np.isnan(x).any() else None
    for _ in range(leaves.bit_length() - 1):
        node = at + starts
        asked = cells.take(column.take(node) + rows)
        goes_right = asked >= threshold.take(node)
        if missing is not None:
            goes_right |= np.isnan(asked) & (missing.take(node) == 1)
        at += at + 1 + goes_right
    leaf = np.take_along_axis(weights["leaf"], at - (leaves - 1), axis=1)
    outputs = range(len(weights["base"]))
    return np.stack([leaf[weights["output"] == output].sum(axis=0, dtype=np.float64) for output in outputs], axis=1)


def _check_range(what: str, values: Array, count: int) -> None:
    if values.dtype.kind not in "iu" or values.size == 0 or values.min() < 0 or values.max() >= count:
        raise ValueError(f"its {what} are not all whole numbers from 0 to {count - 1}")


def targets_of(task: Task, y: Array) -> Array:
    """Labels as XGBoost takes them: a censored time is below zero, and one of zero must be too."""
    found = y.astype(np.float32)
    if task.kind == "survival":
        found = np.where(events_of(y), found, np.minimum(found, -np.finfo(np.float32).tiny))
    return found


_DEEPEST = 10
_BINS = 64
_MOST_BINS = 1024
_ALWAYS_WANTED = {"tree_method": "hist", "nthread": 1, "verbosity": 0}


class _Trees(Learner, frozen=True):
    """Abstract: trees, whichever way they are grown; also for regression."""

    takes_gaps: ClassVar[bool] = True

    @property
    @abstractmethod
    def follow(self) -> int:
        """How many trees follow each other."""

    @abstractmethod
    def plan(self, task: Task, columns: int) -> dict[str, Any]:
        """What to ask XGBoost for."""

    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Grow trees on labelled rows."""
        return self.fit_many(task, [(x, y)], rng)[0]

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """Grow trees for each shard; rows that shards share are sorted into bins once."""
        import xgboost

        binned: dict[int, Any] = {}
        models = []
        for x, y in shards:
            wanted = self.wanted(task, prod(x.shape[1:]), y, rng)
            if id(x) not in binned:
                flat = x.reshape(len(x), -1).astype(np.float32, copy=False)
                binned = {id(x): xgboost.QuantileDMatrix(flat, max_bin=wanted["max_bin"], nthread=1)}
            rows, is_logit = binned[id(x)], wanted["objective"] != "reg:squarederror"
            flags = task.kind == "multiclass" and not is_logit
            rows.set_label(np.eye(len(task.classes), dtype=np.float32)[y] if flags else targets_of(task, y))
            booster = xgboost.train(wanted, rows, self.follow)
            lacks = bool(np.isnan(x).any())
            models.append(read_model(bytes(booster.save_raw("json")), wanted["max_depth"], missing=lacks))
            start = wanted["base_score"]
            if is_logit:  # Of counts the logarithm of the mean; a mean of numbers may be below 0.
                start = log(start) if task.kind == "regression" else 0.0
            models[-1]["base"] = np.full(task.outputs, start, dtype=np.float32)
            models[-1]["logit"] = np.array([is_logit], dtype=np.uint8)
            if task.kind == "survival":
                models[-1]["base"] += np.float32(base_of(task, self.predict(task, models[-1], x), y))
        return models

    def wanted(self, task: Task, columns: int, y: Array, rng: Rng) -> dict[str, Any]:
        """What XGBoost is asked for, where these labels are learnt."""
        base = float(np.mean(y)) if task.kind == "regression" else 0.5
        return self.plan(task, columns) | {"base_score": base, "seed": int(rng.integers(2**31))}

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the trees say together."""
        return predict_trees(task, weights, x)

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Refuse what are not trees for such rows."""
        check_trees(task, weights, shape)


_MOST_LOG = 700.0


class Forest(_Trees, frozen=True):
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
        _check_depth(self.depth)
        check_least(1, trees=self.trees)
        check_above_zero(1, rows=self.rows, columns=1.0 if self.columns is None else self.columns)

    @property
    def follow(self) -> int:
        """None follows another."""
        return 1

    def plan(self, task: Task, columns: int) -> dict[str, Any]:
        """What to ask XGBoost for: squared error on class flags makes each leaf a class's share of its rows."""
        if task.kind == "survival":
            raise PlanError("a Forest takes the mean of labels, which times cut short have not; use Boosted or Best")
        share = columns**-0.5 if self.columns is None else self.columns
        wanted = {"num_parallel_tree": self.trees, "subsample": self.rows, "colsample_bynode": share, "eta": 1.0}
        wanted |= {"objective": "reg:squarederror", "lambda": 0.0, "max_depth": self.depth}
        return wanted | _ALWAYS_WANTED | {"max_bin": _BINS}


class Boosted(_Trees, frozen=True):
    """Gradient-boosted trees.

    Attributes:
        trees: how many follow each other (for each class, if there are several).
        depth: questions from root to leaf at most.
        lr: the share of each tree's answer that is taken.
        penalty: weight of the squared size of the leaves.
        bins: into how many bins the rows of a column are put at most.
        rows: share of the rows that each tree sees.
        columns: share of the columns that each tree sees.
        least_rows: how many rows, each weighed by how undecided it still is, each leaf must have.
    """

    trees: int = 50
    depth: int = 6
    lr: float = 0.3
    penalty: float = 1.0
    bins: int = _BINS
    rows: float = 1.0
    columns: float = 1.0
    least_rows: float = 1.0

    def __post_init__(self) -> None:
        _check_depth(self.depth)
        check_least(1, trees=self.trees)
        check_least(0, penalty=self.penalty, least_rows=self.least_rows)
        check_above_zero(1, lr=self.lr, rows=self.rows, columns=self.columns)
        if not 2 <= self.bins <= _MOST_BINS:
            raise ValueError(f"bins must be 2 to {_MOST_BINS}, not {self.bins}")

    @property
    def follow(self) -> int:
        """All of them."""
        return self.trees

    def plan(self, task: Task, columns: int) -> dict[str, Any]:
        """What to ask XGBoost for."""
        objectives = {"binary": "binary:logistic", "multiclass": "multi:softprob", "regression": "reg:squarederror"}
        objectives |= {"survival": "survival:cox"}
        objective = "count:poisson" if task.by_log else objectives[task.kind]
        wanted = {"objective": objective, "eta": self.lr, "lambda": self.penalty, "max_depth": self.depth}
        if task.kind == "multiclass":
            wanted["num_class"] = len(task.classes)
        if self.rows < 1 or self.columns < 1 or self.least_rows != 1.0:
            wanted |= {"subsample": self.rows, "colsample_bytree": self.columns, "min_child_weight": self.least_rows}
        return wanted | _ALWAYS_WANTED | {"max_bin": self.bins}


def _check_depth(depth: int) -> None:
    if not 1 <= depth <= _DEEPEST:
        raise ValueError(f"depth must be 1 to {_DEEPEST}, not {depth}")
