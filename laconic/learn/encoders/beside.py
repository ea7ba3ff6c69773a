"""What a party sends beside some columns by rank: components of all columns, or numbers that an autoencoder learnt.

A party has no labels, so that it cannot see which of the two serves the label holder better. It can see which of them
lets its own columns be rebuilt by boosted trees, on rows that neither trees nor encoder have learnt from: whatever
trees can rebuild, the label holder's trees can use. The learnt numbers are taken where they are clearly better.
"""

from typing import Literal, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.encoders.encoder import as_layer, principal_components
from laconic.learn.encoders.scores import Beside, LearntBeside, build_beside, choose_columns, fit_scores, score
from laconic.learn.nets.nets import Mlp, initialise, load, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.values import Array, Rng, Weights

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
    chosen = choose_columns(scores, min(dim, max(8, dim // 2)))
    ranks = {"heights": heights[chosen], "knots": knots[chosen], "columns": np.array(chosen, dtype=np.int64)}
    return scores, {f"scores.{name}": values for name, values in ranks.items()}, dim - len(chosen)


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
