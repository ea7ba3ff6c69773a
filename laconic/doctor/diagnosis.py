"""What a check found, and what to do about it."""

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from laconic.plan.party_file import PartyFile

Level: TypeAlias = Literal["fine", "note", "wrong"]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One finding about one thing.

    Attributes:
        level: `fine` needs nothing; `note` works, but should be known; `wrong` would end or spoil a run.
        about: what it is about: a column, a file, a port.
        words: what was found.
        remedy: what to do; empty if nothing.
    """

    level: Level
    about: str
    words: str
    remedy: str = ""


Check: TypeAlias = Callable[[PartyFile], Iterable[Diagnosis]]
"""Looks at one party and says what it found; it reads, and changes nothing."""
