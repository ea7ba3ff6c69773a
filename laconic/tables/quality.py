"""How good predictions are beyond one number: a ROC curve, and bins of predicted against true.

Only curves and means over several rows are kept, so that a result can be handed on without showing anybody's label.
"""

import msgspec
import numpy as np

from laconic.tables.task import Task
from laconic.values import Array

_POINTS = 60
_BINS = 10
_LEAST = 10
"""Rows of a bin at least: a mean of fewer would come close to a single row."""


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are near each other on one axis.

    Attributes:
        predicted: the mean prediction: a probability, or a number.
        true: what is true of these rows: the share with the class predicted, or the mean label.
        low, high: between these are four fifths of the true values, where they are numbers.
        rows: how many rows there are.
    """

    predicted: float
    true: float
    low: float
    high: float
    rows: int


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of predictions on held-out rows.

    Attributes:
        roc: of two classes, shares of the negative and of the positive rows that are above a threshold, as it falls.
        bins: by prediction. With two classes, the probability of the second; with more, that of the class named, and
            whether it was right; else numbers.
    """

    roc: tuple[tuple[float, float], ...] = ()
    bins: tuple[Bin, ...] = ()

    @property
    def area(self) -> float:
        """The area under the ROC curve, by its points."""
        x, y = np.asarray(self.roc or ((0.0, 0.0), (1.0, 1.0))).T
        return float(np.trapezoid(y, x))


def quality_of(task: Task, y: Array, predictions: Array) -> Quality:
    """The curves of some predictions; empty ones where there are too few rows.

    >>> found = quality_of(Task(kind="binary", classes=("no", "yes")), np.arange(40) % 2, np.arange(40) % 2 * 0.8)
    >>> found.area, [(one.predicted, one.true) for one in found.bins]
    (1.0, [(0.0, 0.0), (0.8, 1.0)])
    """
    if task.kind == "survival":
        return Quality()  # Whether the event came is not known of rows lost to view, so that no bin has a true share.
    if task.kind == "regression":
        return Quality(bins=bins_of(predictions, y))
    if task.kind == "binary":
        return Quality(roc=_roc(y, predictions), bins=bins_of(predictions, y))
    return Quality(bins=bins_of(predictions.max(axis=1), task.decide(predictions) == y))


def bins_of(predicted: Array, true: Array, *, by: Array | None = None) -> tuple[Bin, ...]:
    """Bins of about as many rows each; none has fewer than ten.

    Args:
        by: what rows are sorted by; None is the prediction.
    """
    key = np.asarray(predicted if by is None else by, dtype=np.float64)
    count = min(_BINS, len(key) // _LEAST)
    if count < 1:
        return ()
    edges = np.unique(np.quantile(key, np.linspace(0, 1, count + 1)[1:-1]))
    codes, found, kept = np.searchsorted(edges, key, side="right"), [], np.zeros(len(key), dtype=bool)
    for code in range(len(edges) + 1):
        kept |= codes == code
        # Rows with the same prediction stay together, so a bin may be small: it goes to the next one.
        if kept.sum() >= _LEAST and not 0 < (codes > code).sum() < _LEAST:
            found.append(_bin(np.asarray(predicted)[kept], np.asarray(true)[kept]))
            kept[:] = False
    return tuple(found)


def _bin(predicted: Array, true: Array) -> Bin:
    low, high = (float(one) for one in np.quantile(np.asarray(true, dtype=np.float64), (0.1, 0.9)))
    figures = (float(np.mean(predicted)), float(np.mean(true)), low, high)
    # Seven digits are more than a chart needs, and keep the record short.
    mean, share, low, high = (float(f"{one:.7g}") for one in figures)
    return Bin(predicted=mean, true=share, low=low, high=high, rows=len(predicted))


def _roc(y: Array, predictions: Array) -> tuple[tuple[float, float], ...]:
    positive = int(np.sum(y == 1))
    if not 0 < positive < len(y):
        return ()
    order = np.argsort(-predictions, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(predictions[order]) != 0, True))
    if len(ends) > _POINTS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _POINTS).astype(int))]
    hits = np.cumsum(y[order] == 1)[ends]
    across, up = (ends + 1 - hits) / (len(y) - positive), hits / positive
    return ((0.0, 0.0), *((float(f"{x:.7g}"), float(f"{v:.7g}")) for x, v in zip(across, up, strict=True)))
