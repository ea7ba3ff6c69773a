"""A party: one participant's rows, memory, chance and ledger."""

from hashlib import blake2b
from typing import Any

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.table import Table


class Party:
    """All that a step may touch.

    Attributes:
        name: the party's name in the federation.
        data: its rows; they never leave it.
        memory: what it remembers between questions: plain values only (what the wire can carry), so that it
            survives a restart. Never leaves the party by itself.
        ledger: what it gave away.
        phase: what is going on: `align`, `fit`, `look` or `final`.
        rng: chance, fresh for each question; the same seed, phase and round give the same numbers on every runtime.
    """

    def __init__(
        self,
        name: str,
        data: Table,
        seed: int,
        memory: dict[str, Any] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.name = name
        self.data = data
        self.seed = seed
        self.memory = {} if memory is None else memory
        self.ledger = Ledger() if ledger is None else ledger
        self.phase = "fit"
        self.rng = np.random.default_rng()
        self.turn("fit", 0)

    def turn(self, phase: str, number: int) -> None:
        """Take fresh chance for question `number` of `phase`."""
        self.phase = phase
        words = f"{self.name}/{phase}/{number}".encode()
        self.rng = np.random.default_rng([self.seed, int.from_bytes(blake2b(words, digest_size=16).digest())])
