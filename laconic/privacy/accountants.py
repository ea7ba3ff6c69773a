"""Accountants: how the losses of many noisy answers add up to one epsilon. All work on Google's `dp-accounting`.

An event is one kind of noisy answer; losses are counted by how often each event happened, so that a hundred parties
alike cost no more to price than one.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from math import inf, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from laconic.core.errors import MissingExtra
from laconic.core.ledger import Noise
from laconic.core.values import Array, Settings

_MANY = 4
"""From so many different events on, privacy loss distributions are kept ten times coarser, to stay quick."""


PURE = "randomised response"
"""A mechanism whose loss is at most 1 / multiplier, and never more: no delta is needed, and losses add up."""


class Event(NamedTuple):
    """One noisy answer about a random share of rows; the scale of its noise is in units of the sensitivity."""

    mechanism: str
    multiplier: float
    rate: float = 1.0


Events: TypeAlias = Mapping[Event, int]
"""How often each event happened."""


def events_of(noise: Noise, times: int = 1) -> Events:
    """The events of a release made so many times; noise without a price is an error."""
    if noise.multiplier is None:
        raise ValueError(f"{noise.mechanism} noise of scale {noise.scale:g} has no price: {noise.caveat}")
    return {Event(noise.mechanism, noise.multiplier, noise.rate): noise.count * times}


def together(parties: Mapping[str, Events]) -> Events:
    """The events of several parties as those of one."""
    total: Counter[Event] = Counter()
    for events in parties.values():
        total.update(events)
    return total


class Pld(Settings, frozen=True):
    """Privacy loss distributions, convolved: the tightest figure, and an upper bound all the same.

    Attributes:
        interval: the grain of the distributions; finer is tighter and slower. Different events in large number are
            counted ten times coarser, which errs on the safe side.
    """

    interval: float = 1e-4

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        events = together(parties)
        interval = self.interval if len(events) < _MANY else 10 * self.interval
        return _pld_epsilon(tuple(sorted(events.items())), delta, interval)


class Rdp(Settings, frozen=True):
    """Renyi divergences, summed, with the improved conversion to epsilon: quick, and a little looser than `Pld`."""

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        from_library = _library().rdp
        orders = from_library.RdpAccountant().orders
        found = from_library.compute_epsilon(orders, _divergences(together(parties), tuple(orders)), delta)
        return float(found[0])


class Moments(Settings, frozen=True):
    """The moments accountant as FedOnce-L1 uses it: Renyi divergences of all parties summed, classic conversion."""

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        return _classic(together(parties), delta)


class SimpleDivision(Settings, frozen=True):
    """Priv-Baseline: the moments accountant prices each party alone at its part of delta, and epsilons add up."""

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        alike = Counter(tuple(sorted(events.items())) for events in parties.values())
        return sum(count * _classic(dict(events), delta / len(parties)) for events, count in alike.items())


AnyAccountant: TypeAlias = Pld | Rdp | Moments | SimpleDivision

# The orders of the moments accountant in the library that the paper used; a finer grid would give slightly less.
_FRACTIONS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5)
_CLASSIC_ORDERS = (*_FRACTIONS, *map(float, chain(range(5, 64), (128, 256, 512))))


def _classic(events: Events, delta: float) -> float:
    orders = np.array(_CLASSIC_ORDERS)
    return float(np.min(_divergences(events, _CLASSIC_ORDERS) + log(1 / delta) / (orders - 1)))


def _divergences(events: Events, orders: tuple[float, ...]) -> Array:
    parts = [count * _divergence(event, orders) for event, count in events.items()]
    return np.sum(parts, axis=0) if parts else np.zeros(len(orders))


@lru_cache(maxsize=1024)
def _divergence(event: Event, orders: tuple[float, ...]) -> Array:
    library = _library()
    if event.multiplier == 0:
        return np.full(len(orders), inf)
    accountant = library.rdp.RdpAccountant(list(orders))
    accountant.compose(_to_library(event, 1))
    # The one place that reads a private field: the library offers epsilon, the paper's classic conversion needs these.
    return np.asarray(accountant._rdp)


@lru_cache(maxsize=1024)
def _pld_epsilon(events: tuple[tuple[Event, int], ...], delta: float, interval: float) -> float:
    accountant = _library().pld.PLDAccountant(value_discretization_interval=interval)
    for event, count in events:
        accountant.compose(_to_library(event, count))
    return float(accountant.get_epsilon(delta))


def _to_library(event: Event, count: int) -> Any:
    library = _library()
    kinds = {"gaussian": library.GaussianDpEvent, "laplace": library.LaplaceDpEvent}
    if event.mechanism not in kinds:
        raise ValueError(f"{event.mechanism} noise cannot be priced; the kinds with a price are {', '.join(kinds)}")
    one = kinds[event.mechanism](event.multiplier)
    sampled = one if event.rate == 1 else library.PoissonSampledDpEvent(event.rate, one)
    return library.SelfComposedDpEvent(sampled, count)


@lru_cache(maxsize=1)
def _library() -> Any:
    """The accounting library, imported when first needed: it takes seconds."""
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as problem:
        raise MissingExtra("dp-accounting", "privacy") from problem
    return dp_accounting
