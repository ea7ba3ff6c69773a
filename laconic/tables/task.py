"""What is to be predicted (a class, a number, or the time to an event), and how good predictions are.

Of a ROC curve, and of bins of predicted against true, only curves and means over several rows are kept, so that a
result can be handed on without showing anybody's label.
"""

import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from laconic.shown import figure, metric_name
from laconic.values import Array

_AT_ONCE = 4_000_000
"""How many pairs of rows are compared at once."""


def signed_times(times: Array, events: Array) -> Array:
    """Times and whether the event came, as one number per row.

    >>> signed_times(np.array([5.0, 0.0]), np.array([1, 0]))
    array([ 5., -0.])
    """
    return np.where(np.asarray(events, dtype=bool), 1.0, -1.0) * np.asarray(times, dtype=np.float64)


def events_of(y: Array) -> Array:
    """Whether the event came, row by row."""
    return ~np.signbit(y)


class Pairs(NamedTuple):
    """How a row stands to the others, over all pairs of which it is known who had the event first.

    Attributes:
        right: the pairs with this row in which the one with the greater risk had the event first, ties counting half.
        known: all such pairs with this row.
    """

    right: Array
    known: Array

    @property
    def share(self) -> float:
        """The concordance; one half where no pair is known."""
        return float(self.right.sum() / self.known.sum()) if self.known.sum() else 0.5

    def weighed(self, times: Array) -> float:
        """The concordance if each row counted so often, to first order: a pair counts the sum of both, less one."""
        known = self.known @ times - self.known.sum() / 2
        return float((self.right @ times - self.right.sum() / 2) / known) if known > 0 else 0.5


def pairs_of(y: Array, risk: Array) -> Pairs:
    """Compare every row that had the event with all that are known to have been without it for longer.

    Of equal times only an event and a censored row are a pair: the censored one was without the event for longer.
    """
    times, events = np.abs(y), events_of(y)
    right, known = np.zeros(len(y)), np.zeros(len(y))
    order = np.argsort(times, kind="stable")
    times, events, risk = times[order], events[order], np.asarray(risk, dtype=np.float64)[order]
    had = np.flatnonzero(events)
    for some in np.array_split(had, len(had) * len(y) // _AT_ONCE + 1) if len(had) else ():
        later = (times > times[some, None]) | ((times == times[some, None]) & ~events)
        good = (risk[some, None] > risk) + 0.5 * (risk[some, None] == risk)
        good *= later
        for found, of_pairs in ((right, good), (known, later)):
            found[order] += of_pairs.sum(axis=0)
            found[order[some]] += of_pairs.sum(axis=1)
    return Pairs(right, known)


def still_watched(y: Array, at: Array, *, before: bool = False) -> Array:
    """The probability not to be censored by some times (or `before` them), by Kaplan and Meier from these rows.

    >>> still_watched(np.array([1.0, -2.0, 3.0, -4.0]), np.array([1.0, 2.0, 5.0]))
    array([1.        , 0.66666667, 0.        ])
    """
    times, censored = np.abs(y), ~events_of(y)
    steps = np.unique(times[censored])
    ordered = np.sort(times)
    # Who has the event at the same time had it before anybody was lost to view.
    ends = np.sort(times[~censored])
    there = len(y) - np.searchsorted(ordered, steps) - _between(ends, steps)
    lost = np.searchsorted(np.sort(times[censored]), steps, side="right") - np.searchsorted(
        np.sort(times[censored]), steps
    )
    stays = np.cumprod(np.append(1.0, 1.0 - lost / np.maximum(there, 1)))
    return np.asarray(stays[np.searchsorted(steps, at, side="left" if before else "right")])


def _between(ends: Array, steps: Array) -> Array:
    return np.searchsorted(ends, steps, side="right") - np.searchsorted(ends, steps)


def brier(y: Array, risk: Array, horizon: float) -> float:
    """The mean squared error of how likely a row is without the event at the horizon, weighed for who was lost to view.

    Graf and others (1999): rows that had the event before count by one over the probability to be still watched then,
    rows watched for longer by one over that at the horizon, and rows lost to view before the horizon not at all.

    Args:
        risk: the logarithm of the events expected by the horizon, as methods predict it.
    """
    times, events = np.abs(y), events_of(y)
    stays = np.exp(-np.exp(np.minimum(np.asarray(risk, dtype=np.float64), 700.0)))
    came, longer = events & (times <= horizon), times > horizon
    left, at_end = still_watched(y, times, before=True), float(still_watched(y, np.array([horizon]))[0])
    weights = np.where(came, 1.0 / np.where(left > 0, left, 1.0), 0.0)
    weights += longer / at_end if at_end > 0 else 0.0
    return float(np.mean(weights * (longer - stays) ** 2))


def survival_metrics(y: Array, risk: Array, horizon: float) -> dict[str, float]:
    """Concordance, and the Brier score at the horizon."""
    return {"concordance": pairs_of(y, risk).share, "brier": brier(y, risk, horizon)}


class LabelScale(msgspec.Struct, frozen=True):
    """The mean and the spread of labels that are numbers, and over how many rows; 0 rows where that is not said."""

    mean: float
    spread: float
    rows: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot scale a number."""
        if not (math.isfinite(self.mean) and 0 < self.spread < math.inf) or self.rows < 0:
            raise ValueError(f"a label's mean is a number and its spread above 0, not {self.mean} and {self.spread}")


SaidTask: TypeAlias = Literal["binary", "multiclass", "regression", "counts", "survival"]
"""What somebody says that a label is: numbers that are counts, too."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of label, and what its codes mean.

    Attributes:
        kind: labels are 0 or 1 (`binary`), 0 to C-1 (`multiclass`), real numbers (`regression`), or times to an event,
            negative where it had not come by then (`survival`, see `laconic.tables.task`).
        classes: the names behind the codes, in their order; empty unless labels are classes.
        label: the name of the label column, for reports.
        scale: of numbers, the mean and spread that parties with other rows agreed on; unset where one party has all
            labels, or where nobody asked. Of times, those of the times people were watched.
        event: of times, the name of the column that says whether the event came.
        counts: true if numbers are counts of something: whole and 0 or more. Unset for any other label.
    """

    kind: Literal["binary", "multiclass", "regression", "survival"]
    classes: tuple[str, ...] = ()
    label: str = "label"
    scale: LabelScale | UnsetType = UNSET
    event: str | UnsetType = UNSET
    counts: bool | UnsetType = UNSET

    @property
    def of_classes(self) -> bool:
        """Whether labels are codes of classes, rather than numbers."""
        return self.kind in ("binary", "multiclass")

    @property
    def horizon(self) -> float:
        """Of times, when predictions are about: the mean time that people were watched."""
        if self.scale is UNSET:
            raise ValueError(f"the times of {self.label!r} have no scale; parties have to agree on it before learning")
        return self.scale.mean

    def amounts(self, y: Array) -> Array:
        """Labels that are numbers as such: times without the sign that says whether the event came."""
        return np.abs(y) if self.kind == "survival" else y

    def strata(self, y: Array) -> Array | None:
        """A class per row, of which rows are wanted on both sides when some are held out; None for numbers."""
        if self.kind == "survival":
            return events_of(y).astype(np.int64)
        return y if self.of_classes else None

    def scaled(self, y: Array) -> "Task":
        """The task with the scale of these labels, if they are times and it has none yet; others need none."""
        if self.kind != "survival" or self.scale is not UNSET or not np.isfinite(y).any():
            return self
        return msgspec.structs.replace(self, scale=scale_of_labels(self, y))

    @classmethod
    def said(cls, kind: SaidTask) -> "Task":
        """The task that somebody says; counts are numbers of a kind.

        Example:
            >>> Task.said("counts").kind
            'regression'
        """
        return cls(kind="regression", counts=True) if kind == "counts" else cls(kind=kind)

    @property
    def by_log(self) -> bool:
        """Whether models learn the logarithm of a count's mean (Poisson): where parties agreed on the mean of all."""
        return self.counts is True and self.scale is not UNSET

    @property
    def outputs(self) -> int:
        """How many numbers a model puts out for one row: one logit, C logits, or one number."""
        return len(self.classes) if self.kind == "multiclass" else 1

    def shape(self, rows: int) -> tuple[int, ...]:
        """The shape of predictions: P(class 1), C probabilities, a number, or a risk per row.

        A risk is the logarithm of the events expected by the horizon.
        """
        return (rows, len(self.classes)) if self.kind == "multiclass" else (rows,)

    def decide(self, predictions: Array) -> Array:
        """The class code per row, the number itself, or of times how likely the event is by the horizon."""
        if self.kind == "survival":
            return np.asarray(-np.expm1(-np.exp(np.minimum(predictions, 700.0))))
        if self.kind == "multiclass":
            return np.asarray(np.argmax(predictions, axis=1))
        return np.asarray(predictions >= 0.5, dtype=int) if self.kind == "binary" else predictions


def scale_of_labels(task: Task, y: Array) -> LabelScale:
    """The mean and spread of labels that are numbers; where all are the same, 1 stands for their spread."""
    known = task.amounts(y[np.isfinite(y)])
    return LabelScale(float(known.mean()), float(known.std()) or 1.0)


_HEADLINE = {"binary": "auc", "multiclass": "accuracy", "regression": "rmse", "survival": "concordance"}


LOWER_IS_BETTER = frozenset({"rmse", "mae", "log_loss", "rmse_scaled", "deviance", "brier"})


ROOTS = frozenset({"rmse", "rmse_scaled"})
"""Metrics that are roots of means of squares."""


class Score(msgspec.Struct, frozen=True):
    """The headline figure of a run."""

    metric: str
    value: float

    def __float__(self) -> float:
        """The value alone, for arithmetic and for sorting."""
        return self.value

    def __repr__(self) -> str:
        return f"<{metric_name(self.metric)} {figure(self.value)}>"

    @property
    def goodness(self) -> float:
        """The value, with its sign turned where less is better."""
        return -self.value if self.metric in LOWER_IS_BETTER else self.value


def metrics(task: Task, y: Array, predictions: Array, train_range: float = 1.0) -> dict[str, float]:
    """Every metric that fits the task.

    Args:
        train_range: greatest less least training label; `rmse_scaled` is RMSE in units of it, as papers report that
            scale labels to [0, 1].
    """
    if predictions.shape != task.shape(len(y)):
        raise ValueError(f"predictions have shape {predictions.shape}, but {len(y)} rows need {task.shape(len(y))}")
    if not np.isfinite(predictions).all():
        raise ValueError("predictions hold NaN or infinity; lower the learning rate or look for a broken column")
    if task.kind == "survival":
        return survival_metrics(y, predictions, task.horizon)
    if task.of_classes:
        return _of_classes(task, y, predictions)
    found = _of_numbers(y, predictions, train_range)
    return found | {"deviance": float(np.mean(deviances(y, predictions)))} if task.counts is True else found


def headline(task: Task, values: dict[str, float]) -> Score:
    """The one figure to name first: AUC for two classes, accuracy for several, RMSE for numbers, concordance for times.

    For counts whose logarithm is learnt it is the deviance.

    Where all rows scored on are of one class, there is no AUC, and accuracy stands for it.
    """
    name = headline_metric(task)
    found = name if name in values else "accuracy"
    return Score(found, values[found])


def headline_metric(task: Task) -> str:
    """Which figure is named first."""
    return "deviance" if task.by_log else _HEADLINE[task.kind]


RESAMPLES = 200
"""How many resamples show how much a score depends on which rows it was made on."""

_FEWEST_ROWS = 20  # of fewer rows, resamples show nothing


def resample(task: Task, y: Array, predictions: Array) -> Array:
    """The headline figure on bootstrap resamples of the rows scored on; empty for very few rows.

    Which rows are drawn follows from the labels: the same for every model on the same rows, so that two of them can be
    compared draw by draw, and not known to a reader of the figures, who could work out labels from them otherwise.
    """
    if len(y) < _FEWEST_ROWS:
        return np.empty(0)
    seed = int.from_bytes(blake2b(np.ascontiguousarray(y, dtype=np.float64).tobytes(), digest_size=8).digest())
    rng = np.random.default_rng(seed)
    score = weighted_score(task, y, predictions)
    return np.array([score(np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))) for _ in range(RESAMPLES)])


def weighted_score(task: Task, y: Array, predictions: Array) -> Callable[[Array], float]:
    """The headline figure as a function of how often each row counts."""
    if task.by_log:
        each = deviances(y, predictions)
        return lambda times: float(np.average(each, weights=times))
    if task.kind == "regression":
        squares = (predictions.astype(np.float64) - y) ** 2
        return lambda times: float(np.sqrt(np.average(squares, weights=times)))
    if task.kind == "survival":
        return pairs_of(y, predictions).weighed
    right = (task.decide(predictions) == y.astype(int)).astype(np.float64)
    if task.kind == "multiclass" or len(np.unique(y)) < 2:
        return lambda times: float(np.average(right, weights=times))
    _, place = np.unique(predictions, return_inverse=True)
    positive = y.astype(int) == 1

    def area(times: Array) -> float:
        """AUC: how often a row of class 1 is above one of class 0, ties counting half."""
        ones = np.bincount(place, weights=times * positive)
        zeros = np.bincount(place, weights=times * ~positive)
        pairs = ones.sum() * zeros.sum()
        # A draw of one class only is so rare that it may count as a model that knows nothing.
        return float(ones @ (np.cumsum(zeros) - zeros / 2) / pairs) if pairs else 0.5

    return area


_LEAST_SHARE = 1e-3


def deviances(y: Array, predictions: Array) -> Array:
    """How far each count is from its prediction: twice the log-likelihood (Poisson) lost beside a perfect one.

    A prediction below a thousandth of the counts' mean, which no count's mean can be if it is not above 0, counts as
    that: models that learn squared errors make such predictions.
    """
    least = _LEAST_SHARE * max(float(np.mean(y)), 1e-300) if len(y) else 1.0
    means, counts = np.maximum(predictions.astype(np.float64), least), y.astype(np.float64)
    # A count of 0 adds nothing to the first part.
    logs = np.log(np.where(counts > 0, counts, 1.0) / means, out=np.zeros_like(means), where=counts > 0)
    return np.asarray(2.0 * (counts * logs - counts + means))


def _of_numbers(y: Array, predictions: Array, train_range: float) -> dict[str, float]:
    error = predictions.astype(np.float64) - y
    rmse = float(np.sqrt(np.mean(error**2)))
    spread = float(np.mean((y - y.mean()) ** 2))
    return {
        "rmse": rmse,
        "mae": float(np.mean(np.abs(error))),
        "r2": 1.0 - rmse**2 / spread if spread > 0 else 0.0,
        "rmse_scaled": rmse / train_range,
    }


def _of_classes(task: Task, y: Array, predictions: Array) -> dict[str, float]:
    from sklearn import metrics as of

    y = y.astype(int)
    decided = task.decide(predictions)
    if task.kind == "binary":
        probabilities = np.stack([1.0 - predictions, predictions], axis=1).astype(np.float64)
    else:
        probabilities = predictions.astype(np.float64)
    probabilities = np.clip(probabilities, 1e-7, None)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    values = {
        "accuracy": float(np.mean(decided == y)),
        "log_loss": float(-np.mean(np.log(probabilities[np.arange(len(y)), y]))),
        "f1": float(of.f1_score(y, decided, average="binary" if task.kind == "binary" else "macro", zero_division=0)),
    }
    present = np.unique(y)
    if len(present) == probabilities.shape[1]:
        ranked = predictions if task.kind == "binary" else probabilities
        values["auc"] = float(of.roc_auc_score(y, ranked, multi_class="ovr"))
    if task.kind == "binary" and len(present) == 2:
        false, true, _ = of.roc_curve(y, predictions)
        values["ks"] = float(np.max(true - false))
    return values


_POINTS = 60
_BINS = 10
_LEAST = 10
"""Rows of a bin at least: a mean of fewer would come close to a single row."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """How one of the models that the hub tried did on training rows that it had not learnt from.

    Attributes:
        model: what it is, in words.
        loss: mean log loss, or mean squared error in units of the labels' variance: the choice is made by this.
        metric: the name of the headline metric.
        score: the headline metric.
        share: the share of its answer in the model that was chosen; 0 if it is no part of it.
    """

    model: str
    loss: float
    metric: str
    score: float
    share: float


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
