"""Accountants: how the losses of many noisy answers add up to one epsilon. All use Google's `dp-accounting`.

An event is one kind of noisy answer. Equal events are counted and priced once, so that a hundred equal parties take no
longer to price than one.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from math import inf, log
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic.core.ledger import EVERY_ROW, NOT_FROM_ROWS, Entry, Ledger, Noise
from laconic.errors import MissingExtra
from laconic.shown import counted
from laconic.values import Array, Settings

_MANY = 4
"""From so many different events on, privacy loss distributions are kept ten times coarser, to stay quick."""

PURE = "randomised response"
"""A mechanism whose loss is never more than 1 / multiplier: it needs no delta, and losses add up."""


class Event(NamedTuple):
    """One noisy answer about a random share of rows; the scale of its noise is in units of the sensitivity."""

    mechanism: str
    multiplier: float
    rate: float = 1.0


Events: TypeAlias = Mapping[Event, int]
"""How often each event happened."""


def events_of(noise: Noise, times: int = 1) -> Events:
    """The events of a release made so many times. Noise without a price is an error."""
    if noise.multiplier is None:
        raise ValueError(f"{noise.mechanism} noise of scale {noise.scale:g} has no price: {noise.caveat}")
    made = noise.count * times
    # What was made from noisy values alone counts 0 times.
    return {Event(noise.mechanism, noise.multiplier, noise.rate): made} if made else {}


def together(parties: Mapping[str, Events]) -> Events:
    """The events of several parties as those of one."""
    total: Counter[Event] = Counter()
    for events in parties.values():
        total.update(events)
    return total


class Pld(Settings, frozen=True):
    """Privacy loss distributions, convolved: the tightest figure, and an upper bound all the same.

    Attributes:
        interval: the grain of the distributions; finer is tighter and slower. With many different events it is ten
            times coarser, which errs on the safe side.
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
        rdp = _library().rdp
        orders = rdp.RdpAccountant().orders
        return float(rdp.compute_epsilon(orders, _divergences(together(parties), tuple(orders)), delta)[0])


class Moments(Settings, frozen=True):
    """The moments accountant as FedOnce-L1 uses it: Renyi divergences of all parties summed, classic conversion."""

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        return _classic(together(parties), delta)


class SimpleDivision(Settings, frozen=True):
    """Priv-Baseline: the moments accountant prices each party alone at its share of delta, and epsilons add up."""

    def epsilon(self, parties: Mapping[str, Events], delta: float) -> float:
        """The loss of someone known to all these parties."""
        equal = Counter(tuple(sorted(events.items())) for events in parties.values())
        return sum(count * _classic(dict(events), delta / len(parties)) for events, count in equal.items())


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
    if event.multiplier == 0:
        return np.full(len(orders), inf)
    accountant = _library().rdp.RdpAccountant(list(orders))
    accountant.compose(_to_library(event, 1))
    # A private field, since the library offers only epsilon, and the paper's classic conversion needs the divergences.
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


People: TypeAlias = Literal["shared", "disjoint"]
"""`shared`: everyone is known to all parties, so losses add. `disjoint`: to one party, so the greatest loss counts."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one person's row may have lost by a run, and what that figure leaves out.

    Attributes:
        epsilon: of all priced releases together; None if there is no bound: the proof of one does not hold, or nothing
            that left bears noise with a price.
        delta: the probability that the loss is greater.
        people: `shared` if everyone is known to all parties, so that losses add; `disjoint` if to one.
        by_party: the epsilon of each party's priced releases alone, at the same delta.
        units: whose influence is bounded.
        caveats: what the priced noise covers, and what it does not.
        unproven: noise that its proof does not cover, in words.
        open: releases that no priced noise covers, in words: the epsilon says nothing of them.
        secure: whether all priced noise came from a secure generator; if not, the seed undoes it.
    """

    epsilon: float | None
    delta: float
    people: str
    accountant: str
    by_party: dict[str, float]
    units: tuple[str, ...]
    caveats: tuple[str, ...]
    unproven: tuple[str, ...]
    open: tuple[str, ...]
    secure: bool

    def __repr__(self) -> str:
        # What is not covered comes first: an epsilon alone would be read as a promise about everything.
        left = f"{counted(len(self.open), 'open release')} not covered; " if self.open else ""
        words = self.figure if self.epsilon is None else f"epsilon {self.figure} at delta {self.delta:g}"
        return f"<Price: {left}{words}>"

    @property
    def figure(self) -> str:
        """The epsilon in words, which nobody takes for a small one where there is none."""
        if self.epsilon is not None:
            return f"{self.epsilon:.4g}"
        return f"no bound: {'a proof does not hold' if self.units else 'nothing that left bears noise with a price'}"


def price(
    ledgers: Mapping[str, Ledger],
    delta: float,
    people: People = "shared",
    *,
    accountant: AnyAccountant = Pld(),  # noqa: B008 (frozen)
    trust_claims: bool = False,
) -> Price:
    """Price what parties gave away.

    Args:
        ledgers: each party's ledger.
        delta: the probability that the loss is greater than epsilon.
        people: whether everyone is known to all parties, or to one only.
        trust_claims: price noise whose proof does not cover it as its authors do, instead of as no protection.

    Returns:
        The price. Its epsilon is None where nothing at all is protected; 0 means that parties gave nothing away.
    """
    check_delta(delta)
    entries = [(party, entry) for party, ledger in ledgers.items() for entry in ledger.entries]
    noises = tuple(dict.fromkeys(noise for _, entry in entries if (noise := _priced(entry)) is not None))
    unproven = tuple(dict.fromkeys(noise.caveat for noise in noises if not noise.proven))
    alone = {party: _loss({party: ledger}, delta, accountant) for party, ledger in ledgers.items()}
    claims = {party for party, entry in entries if (noise := _priced(entry)) is not None and not noise.proven}
    claimed = set() if trust_claims else claims
    opened = tuple(dict.fromkeys(f"{party}: {entry.words}" for party, entry in entries if _is_open(entry)))
    whole = _loss(ledgers, delta, accountant) if people == "shared" else max(alone.values(), default=0.0)
    return Price(
        epsilon=None if whole == inf or (unproven and not trust_claims) or (opened and not noises) else whole,
        delta=delta,
        people=people,
        accountant=type(accountant).__name__,
        by_party={party: loss for party, loss in alone.items() if 0 < loss < inf and party not in claimed},
        units=tuple(dict.fromkeys(noise.unit for noise in noises)),
        caveats=tuple(dict.fromkeys(noise.caveat for noise in noises)),
        unproven=unproven,
        open=opened,
        secure=all(noise.secure for noise in noises),
    )


def _priced(entry: Entry) -> Noise | None:
    """The entry's noise, if it has a price."""
    return entry.noise if entry.noise is not None and entry.noise.multiplier is not None else None


def _is_open(entry: Entry) -> bool:
    """Whether it says something of rows that no priced noise covers; a sum that hides it is not protected itself."""
    return _priced(entry) is None and NOT_FROM_ROWS not in entry.words and not entry.hides


def _loss(ledgers: Mapping[str, Ledger], delta: float, accountant: AnyAccountant) -> float:
    """The loss of someone known to all these parties: the greatest over cuts of rows, which are of different people."""
    cuts = {noise.people for ledger in ledgers.values() for entry in ledger.entries if (noise := _priced(entry))}
    losses = [0.0]
    for cut in cuts:
        # Losses without a delta simply add up; accountants do not know them.
        pure: list[float] = []
        rest: dict[str, Events] = {}
        for party, ledger in ledgers.items():
            events = _events(ledger, cut)
            pure += [count / event.multiplier for event, count in events.items() if event.mechanism == PURE]
            if left := {event: count for event, count in events.items() if event.mechanism != PURE}:
                rest[party] = left
        losses.append(sum(pure) + (accountant.epsilon(rest, delta) if rest else 0.0))
    return max(losses)


def check_delta(delta: float) -> None:
    """Refuse a delta that is no probability."""
    if not 0 < delta < 1:
        raise ValueError(f"delta is a probability above 0 and below 1, not {delta}")


def _events(ledger: Ledger, cut: str) -> Events:
    total: Counter[Event] = Counter()
    for noise, count in _times(ledger).items():
        if noise.people in (cut, EVERY_ROW):
            total.update(events_of(noise, 1 if noise.once else count))
    return total


def _times(ledger: Ledger) -> Counter[Noise]:
    """How often each noise with a price was released."""
    times: Counter[Noise] = Counter()
    for entry in ledger.entries:
        if (noise := _priced(entry)) is not None:
            times[noise] += entry.times
    return times
