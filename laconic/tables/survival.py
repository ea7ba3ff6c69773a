"""Labels that are times to an event, some of them censored: how they are kept in one number, and how they are scored.

A label is the time a person was watched, with a minus sign if the event had not come by then (censored). A time of zero
has a sign too, so that signs are read with `events_of` and never by comparing with zero.
"""

from typing import NamedTuple

import numpy as np

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
