"""What a party that answers elsewhere brings back with an answer, so that the caller's own knows what was given away.

An answer may be all that comes back: whoever gave it can be gone a moment later, and what was told must not be told
again as if for the first time.
"""

from typing import Any, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.script import Script
from laconic.privacy.told import TOLD, spent

Brought: TypeAlias = dict[str, Any]
"""What a party has told of its rows, and its ledger, as plain values."""


class Noting:
    """A gate that lets everything through, and notes whether an answer cost anyone anything.

    Attributes:
        brought: what is to be brought back with the answer; None if nothing has changed that counts.
    """

    def __init__(self) -> None:
        self.brought: Brought | None = None
        self._before = (0, 0)

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Note what was spent before."""
        self._before = spent(party)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Note what is spent with the answer."""
        if spent(party) != self._before:
            entries = list(msgspec.to_builtins(party.ledger.entries))
            self.brought = {"told": party.memory.get(TOLD), "ledger": entries}


def take_note(party: Party, brought: Brought) -> None:
    """Let a party here know what it gave away elsewhere."""
    if brought["told"] is not None:
        party.memory[TOLD] = brought["told"]
    party.ledger = Ledger(tuple(msgspec.convert(brought["ledger"], list[Entry])))
