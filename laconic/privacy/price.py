"""The price of what was given away: ledgers in, epsilon out, with all that the figure does not cover beside it."""

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Literal, TypeAlias

from laconic.core.ledger import EVERY_ROW, Entry, Ledger, Noise
from laconic.core.result import Price, Result
from laconic.privacy.accountants import PURE, AnyAccountant, Event, Events, Pld, events_of

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
