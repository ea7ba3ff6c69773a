"""Epsilon in, noise out: how much noise every party must use, calculated before anything runs."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf, log1p, sqrt
from typing import NamedTuple

from laconic.privacy.accounting import AnyAccountant, Event, Events, People, Pld, check_delta
from laconic.privacy.mechanisms.gaussian import gaussian_scale
from laconic.values import Settings

_BESIDE = "released beside"
_CLOSE = 1e-3
"""The search for the least noise ends this close, as a share, and on the side of more noise."""


class Demand(NamedTuple):
    """What a party wants to do: so many noisy `answers`, each about a random share `rate` of its rows."""

    rate: float
    answers: int

    def events(self, multiplier: float) -> Events:
        """What that would cost with noise of this scale, in units of the sensitivity."""
        return {Event("gaussian", multiplier, self.rate): self.answers}


class Budget(Settings, frozen=True):
    """The most that any person's row may lose in all.

    Attributes:
        epsilon: the most privacy loss.
        delta: the probability that the loss is greater.
        people: `shared` if everyone is known to all parties, which then share the budget; `disjoint` if to one, which
            then has all of it.
        split: each party's share of the budget by name, in any unit; a party not named has share 1. Shares are of
            squared loss, the quantity that adds up when noise is Gaussian: with equal shares, parties that do the
            same get the same noise.
        accountant: how losses add up.
        equal_noise: whether all parties have the same multiplier, as FedOnce's paper has it, and not the same loss: a
            party that learns for longer then has no more noise, and a greater loss.
        besides: multipliers of Gaussian noise on what any person's row is released in beside these demands; the budget
            is for both together.
    """

    epsilon: float
    delta: float = 1e-5
    people: People = "shared"
    split: dict[str, float] = {}  # noqa: RUF012 (msgspec copies it)
    accountant: AnyAccountant = Pld()
    equal_noise: bool = False
    besides: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"epsilon must be above 0, not {self.epsilon}")
        check_delta(self.delta)
        if self.equal_noise and self.split:
            raise ValueError("equal_noise gives all parties one noise, and split different ones; leave one of them out")
        for party, share in self.split.items():
            if not 0 < share < inf:
                raise ValueError(f"the share of {party} must be above 0, not {share}; leave it out for a share of 1")

    def multipliers(self, demands: Mapping[str, Demand]) -> dict[str, float]:
        """The least noise for each party, in units of its sensitivity, with which the whole keeps the budget."""
        strangers = self.split.keys() - demands.keys()
        if strangers:
            raise ValueError(f"split names {', '.join(sorted(strangers))}; the parties are {', '.join(demands)}")
        if self.people == "disjoint":
            return {party: self._least({party: demand})[party] for party, demand in demands.items()}
        return self._least(demands)

    def least_noise(self, events: Callable[[float], Events]) -> float:
        """The least scale of noise for which what happens under it keeps the budget, for someone known to one party.

        Args:
            events: what Gaussian noise of this scale is put on; more noise must cost less.
        """
        # What happens is like one Gaussian answer: a good start for the search.
        once = sqrt(sum(count / event.multiplier**2 for event, count in events(1.0).items()))
        near = 1 / (gaussian_scale(self.epsilon, self.delta, 1.0) * once)

        def fits(loss: float) -> bool:
            return self._epsilon({"": events(1 / loss)}) <= self.epsilon

        return 1 / _greatest(fits, 0.99 * near, 1.001 * near, _CLOSE)

    def spent(self, demands: Mapping[str, Demand], multipliers: Mapping[str, float]) -> float:
        """The epsilon of doing all this with that noise."""
        if self.people == "disjoint":
            return max(self._together({party: demand}, multipliers) for party, demand in demands.items())
        return self._together(demands, multipliers)

    def _together(self, demands: Mapping[str, Demand], multipliers: Mapping[str, float]) -> float:
        each = {party: demand.events(multipliers[party]) for party, demand in demands.items()}
        return self._epsilon(each)

    def _epsilon(self, each: Mapping[str, Events]) -> float:
        """The loss of someone known to all these parties, and by what is released beside."""
        beside = {_BESIDE: Counter(Event("gaussian", one) for one in self.besides)} if self.besides else {}
        return self.accountant.epsilon({**each, **beside}, self.delta)

    def _least(self, demands: Mapping[str, Demand]) -> dict[str, float]:
        shares = {party: self.split.get(party, 1.0) for party in demands}
        whole = sum(shares.values())

        def by_loss(loss: float) -> dict[str, float]:
            return {party: _multiplier(demand, loss * sqrt(shares[party] / whole)) for party, demand in demands.items()}

        def noise(loss: float) -> dict[str, float]:
            return dict.fromkeys(demands, 1 / loss) if self.equal_noise else by_loss(loss)

        def fits(loss: float) -> bool:
            return self._together(demands, noise(loss)) <= self.epsilon

        # If all were one Gaussian answer, this would be the loss: a good start for the search.
        near = 1 / gaussian_scale(self.epsilon, self.delta, 1.0)
        if self.equal_noise:
            near = 1 / max(by_loss(near).values())
        return noise(_greatest(fits, 0.9 * near, 1.02 * near, _CLOSE))


def _greatest(fits: Callable[[float], bool], low: float, high: float, close: float) -> float:
    """The greatest loss that fits, to within a share `close` and never above it."""
    while not fits(low):
        low, high = low / 1.3, low
    while fits(high):
        low, high = high, high * 1.3
    while high > low * (1 + close):
        middle = sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _multiplier(demand: Demand, loss: float) -> float:
    """The noise with which a party's answers together look like one Gaussian answer of noise 1 / `loss`.

    Exact when all rows take part; otherwise the limit for many answers (Bu, Dong, Long, Su: Deep learning with Gaussian
    differential privacy, 2020), which decides only how parties share: the accountant has the last word on the whole.
    """
    if demand.rate == 1:
        return sqrt(demand.answers) / loss
    return 1 / sqrt(log1p(loss**2 / (demand.rate**2 * demand.answers)))
