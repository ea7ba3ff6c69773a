"""Rank scores: a column by the rank of its cells, and which few columns stand for all of them.

Trees cut one number at a time, so that a column is worth more to them than sums of columns; and they see ranks only, so
that a score loses nothing but what it hides of a long tail. Sums are worth more where columns are many and each says
little. `Beside` puts out both; `LearntBeside` has a small net in place of the sums.
"""

import numpy as np
import torch
from torch import Tensor, nn

from laconic.learn.device import device_now
from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import Mlp
from laconic.values import Array, Weights

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
