"""What a party's part of a run costs in privacy, as it stands on an envelope."""

from collections.abc import Iterable

from laconic.core.ledger import Entry, Ledger
from laconic.plan.shape import Plan
from laconic.privacy.price import price


def epsilon_words(party: str, entries: Iterable[Entry], plan: Plan) -> str:
    """The price of all that a party gave away in this run so far, in words; sender and reader find the same."""
    ledger = Ledger(tuple(entries))
    if not ledger.entries:
        return "none: nothing made from rows"
    priced = [one for one in ledger.entries if one.noise is not None and one.noise.multiplier is not None]
    if not priced:
        return "none: open release, not protected"
    paid = price({party: ledger}, plan.budget.delta, accountant=plan.budget.accountant)
    rest = f"; besides, {len(paid.open)} open releases" if paid.open else ""
    seeded = "" if paid.secure else "; noise from the seed, which undoes it"
    return f"{paid.figure} at delta {paid.delta:g} by {paid.accountant}, for {'; '.join(paid.units)}{rest}{seeded}"
