"""Cox's model of times to an event: the risk of a row is the exponential of a linear map of its columns.

Cox: Regression Models and Life-Tables (1972); ties as Efron has them (1977). Each event says who of all that were still
watched had it. The likelihood of that needs, at each time of an event, three things of the rows still watched: the sum
of risks w, of w x, and of w x x'. The first two are kept by time. Of the third only the sum over all times is needed,
in which a row counts by the hazard up to its own time, so that it is one matrix. Sums of disjoint groups of rows add
up to those of all rows, so a model made from them is the model of all rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laconic.tables.task import Task, events_of
from laconic.values import Array, Weights

_FARTHEST = 50.0
"""A row's logarithm of risk counts as no more than this: beyond it sums overflow."""


class Hazard(NamedTuple):
    """What each time of an event adds to the hazard: `all_rows` to that of every row still watched.

    `tied` is what of this does not hold for rows that have the event at that very time, as Efron's method has it.
    """

    all_rows: Array
    tied: Array


class RiskSums(NamedTuple):
    """Sums over rows at some parameters, at each time of an event.

    Attributes:
        risks, columns: over the rows still watched: of w, and of w x.
        tied_risks, tied_columns: the same over the rows that have the event at that time.
        products: over all rows, of w x x' by the hazard that each row was under.
    """

    risks: Array
    columns: Array
    tied_risks: Array
    tied_columns: Array
    products: Array


def risk_sums(x: Array, y: Array, beta: Array, times: Array, hazard: Hazard) -> RiskSums:
    """The sums over these rows; `times` rise, and hold those of all events."""
    watched, events = np.abs(y), events_of(y)
    w = np.exp(np.clip(x @ beta, -_FARTHEST, _FARTHEST))
    # A row is watched at all times up to this one, and no more.
    last = np.searchsorted(times, watched, side="right") - 1
    there = last >= 0
    has_event = events & there
    counts = len(times)
    wx = w[:, None] * x
    tied = has_event
    under = np.where(there, np.cumsum(hazard.all_rows)[last], 0.0) - np.where(tied, hazard.tied[last], 0.0)
    return RiskSums(
        risks=_from_end(np.bincount(last[there], w[there], counts)),
        columns=_from_end(_by_time(last[there], wx[there], counts)),
        tied_risks=np.bincount(last[tied], w[tied], counts),
        tied_columns=_by_time(last[tied], wx[tied], counts),
        products=(wx * under[:, None]).T @ x,
    )


def add_risk_sums(parts: Sequence[RiskSums]) -> RiskSums:
    """The sums over the rows of all."""
    return RiskSums(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


class Step(NamedTuple):
    """How likely the events are at some parameters, which way to go from there, and the hazard there."""

    likelihood: float
    slope: Array
    curvature: Array
    hazard: Hazard


def step_of(sums: RiskSums, counts: Array, columns: Array, beta: Array) -> Step:
    """The logarithm of the partial likelihood and its derivatives.

    Args:
        sums: over the rows of all, with products by the hazard that is to be used.
        counts: how many events there are at each time. columns: the sum of the columns of rows with an event.
    """
    width = len(beta)
    zero, one, two = (np.zeros(len(counts)) for _ in range(3))
    added, tied = np.zeros(len(counts)), np.zeros(len(counts))
    likelihood = float(columns @ beta)
    # The share of those tied who are thought to have had the event already when the next of them has it.
    for turn in range(int(counts.max(initial=0))):
        at = np.flatnonzero(counts > turn)
        share = turn / counts[at]
        left = np.maximum(sums.risks[at] - share * sums.tied_risks[at], 1e-300)
        likelihood -= float(np.log(left).sum())
        added[at] += 1 / left
        tied[at] += share / left
        zero[at] += 1 / left**2
        one[at] += share / left**2
        two[at] += share**2 / left**2
    every, ties = sums.columns, sums.tied_columns
    slope = columns - added @ every + tied @ ties
    cross = (every * one[:, None]).T @ ties
    spread = (every * zero[:, None]).T @ every - cross - cross.T + (ties * two[:, None]).T @ ties
    curvature = sums.products - spread
    return Step(likelihood, slope, (curvature + curvature.T).reshape(width, width) / 2, Hazard(added, tied))


def _from_end(by_time: Array) -> Array:
    """What is at each time and later."""
    return np.asarray(np.cumsum(by_time[::-1], axis=0)[::-1])


def _by_time(places: Array, rows: Array, count: int) -> Array:
    """Rows added up by the place of their time."""
    found = np.zeros((count, rows.shape[1]))
    np.add.at(found, places, rows)
    return found


class Local(NamedTuple):
    """A model of some rows, and how quickly their likelihood falls about it.

    Attributes:
        beta: its parameters. step: the likelihood there.
        times, counts: when events were, and how many at each time. columns: the sum of the columns of rows with one.
    """

    beta: Array
    step: Step
    times: Array
    counts: Array
    columns: Array

    def expected(self, horizon: float) -> tuple[float, float]:
        """How many events there were by the horizon, and how many rows of risk 1 would have had one event in all."""
        early = self.times <= horizon
        events, hazard = float(self.counts[early].sum()), float(self.step.hazard.all_rows[early].sum())
        return (events, events / hazard) if events else (0.0, 0.0)


def event_times(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """When events were, how many at each time, and the sum of the columns of the rows that had one."""
    events = events_of(y)
    times, counts = np.unique(np.abs(y[events]), return_counts=True)
    return times, counts.astype(np.float64), x[events].sum(axis=0)


def fit_local(x: Array, y: Array, penalty: float) -> Local:
    """The most likely parameters, less `penalty` times half their squared size, by Newton's method."""
    times, counts, columns = event_times(x, y)
    beta = np.zeros(x.shape[1])

    def look(at: Array) -> Step:
        none = Hazard(np.zeros(len(times)), np.zeros(len(times)))
        hazard = step_of(risk_sums(x, y, at, times, none), counts, columns, at).hazard
        return step_of(risk_sums(x, y, at, times, hazard), counts, columns, at)

    found = look(beta)
    for _ in range(_MOST_STEPS):
        move = newton_move(found.slope, found.curvature, beta, penalty)
        size = 1.0
        while True:
            tried = look(beta + size * move)
            if _worth(tried, beta + size * move, penalty) >= _worth(found, beta, penalty) or size < _SHORTEST:
                break
            size /= 2
        beta, found = beta + size * move, tried
        if np.abs(move).max(initial=0.0) < _SMALL:
            break
    return Local(beta, found, times, counts, columns)


_MOST_STEPS = 50
_SMALL = 1e-10
_SHORTEST = 1e-3


def newton_move(slope: Array, curvature: Array, beta: Array, penalty: float) -> Array:
    """Where Newton's method goes from `beta`."""
    return np.asarray(np.linalg.solve(curvature + penalty * np.eye(len(beta)), slope - penalty * beta))


def _worth(step: Step, beta: Array, penalty: float) -> float:
    return step.likelihood - penalty / 2 * float(beta @ beta)


def log_hazard(times: Array, hazard: Hazard, horizon: float) -> float:
    """The logarithm of the events that a row of risk 1 expects by the horizon."""
    total = float(hazard.all_rows[times <= horizon].sum())
    return float(np.log(total if total > 0 else hazard.all_rows[:1].sum() / 2 or 1e-12))


def fit_cox(task: Task, x: Array, y: Array, penalty: float) -> Weights:
    """Cox's model of rows in one place, in the form of a linear model: it gives the risk of a row."""
    found = fit_local(x, y, penalty)
    intercept = log_hazard(found.times, found.step.hazard, task.horizon)
    return {"coefficients": found.beta[None], "intercept": np.array([intercept])}


def base_of(task: Task, said: Array, y: Array) -> float:
    """What to add to logarithms of relative risks, so that they say how many events are expected by the horizon."""
    found, times = _at_ones(said, y)
    return log_hazard(times, found.hazard, task.horizon)


def cox_loss(y: Array, risk: Array) -> float:
    """The mean negative logarithm of the partial likelihood of an event."""
    return -_at_ones(risk, y)[0].likelihood / max(1, int(events_of(y).sum()))


def _at_ones(risk: Array, y: Array) -> tuple[Step, Array]:
    """How likely events are if rows have these logarithms of risk."""
    column, one = np.asarray(risk, dtype=np.float64)[:, None], np.ones(1)
    times, counts, columns = event_times(column, y)
    none = Hazard(np.zeros(len(times)), np.zeros(len(times)))
    return step_of(risk_sums(column, y, one, times, none), counts, columns, one), times


def predict_cox(weights: Weights, x: Array) -> Array:
    """The logarithm of the events that each row expects by the horizon."""
    rows = x.reshape(len(x), -1).astype(np.float64)
    return np.asarray(rows @ weights["coefficients"] + weights["intercept"][0])
