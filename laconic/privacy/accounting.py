"""Accountants: how the losses of many noisy answers add up to one epsilon. All work on Google's `dp-accounting`.

An event is one kind of noisy answer; losses are counted by how often each event happened, so that a hundred parties
alike cost no more to price than one.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from math import inf, log
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from laconic.core.ledger import EVERY_ROW, Entry, Ledger, Noise
from laconic.core.result import Price, Result
from laconic.errors import MissingExtra
from laconic.values import Array, Settings

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


People: TypeAlias = Literal["shared", "disjoint"]
"""`shared`: everyone is known to all parties, so losses add. `disjoint`: to one party, so the greatest loss counts."""


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
        delta: the chance that the loss is greater than epsilon.
        people: whether everyone is known to all parties, or to one only.
        accountant: how losses add up.
        trust_claims: price noise whose proof does not cover it as its authors do, instead of as no protection.

    Returns:
        The price, whose epsilon is None where nothing at all is protected: 0 is for parties that gave nothing away.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is a chance above 0 and below 1, not {delta}")
    entries = [(party, entry) for party, ledger in ledgers.items() for entry in ledger.entries]
    noises = tuple(dict.fromkeys(noise for _, entry in entries if (noise := _priced(entry)) is not None))
    unproven = tuple(dict.fromkeys(noise.caveat for noise in noises if not noise.proven))
    alone = _each_alone(ledgers, delta, accountant)
    claimed = set() if trust_claims else {party for party, entry in entries if _unproven(entry)}
    opened = tuple(dict.fromkeys(f"{party}: {entry.words}" for party, entry in entries if _priced(entry) is None))
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


def ledgers_of(result: Result) -> dict[str, Ledger]:
    """Each party's ledger, from the record of a run."""
    found: dict[str, list[Entry]] = {party: [] for party in result.parties}
    for release in result.releases:
        found[release.party].append(
            Entry(
                phase=release.phase,
                step=release.step,
                words=release.words,
                form=release.form,
                times=release.times,
                bytes=release.bytes,
                noise=release.noise,
                to=release.to,
                digest=release.digest,
            )
        )
    return {party: Ledger(tuple(entries)) for party, entries in found.items()}


def _priced(entry: Entry) -> Noise | None:
    """The entry's noise, if it has a price."""
    return entry.noise if entry.noise is not None and entry.noise.multiplier is not None else None


def _unproven(entry: Entry) -> bool:
    noise = _priced(entry)
    return noise is not None and not noise.proven


def _each_alone(ledgers: Mapping[str, Ledger], delta: float, accountant: AnyAccountant) -> dict[str, float]:
    """The loss of someone known to one party; parties that gave away alike, as they mostly do, are worked out once."""
    known: dict[frozenset[tuple[Noise, int]], float] = {}
    found = {}
    for party, ledger in ledgers.items():
        spent = frozenset(_times(ledger).items())
        if spent not in known:
            known[spent] = _loss({party: ledger}, delta, accountant)
        found[party] = known[spent]
    return found


def _loss(ledgers: Mapping[str, Ledger], delta: float, accountant: AnyAccountant) -> float:
    """The loss of someone known to all these parties: the greatest over cuts of rows, which are of different people."""
    cuts = {noise.people for ledger in ledgers.values() for entry in ledger.entries if (noise := _priced(entry))}
    losses = [0.0]
    for cut in cuts:
        spent = {party: _events(ledger, cut) for party, ledger in ledgers.items()}
        # Losses without a delta simply add up; accountants do not know them.
        pure = sum(
            count / event.multiplier for events in spent.values() for event, count in _only(events, PURE).items()
        )
        rest = {party: left for party, events in spent.items() if (left := _only(events, PURE, but=True))}
        losses.append(pure + (accountant.epsilon(rest, delta) if rest else 0.0))
    return max(losses)


def _only(events: Events, mechanism: str, *, but: bool = False) -> Events:
    return {event: count for event, count in events.items() if (event.mechanism == mechanism) != but}


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
        noise = _priced(entry)
        if noise is not None:
            times[noise] += entry.times
    return times
