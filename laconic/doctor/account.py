"""What a party has spent of its people's privacy, and where that is written down."""

from collections.abc import Iterator

from laconic.deploy.party_account import locate_account
from laconic.deploy.party_files import PartyFile
from laconic.deploy.policy import read_policy
from laconic.doctor.columns import Diagnosis

_NEARLY = 0.8
"""The share of its limit from which on an account is worth a note."""


def check_account(party: PartyFile) -> Iterator[Diagnosis]:
    """Where the account of all runs is, and what it says; nothing for a party that is not read from a file."""
    if not party.path:
        return
    allowed, account = read_policy(party.allow, party.path), locate_account(party)
    if account.waiting:
        words = f"an earlier version's is beside {party.path}; the next run moves it to {account.folder}"
        yield Diagnosis("note", "account", words, "back up both until then")
    if not account.begun:
        yield Diagnosis("fine", "account", f"nothing spent yet; it will be in {account.folder}")
        return
    spent, most = account.spent.epsilon(allowed.delta), allowed.max_epsilon
    limit = "no max_epsilon in [allow]" if most is None else f"max_epsilon = {most:g}"
    words = f"epsilon {spent:.3g} spent at delta {allowed.delta:g} ({limit}), in {account.folder}"
    if most is not None and spent > _NEARLY * most:
        yield Diagnosis("note", "account", words, "runs that would pass the limit are refused")
    else:
        yield Diagnosis("fine", "account", words, "back it up: without it, what was spent is forgotten")
