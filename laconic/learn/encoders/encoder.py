"""What every encoder is: settings that learn, without labels, a net which puts a row into a few numbers."""

from math import prod
from typing import ClassVar, Literal, Self, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.core.ledger import Noise
from laconic.learn.device import device_now
from laconic.learn.nets.layers import Linear, Shape
from laconic.learn.nets.nets import Mlp, Net, initialise, load, make, to_array, to_tensor, weights_of
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.values import Array, Rng, Settings, Weights

_KEPT = 0.99
"""The share of the variance that is kept where the width is not given."""

_BRANCH = Mlp(hidden=(64, 64))
_DIRECT, _BRANCH_END = "direct.", "branch.5.bias"
"""How the weights of a net with a branch are called; saved models depend on these names and on the branch's form."""


def most_numbers(shape: Shape) -> int:
    """The most numbers that stand for a row of this shape where nobody says how many."""
    return 32 if len(shape) == 3 else 16


class Encoder(Settings, frozen=True):
    """Abstract: learns from unlabelled rows the weights of a net that puts a row into at most `dim` numbers.

    Rows are float32 and already standardised: (rows, columns), or (rows, channels, height, width) for images.
    Linear encoders put out min(`dim`, numbers in a row): more would carry nothing new. Others put out `dim` exactly.

    What is learnt is always a net, so any encoder can be trained on with labels:
    `load(encoder.build(shape, weights), weights)` is exactly what `encode` applies.

    Attributes:
        dim: how many numbers stand for a row. None takes as few as keep 99 % of the rows' variance, at most 16, or 32
            for images; `FedOnce` has an allowance of its own. 0 does not look at rows, as an encoder with noise must
            not, nor did earlier versions: 8, or 32 for images, and at most half as many as a row has.
    """

    most_rows: ClassVar[int | None] = 1_000_000
    """The most rows that it learns from, drawn at random where a party has more; None, as with noise, for all."""

    dim: int | None = None

    def __post_init__(self) -> None:
        if self.dim is not None and self.dim < 0:
            raise ValueError(f"dim must be 1 or more, or left out for what suits the data, not {self.dim}")

    def net(self, shape: Shape) -> Net:
        """The net, for rows of this shape, whose weights `fit` learns."""
        raise NotImplementedError

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn the net's weights from these rows."""
        raise NotImplementedError

    def noise(self, rows: int) -> tuple[Noise, ...] | None:
        """The noise that `fit` puts on what it learns from so many rows; None if rows enter without noise.

        Nothing at all (an empty tuple) means that `fit` learns nothing from rows, and so has nothing to hide.
        """
        return None

    def dim_for(self, shape: Shape) -> int:
        """How many numbers stand for a row of this shape: `dim`, or what is taken without a look at rows."""
        return self.dim or max(1, min(32 if len(shape) == 3 else 8, prod(shape) // 2))

    def sized(self, x: Array, most: int | None = None) -> Self:
        """The same with `dim` set, if it was None, to what keeps nearly all of these rows' variance.

        Args:
            x: the rows.
            most: the most numbers that may stand for a row; None for 16, or 32 for images.
        """
        if self.dim is not None:
            return self
        return msgspec.structs.replace(self, dim=_enough(self.spread(x), most or most_numbers(x.shape[1:])))

    def spread(self, x: Array) -> Array:
        """The variances along the principal components of what the encoder works on, largest first."""
        return principal_components(x, prod(x.shape[1:]))[2]

    def build(self, shape: Shape, weights: Weights) -> nn.Module:
        """The net for rows of this shape as a module that such weights fit; they are not put into it."""
        direct = {name.removeprefix(_DIRECT): values for name, values in weights.items() if name.startswith(_DIRECT)}
        if not direct:
            return self.form(shape, weights)
        return Branched(self.form(shape, direct), _BRANCH.build(shape, len(weights[_BRANCH_END])))

    def form(self, shape: Shape, weights: Weights) -> nn.Module:
        """As `build`, for what `fit` returned."""
        return self.net(shape).build(shape, next(len(weights[name]) for name in reversed(weights) if "bias" in name))

    def able_to_learn(self, weights: Weights, shape: Shape, rng: Rng) -> Weights:
        """The same function as weights of a net that can learn more than sums of columns.

        A net without hidden layers gets a branch beside it that has two, and that starts at zero.
        """
        if sum(name.endswith("weight") and values.ndim > 1 for name, values in weights.items()) > 1:
            return weights
        outputs = len(self.encode(weights, np.zeros((1, *shape), np.float32))[0])
        branch = weights_of(make(_BRANCH, shape, outputs, rng))
        found = {_DIRECT + name: values for name, values in weights.items()}
        found |= {f"branch.{name}": values.copy() for name, values in branch.items()}
        for end in (_BRANCH_END, _BRANCH_END.replace("bias", "weight")):
            found[end] = np.zeros_like(found[end])
        return found

    def encode(self, weights: Weights, x: Array) -> Array:
        """The numbers that stand for each row: float32, (rows, `dim`)."""
        return to_array(evaluate(load(self.build(x.shape[1:], weights), weights), [to_tensor(x)]))


class Branched(nn.Module):
    """The sum of a net and of another one beside it."""

    def __init__(self, direct: nn.Module, branch: nn.Module) -> None:
        super().__init__()
        self.direct, self.branch = direct, branch

    def forward(self, x: Tensor) -> Tensor:
        """The sum of what both put out."""
        found: Tensor = self.direct(x) + self.branch(x)
        return found


class LinearEncoder(Encoder, frozen=True):
    """Abstract: (row - mean) times a matrix; `fit` finds the two."""

    def net(self, shape: Shape) -> Mlp:
        """A net of one linear layer."""
        return Mlp(hidden=())

    def dim_for(self, shape: Shape) -> int:
        """`dim`, or the numbers in a row if those are fewer."""
        return min(super().dim_for(shape), prod(shape))


def _enough(variances: Array, most: int) -> int:
    """How many of these variances, largest first, make up nearly all of their sum; at most `most`."""
    total = max(float(variances.sum()), np.finfo(np.float64).tiny)
    needed = int(np.searchsorted(np.cumsum(variances) / total, _KEPT - 1e-9)) + 1
    return max(1, min(needed, most, len(variances)))


def flat(x: Array) -> Array:
    """Rows of float64 numbers, whatever the rows' shape."""
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)


def as_layer(mean: Array, directions: Array) -> Weights:
    """The weights of one linear layer that takes `mean` off a row and multiplies it by the columns of `directions`."""
    return {"1.weight": directions.T.astype(np.float32), "1.bias": (-mean @ directions).astype(np.float32)}


class Pca(LinearEncoder, frozen=True):
    """The first `dim` principal components, in units of the columns."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and components; takes no randomness."""
        mean, components, _ = principal_components(x, self.sized(x).dim_for(x.shape[1:]))
        return as_layer(mean, components)


class WhitenedPca(LinearEncoder, frozen=True):
    """The first `dim` principal components, each scaled to unit variance; those without variance become zeros."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and scaled components; takes no randomness."""
        mean, components, variances = principal_components(x, self.sized(x).dim_for(x.shape[1:]))
        carries = variances > 1e-9 * max(variances[0], np.finfo(np.float64).tiny)
        scales = np.where(carries, 1 / np.sqrt(np.where(carries, variances, 1.0)), 0.0)
        return as_layer(mean, components * scales)


def principal_components(x: Array, count: int) -> tuple[Array, Array, Array]:
    """The mean, the first `count` components as columns, and their variances, largest first.

    A component's sign is chosen so that its largest entry is positive: the sign that a solver happens to
    return may differ from machine to machine.
    """
    rows = flat(x)
    mean = rows.mean(axis=0)
    rows = rows - mean
    covariance = rows.T @ rows / max(len(rows) - 1, 1)
    variances, components = np.linalg.eigh(covariance)
    components = components[:, ::-1][:, :count]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, np.arange(components.shape[1])])
    return mean, np.ascontiguousarray(components * signs), variances[::-1][:count].clip(min=0)


class RandomProjection(LinearEncoder, frozen=True):
    """`dim` random orthonormal directions, uniform over all such; the cheapest encoder there is."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Draw the directions; of the rows only the mean is used."""
        width, dim = prod(x.shape[1:]), self.sized(x).dim_for(x.shape[1:])
        directions, upper = np.linalg.qr(rng.standard_normal((width, dim)))
        # QR fixes signs by its own rule; undoing it makes the draw uniform over orthonormal matrices.
        return as_layer(flat(x).mean(axis=0), directions * np.sign(np.diag(upper)))


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
