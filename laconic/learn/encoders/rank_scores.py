"""Rank scores: a column by the rank of its cells, which few columns stand for all, and what is sent beside them.

Trees cut one number at a time, so that a column is worth more to them than sums of columns; and they see ranks only, so
that a score loses nothing but what it hides of a long tail. Sums are worth more where columns are many and each says
little. `Beside` puts out both; `LearntBeside` has a small net in place of the sums.

A party has no labels, so that it cannot see which of the two serves the label holder better. It can see which of them
lets its own columns be rebuilt by boosted trees, on rows that neither trees nor encoder have learnt from: whatever
trees can rebuild, the label holder's trees can use. The learnt numbers are taken where they are clearly better.
"""

from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.device import device_now
from laconic.learn.encoders.encoder import as_layer, principal_components
from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import Mlp, initialise, load, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.values import Array, Rng, Weights

KNOTS = 64
"""A column's score is a line between so many of its values; values between two knots keep their order."""

LEARNT = Mlp(hidden=(64,))
_LEARNT_END = "learnt.3.bias"
"""The net beside ranks, and what its last layer's bias is called; saved models depend on both."""

_FARTHEST = 0.002
"""Ranks beyond this share of the rows, at either end, count as this share."""


def fit_scores(x: Array) -> tuple[Array, Array]:
    """For each column its knots, in rising order, and their scores; both (columns, `KNOTS`).

    Scores are those of a normal distribution by rank, brought to mean 0 and spread 1 over the rows. A column of two
    values keeps them: a rare flag must not become a huge number.
    """
    fitted = [_fit_column(column) for column in np.asarray(x, dtype=np.float32).T]
    knots, heights = (np.stack(part) for part in zip(*fitted, strict=True))
    return knots, heights


def score(x: Array, knots: Array, heights: Array) -> Array:
    """The scores of rows, by the lines between knots."""
    columns = zip(np.asarray(x, dtype=np.float32).T, knots, heights, strict=True)
    return np.column_stack([np.interp(*column) for column in columns])


def choose_columns(scores: Array, count: int) -> list[int]:
    """The places of the columns from which all others follow best by least squares, one after the other.

    Fewer than `count` if those already say everything. Equal columns: the first one.
    """
    centred = scores - scores.mean(axis=0)
    left = centred.T @ centred / max(len(scores), 1)
    nothing = 1e-9 * max(float(np.trace(left)), np.finfo(np.float64).tiny)
    chosen: list[int] = []
    while len(chosen) < min(count, left.shape[0]):
        own = np.diag(left)
        explained = np.where(own > nothing, (left**2).sum(axis=0) / np.maximum(own, nothing), 0.0)
        explained[chosen] = 0.0
        # Rounded, so that which of two equal columns comes first does not hang on the last bit of a sum.
        best = int(np.argmax(np.round(explained / max(float(explained.max()), nothing), 9)))
        if explained[best] <= nothing:
            break
        chosen.append(best)
        left = left - np.outer(left[:, best], left[best]) / left[best, best]
    return chosen or [0]


class Scores(nn.Module):
    """The scores of some columns, as a layer whose weights are unset."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.heights = nn.Parameter(torch.empty(count, KNOTS, device=device_now()))
        self.knots: Tensor
        self.columns: Tensor
        self.register_buffer("knots", torch.empty(count, KNOTS, device=device_now()))
        self.register_buffer("columns", torch.empty(count, dtype=torch.int64, device=device_now()))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of columns to rows of scores."""
        knots, cells = self.knots, x[:, self.columns].T.contiguous()
        cells = torch.minimum(torch.maximum(cells, knots[:, :1]), knots[:, -1:])
        at = (torch.searchsorted(knots, cells, right=True) - 1).clamp(0, KNOTS - 2)
        low, high = knots.gather(1, at), knots.gather(1, at + 1)
        share = (cells - low) / (high - low).clamp(min=1e-30)
        start = self.heights.gather(1, at)
        rise = (self.heights.gather(1, at + 1) - start) * share
        return (start + rise).T.contiguous()


class Beside(nn.Module):
    """Scores of some columns, and linear sums of all of them, side by side; weights unset."""

    def __init__(self, columns: int, scores: int, sums: int) -> None:
        super().__init__()
        self.scores = Scores(scores)
        self.sums = Linear(columns, sums)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of columns to rows of scores and sums."""
        rows = x.flatten(1)
        return torch.cat((self.scores(rows), self.sums(rows)), dim=1)


class LearntBeside(nn.Module):
    """Scores of some columns, and what a small net makes of all of them, side by side; weights unset."""

    def __init__(self, columns: int, scores: int, learnt: int) -> None:
        super().__init__()
        self.columns, self.outputs = columns, scores + learnt
        self.scores = Scores(scores)
        self.learnt = LEARNT.build((columns,), learnt)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of columns to rows of scores and what was learnt."""
        rows = x.flatten(1)
        return torch.cat((self.scores(rows), self.learnt(rows)), dim=1)


def build_beside(columns: int, weights: Weights) -> Beside | LearntBeside:
    """The net that has weights of this form, for rows of so many columns."""
    scores = len(weights["scores.columns"])
    if "sums.bias" in weights:
        return Beside(columns, scores, len(weights["sums.bias"]))
    return LearntBeside(columns, scores, len(weights[_LEARNT_END]))


def _fit_column(cells: Array) -> tuple[Array, Array]:
    from scipy.special import ndtri

    rows = np.sort(cells)
    values = rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
    if len(values) < 3:
        return _padded(values), _padded(values)
    knots = values
    if len(values) > KNOTS:
        # Half by rows, for where most rows are; half by values, for a long tail after many equal cells.
        even = np.linspace(0, 1, KNOTS // 2)
        knots = np.unique(np.quantile(rows, even, method="nearest"))
        knots = np.union1d(knots, np.quantile(values, even, method="nearest"))
    middle = (np.searchsorted(rows, knots, "left") + np.searchsorted(rows, knots, "right")) / (2 * len(rows))
    heights = ndtri(np.clip(middle, _FARTHEST, 1 - _FARTHEST))
    # Strictly rising, also where ranks are cut off.
    heights = heights + 1e-3 * np.arange(len(knots)) / len(knots)
    scores = np.interp(cells, knots, heights)
    heights = (heights - scores.mean()) / max(float(scores.std()), 1e-6)
    return _padded(knots), _padded(heights)


def _padded(values: Array) -> Array:
    return np.concatenate([values, np.repeat(values[-1:], KNOTS - len(values))]).astype(np.float32)


Rest: TypeAlias = Literal["components", "autoencoder"]

_Ranks: TypeAlias = tuple[Array, Weights, int]
"""All columns by rank, those that are sent, and how many numbers are left beside them."""

_ENOUGH, _CLEAR = 0.05, 0.7
"""Nothing is learnt if components leave trees no more than the first share; else learnt numbers must leave the second
share of what components leave."""

_ROWS, _JUDGE_ROWS, _JUDGE_COLUMNS = 10_000, 3_000, 24
"""An autoencoder learns from at most so many rows; trees rebuild so many columns, from at most so many rows."""

_FEWEST = 20
"""Fewer rows than this to learn from say nothing."""

_RESTORE = Mlp(hidden=(128,))
_TRAINER = Sgd(epochs=20, decay="cosine")


def fit_beside(x: Array, dim: int, rest: Rest | None, rng: Rng) -> Weights:
    """Weights of a net that puts out at most half of `dim`, or eight, columns by rank, and others up to `dim`.

    Args:
        x: the rows, (rows, columns).
        dim: how many numbers are put out, at most as many as there are columns.
        rest: what comes beside the ranks; None takes what is better on rows held out.
        rng: takes part only if an autoencoder is trained.
    """
    found = _ranks(x, dim)
    _, ranks, left = found
    with_components = ranks | _components(x, left)
    if left == 0 or rest == "components":
        return with_components
    if rest is None and not _is_better(left_to_trees(x, dim, rng, found)):
        return with_components
    return ranks | _learn(x[_some(len(x), _ROWS, rng)], ranks, left, rng)


def left_to_trees(x: Array, dim: int, rng: Rng, found: _Ranks | None = None) -> tuple[float, float]:
    """What trees do not rebuild with components beside the ranks, and with learnt numbers, on rows held out.

    The second is 1 where nothing was learnt: components leave little, or there are too few rows to tell.
    """
    scores, ranks, left = found or _ranks(x, dim)
    rows = rng.permutation(_some(len(x), _ROWS, rng))
    used = len(rows) * 2 // 3
    # The last of the rows to learn from, then those held out.
    learnt_from = min(used, _JUDGE_ROWS * 2 // 3)
    judged = rows[used - learnt_from :][:_JUDGE_ROWS]
    columns = _some(scores.shape[1], _JUDGE_COLUMNS, rng)
    columns = columns[scores[judged][:, columns].std(axis=0) > 0]
    if left == 0 or used < _FEWEST or not len(columns):
        return 0.0, 1.0

    def left_by(weights: Weights) -> float:
        return not_rebuilt(_put_out(weights, x[judged]), scores[np.ix_(judged, columns)], learnt_from)

    by_components = left_by(ranks | _components(x, left))
    if by_components <= _ENOUGH:
        return by_components, 1.0
    return by_components, left_by(ranks | _learn(x[rows[:used]], ranks, left, rng))


def _is_better(left: tuple[float, float]) -> bool:
    """Whether trees rebuild clearly more from learnt numbers."""
    by_components, by_learnt = left
    return by_components > _ENOUGH and by_learnt <= _CLEAR * by_components


def _ranks(x: Array, dim: int) -> _Ranks:
    """All columns by rank, those that are sent, and how many numbers are left beside them."""
    knots, heights = fit_scores(x)
    scores = score(x, knots, heights)
    chosen = choose_columns(scores, most_ranks(dim))
    ranks = {"heights": heights[chosen], "knots": knots[chosen], "columns": np.array(chosen, dtype=np.int64)}
    return scores, {f"scores.{name}": values for name, values in ranks.items()}, dim - len(chosen)


def most_ranks(dim: int) -> int:
    """How many of `dim` numbers are columns by rank, at most: half of them, or eight."""
    return min(dim, max(8, dim // 2))


def not_rebuilt(sent: Array, scores: Array, learnt_from: int) -> float:
    """The share of columns' variance that boosted trees do not rebuild, mean over columns.

    Args:
        sent: what stands for each row.
        scores: the columns to rebuild, for the same rows.
        learnt_from: trees learn from so many rows, the first ones, and are judged by the others.
    """
    import xgboost

    wanted = {"max_depth": 4, "eta": 0.3, "max_bin": 64, "tree_method": "hist", "nthread": 1, "seed": 0}
    first, others = slice(learnt_from), slice(learnt_from, None)
    rows = xgboost.QuantileDMatrix(sent[first], scores[first], max_bin=64, nthread=1)
    guess = xgboost.train(wanted, rows, 30).predict(xgboost.DMatrix(sent[others], nthread=1))
    around = ((scores[others] - scores[first].mean(axis=0)) ** 2).mean(axis=0)
    errors = ((guess.reshape(scores[others].shape) - scores[others]) ** 2).mean(axis=0)
    return float(np.minimum(errors / np.maximum(around, 1e-12), 1.0)[around > 1e-12].mean())


def _components(x: Array, count: int) -> Weights:
    mean, components, _ = principal_components(x, count)
    sums = as_layer(mean, components)
    return {"sums.weight": sums["1.weight"], "sums.bias": sums["1.bias"]}


def _learn(x: Array, ranks: Weights, count: int, rng: Rng) -> Weights:
    """Numbers from which, beside the ranks, a net restores the rows best."""
    module = _Restored(LearntBeside(x.shape[1], len(ranks["scores.columns"]), count))
    initialise(module, rng)
    load(module.beside.scores, {name.removeprefix("scores."): values for name, values in ranks.items()})
    module.beside.scores.requires_grad_(False)
    rows = to_tensor(x)
    _TRAINER.fit(module, [rows], rows, functional.mse_loss, rng, what="autoencoder")
    return {f"learnt.{name}": values for name, values in weights_of(module.beside.learnt).items()}


class _Restored(nn.Module):
    """Rows as restored from what is put out for them."""

    def __init__(self, beside: LearntBeside) -> None:
        super().__init__()
        self.beside = beside
        self.restore = _RESTORE.build((beside.outputs,), beside.columns)

    def forward(self, x: Tensor) -> Tensor:
        """Rows to rows."""
        found: Tensor = self.restore(self.beside(x))
        return found


def _put_out(weights: Weights, x: Array) -> Array:
    module: Beside | LearntBeside = build_beside(x.shape[1], weights)
    return to_array(evaluate(load(module, weights), [to_tensor(x)]))


def _some(count: int, most: int, rng: Rng) -> Array:
    """All places, or so many of them, in order."""
    return np.arange(count) if count <= most else np.sort(rng.permutation(count)[:most])
