"""The seed of a party that sits apart from the others: its own, as all of them know the plan's."""

import secrets

from laconic.plan.party_file import PartyFile
from laconic.plan.shape import Plan

_BITS = 128


def seed_of(plan: Plan, file: PartyFile) -> int:
    """The seed that a party begins a run with, a new one each time it is asked for; the run's folder keeps it.

    Whoever knows the seed can draw a party's first weights again, and undo what they hide. Rows of a public data set,
    which everybody deals out from the plan, have nothing to hide: there the plan's seed gives what a simulation gives.
    """
    return plan.seed if plan.data.name is not None or file.seed == "plan" else secrets.randbits(_BITS)
