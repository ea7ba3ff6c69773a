"""A plan's fingerprint: what parties compare before they begin."""

from hashlib import blake2b

import msgspec

from laconic.plan.shape import Plan


def plan_fingerprint(plan: Plan) -> str:
    """Thirty-two letters that tell this plan from every other; where it runs is left out."""
    plain = msgspec.to_builtins(plan)
    plain.pop("runtime")
    return blake2b(msgspec.json.encode(plain, order="sorted"), digest_size=16, person=b"laconic plan").hexdigest()
