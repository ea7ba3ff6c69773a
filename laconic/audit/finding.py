"""What an attack found: how well it did, beside what knowing nothing would have done."""

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One attack's success.

    Attributes:
        attack: what was tried, on whom.
        knows: what the attacker must know.
        measure: what the figures are.
        success: how well it did.
        chance: how well a guess that ignores what was released does.
    """

    attack: str
    knows: str
    measure: str
    success: float
    chance: float
