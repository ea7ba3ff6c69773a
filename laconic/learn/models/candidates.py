"""The models that `Best` tries: how each is judged on folds of the rows, what it costs, and how it is fitted at last.

All of them take NaN for what is missing. Trees learn for each question where such a row goes; linear models and nets
take the mean, and a mark for each block of columns that are missing together.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor

from laconic.learn.device import device_now
from laconic.learn.models.cox import base_of, cox_loss
from laconic.learn.models.supervised import (
    FILL,
    Shard,
    blocks_of,
    filled,
    fit_linear,
    learn_fill,
    predict_linear,
    predict_supervised,
)
from laconic.learn.nets.layers import permutation, torch_generator
from laconic.learn.nets.nets import Mlp, make, to_tensor, weights_of
from laconic.learn.train import losses as heads
from laconic.learn.train.descent import DenseNets
from laconic.learn.train.sgd import Sgd
from laconic.learn.trees.dense_trees import Boosted, targets_of
from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights

FARTHEST = 6.0
"""Nets see no number farther than so many standard deviations from the mean of its column."""


class Folds:
    """Rows to choose on, and which of them each fold holds out.

    Attributes:
        held: the places held out, by fold; each row is held out once, or never, and then every fold learns from it.
        groups: the group of each row: no fold learns from a row of a group that it holds out; None for no groups.
    """

    def __init__(self, task: Task, x: Array, y: Array, held: Sequence[Array], groups: Array | None = None) -> None:
        self.task, self.x, self.y, self.held, self.groups = task, x, y, held, groups

    @cached_property
    def used(self) -> list[Array]:
        """The places that each fold learns from."""
        every = np.arange(len(self.y))
        if self.groups is None:
            return [np.setdiff1d(every, held, assume_unique=True) for held in self.held]
        apart = [np.setdiff1d(every, held, assume_unique=True) for held in self.held]
        found = [one[~np.isin(self.groups[one], self.groups[held])] for one, held in zip(apart, self.held, strict=True)]
        # All rows of one group: rows are held out at random, and the others of the group are all there is.
        return [one if len(one) else all_but for one, all_but in zip(found, apart, strict=True)]

    @cached_property
    def blocks(self) -> Array:
        """See `blocks_of`; of all rows, so that every fold's model has the same form."""
        return blocks_of(self.x)

    @cached_property
    def binned(self) -> list[tuple[Any, Any]]:
        """Each fold's rows as XGBoost takes them, to learn from and held out: sorted into bins once for all trees."""
        import xgboost

        found = []
        for used, held in zip(self.used, self.held, strict=True):
            x, y = self.x, targets_of(self.task, self.y)
            rows = xgboost.QuantileDMatrix(x[used], y[used], max_bin=BINS, nthread=1)
            found.append((rows, xgboost.QuantileDMatrix(x[held], y[held], max_bin=BINS, ref=rows, nthread=1)))
        return found

    @cached_property
    def judged(self) -> Array:
        """The places that are held out by some fold, in order."""
        return np.sort(np.concatenate(self.held))

    @property
    def truth(self) -> Array:
        """The labels of the rows that are held out."""
        return self.y[self.judged]

    def predictions(self, by_fold: Sequence[Array]) -> Array:
        """What was predicted of the rows that each fold held out, in the order of the rows."""
        found = np.zeros(self.task.shape(len(self.y)))
        for held, values in zip(self.held, by_fold, strict=True):
            found[held] = values
        return found[self.judged]


class Trial(NamedTuple):
    """How a candidate did.

    Attributes:
        candidate: the candidate, with as many trees or epochs as were best.
        predictions: of every row that was held out, by a model that had not learnt from it.
    """

    candidate: "AnyCandidate"
    predictions: Array


class Candidate(Settings, frozen=True):
    """Abstract: a model that may be chosen."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, for people."""

    @abstractmethod
    def seconds(self, rows: int, columns: int, outputs: int) -> float:
        """About how long one fit takes on one processor, at most; a stated model, so that no clock decides."""

    @abstractmethod
    def try_out(self, folds: Folds, rng: Rng) -> Trial:
        """Learn from each fold and predict what it holds out."""

    @abstractmethod
    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Learn from all rows."""

    @abstractmethod
    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Probabilities or numbers for rows."""


class LinearCandidate(Candidate, frozen=True, tag="linear"):
    """Ridge or logistic regression, or Cox's model, on standardised columns.

    Attributes:
        penalty: weight of the squared size of the coefficients.
    """

    penalty: float

    @property
    def words(self) -> str:
        """What it is."""
        return f"linear model, penalty {self.penalty:g}"

    def seconds(self, rows: int, columns: int, outputs: int) -> float:
        """A few dozen passes over the rows; an exact solution for numbers takes fewer."""
        return 0.005 + 4e-8 * rows * (columns + 5) * outputs + 1e-9 * rows * columns**2

    def try_out(self, folds: Folds, rng: Rng) -> Trial:
        """Solve for each fold."""
        found = []
        for used, held in zip(folds.used, folds.held, strict=True):
            weights = self._solved(folds.task, folds.x[used], folds.y[used], folds.blocks)
            found.append(self.predict(folds.task, weights, folds.x[held]))
        return Trial(self, folds.predictions(found))

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Solve for the coefficients."""
        return self._solved(task, x, y, blocks_of(x))

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the linear map says."""
        return predict_linear(task, weights, filled(weights, x))

    def _solved(self, task: Task, x: Array, y: Array, blocks: Array) -> Weights:
        fill = learn_fill(x, blocks)
        return fit_linear(task, filled(fill, x), y, self.penalty) | fill


class TreesCandidate(Candidate, frozen=True, tag="trees"):
    """Boosted trees, as many as were best on rows held out.

    Attributes:
        trees: how they grow, and how many at most.
        patience: trees without a lower loss after which no more are tried.
    """

    trees: Boosted
    patience: int = 25

    @property
    def words(self) -> str:
        """What it is."""
        return f"boosted trees, {self.trees.trees} of depth {self.trees.depth}, lr {self.trees.lr:g}"

    def seconds(self, rows: int, columns: int, outputs: int) -> float:
        """Each level of a tree passes over all rows once, and over all bins of all its nodes.

        Few rows fill few nodes, and fewer yet where each of several classes has trees of its own.
        """
        nodes = min(1 << self.trees.depth, 1 + rows // (5 if outputs == 1 else 4 * outputs))
        a_tree = 1e-4 + 3.3e-10 * rows * columns * self.trees.depth + 4e-9 * columns * BINS * nodes
        return 5e-6 * rows * columns / 40 + outputs * self.trees.trees * a_tree

    def try_out(self, folds: Folds, rng: Rng) -> Trial:
        """Grow one tree per fold at a time, until the mean loss on rows held out falls no further."""
        import xgboost

        boosters = []
        for rows, held in folds.binned:
            wanted = self.trees.wanted(folds.task, folds.x.shape[1], rows.get_label(), rng)
            boosters.append(xgboost.Booster(wanted, [rows, held]))
        losses: list[float] = []
        for turn in range(self.trees.trees):
            found = []
            for booster, (rows, held) in zip(boosters, folds.binned, strict=True):
                booster.update(rows, turn)
                found.append(float(booster.eval(held).rpartition(":")[2]))
            losses.append(float(np.mean(found)))
            if turn - int(np.argmin(losses)) >= self.patience:
                break
        best = int(np.argmin(losses)) + 1
        said = [
            _said(folds.task, booster, rows, held, best)
            for booster, (rows, held) in zip(boosters, folds.binned, strict=True)
        ]
        kept = msgspec.structs.replace(self, trees=msgspec.structs.replace(self.trees, trees=best))
        return Trial(kept, folds.predictions(said))

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Grow as many trees as were best."""
        return self.trees.fit(task, x, y, rng)

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """What the trees say together."""
        return self.trees.predict(task, weights, x)


def _said(task: Task, booster: Any, rows: Any, held: Any, trees: int) -> Array:
    """What so many trees of a booster say of rows held out from it."""
    if task.kind != "survival":
        return np.asarray(booster.predict(held, iteration_range=(0, trees)))
    learnt, found = (booster.predict(one, output_margin=True, iteration_range=(0, trees)) for one in (rows, held))
    return np.asarray(found + base_of(task, learnt, rows.get_label()))


class NetCandidate(Candidate, frozen=True, tag="net"):
    """A small fully connected net, trained for as many epochs as were best on rows held out.

    Attributes:
        hidden: the width of each hidden layer.
        lr: the learning rate, where its cosine begins.
        decay: weight of the L2 penalty.
        epochs: how many at most; `planned` of them are what the learning rate falls over.
        planned: as said.
        patience: epochs without a lower loss after which no more are tried.
        hide: the share of rows of a batch for which a block of columns, if blocks are missing at all, is hidden.
    """

    hidden: tuple[int, ...]
    lr: float = 2e-3
    decay: float = 1e-4
    epochs: int = 60
    planned: int = 60
    patience: int = 8
    hide: float = 0.15

    @property
    def words(self) -> str:
        """What it is."""
        return f"net of {' and '.join(map(str, self.hidden))} units, {self.epochs} epochs"

    def seconds(self, rows: int, columns: int, outputs: int) -> float:
        """Each epoch goes over all rows in batches; the constants are measured."""
        widths = (columns, *self.hidden, outputs)
        products = sum(one * following for one, following in pairwise(widths))
        steps = -(-rows // _batch(rows))
        return self.epochs * (4e-4 * steps + 2.5e-10 * rows * products)

    def try_out(self, folds: Folds, rng: Rng) -> Trial:
        """Train a net per fold side by side, until their mean loss on rows held out falls no further."""
        shards = [(folds.x[used], folds.y[used]) for used in folds.used]
        nets = _Nets(self, folds.task, shards, folds.blocks, rng)
        held = [filled(fill, folds.x[place], FARTHEST) for fill, place in zip(nets.fills, folds.held, strict=True)]
        losses: list[float] = []
        said: list[list[Array]] = []
        for epoch in range(self.epochs):
            nets.learn(epoch)
            said.append(nets.predict(held))
            losses.append(loss(folds.task, folds.truth, folds.predictions(said[-1])))
            best = int(np.argmin(losses))
            if epoch - best >= self.patience:
                break
        return Trial(msgspec.structs.replace(self, epochs=best + 1), folds.predictions(said[best]))

    def fit(self, task: Task, x: Array, y: Array, rng: Rng) -> Weights:
        """Train for as many epochs as were best."""
        nets = _Nets(self, task, [(x, y)], blocks_of(x), rng)
        for epoch in range(self.epochs):
            nets.learn(epoch)
        return nets.nets.weights()[0] | nets.scales[0] | nets.fills[0]

    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Put the rows through the net."""
        layers = {name: values for name, values in weights.items() if name not in FILL}
        return predict_supervised(Mlp(hidden=self.hidden), task, layers, [filled(weights, x, FARTHEST)])


AnyCandidate: TypeAlias = LinearCandidate | TreesCandidate | NetCandidate


class _Nets:
    """Nets of one form at work, each on rows of its own."""

    def __init__(self, net: NetCandidate, task: Task, shards: Sequence[Shard], blocks: Array, rng: Rng) -> None:
        self.net, self.task, self.blocks = net, task, blocks
        self.fills = [learn_fill(x, blocks) for x, _ in shards]
        self.scales = [heads.scale_of(task, y) for _, y in shards]
        self.rows = [to_tensor(filled(fill, x, FARTHEST)) for fill, (x, _) in zip(self.fills, shards, strict=True)]
        self.targets = [heads.to_targets(task, y, scale) for scale, (_, y) in zip(self.scales, shards, strict=True)]
        self.form, rngs = Mlp(hidden=net.hidden), rng.spawn(len(shards))
        first = [weights_of(make(self.form, tuple(self.rows[0].shape[1:]), task.outputs, one)) for one in rngs]
        self.draws = [torch_generator(one) for one in rngs]
        size = _batch(len(shards[0][1]))
        self.trainer = Sgd(lr=net.lr, decay="cosine", epochs=net.planned, weight_decay=net.decay, batch=size)
        self.nets = DenseNets(self.form, first, self.trainer)

    def learn(self, epoch: int) -> None:
        """One epoch."""
        orders = [permutation(len(y), draw) for y, draw in zip(self.targets, self.draws, strict=True)]
        longest, size, slope = max(map(len, orders)), self.trainer.batch, heads.slope_of(self.task)
        everyone = range(len(orders))
        for at in range(0, longest, size):
            # Folds differ by a row or so: one that is short takes rows from the start of its order again.
            places = torch.arange(at, min(at + size, longest), device="cpu")
            rows = [order[places % len(order)].to(device_now()) for order in orders]
            x = torch.stack([self._some_hidden(one, self.rows[one][rows[one]]) for one in everyone])
            targets = torch.cat([self.targets[one][rows[one]] for one in everyone])
            outputs = self.nets.outputs(x)
            by_row = slope(outputs.flatten(0, 1), targets).view_as(outputs) / x.shape[1]
            self.nets.learn(by_row, self.trainer.lr_at((epoch + at / longest) / self.net.planned), everyone)

    def predict(self, inputs: Sequence[Array]) -> list[Array]:
        """What each net says of rows of its own."""
        parts = zip(self.nets.weights(), self.scales, inputs, strict=True)
        return [predict_supervised(self.form, self.task, weights | scale, [x]) for weights, scale, x in parts]

    def _some_hidden(self, place: int, x: Tensor) -> Tensor:
        """Rows of a batch, some of them without a block that is missing elsewhere."""
        columns = len(self.blocks)
        for number in range(int(self.blocks.max(initial=-1)) + 1):
            drawn = torch.rand(len(x), generator=self.draws[place], device="cpu") < self.net.hide
            hidden = drawn.to(device_now())[:, None]
            within = np.append(self.blocks == number, np.zeros(x.shape[1] - columns, bool))
            mark = np.arange(x.shape[1]) == columns + number
            x = torch.where(hidden & torch.tensor(within, device=device_now()), 0.0, x)
            x = torch.where(hidden & torch.tensor(mark, device=device_now()), 1.0, x)
        return x


BINS = 128
"""Into how many bins trees put the rows of a column."""


def loss(task: Task, y: Array, predictions: Array) -> float:
    """The mean log loss, or the mean squared error in units of the labels' variance: what is chosen by.

    Of times to an event, the mean logarithm of the partial likelihood, turned.
    """
    if task.kind == "survival":
        return cox_loss(y, predictions)
    if task.kind == "regression":
        return float(np.mean((predictions - y) ** 2) / (np.var(y) or 1.0))
    return float(-np.mean(np.log(chosen_probability(task, y, predictions))))


def chosen_probability(task: Task, y: Array, predictions: Array) -> Array:
    """The probability that was given to what each row's label is."""
    codes = np.asarray(y, dtype=np.int64)
    if task.kind == "binary":
        predictions = np.stack([1 - predictions, predictions], axis=1)
    return np.clip(predictions[np.arange(len(codes)), codes], 1e-6, 1.0)


def _batch(rows: int) -> int:
    """Rows per step: larger for more rows, so that an epoch does not take ever more steps."""
    return 64 if rows < 4_000 else 128 if rows < 16_000 else 256 if rows < 64_000 else 512
