"""A party: one participant's rows, memory, randomness and ledger."""

import os
from collections.abc import Callable
from hashlib import blake2b, shake_256
from typing import Any

import numpy as np

from laconic.core.ledger import Ledger
from laconic.tables.table import Table


class PartyRng(np.random.Generator):
    """A party's randomness for one question, with its kept secret beside it, so that the same noise can be drawn again.

    Attributes:
        secret_bytes: as `Party.secret_bytes`.
    """

    def __init__(self, bits: np.random.BitGenerator, secret_bytes: Callable[[int], bytes]) -> None:
        super().__init__(bits)
        self.secret_bytes = secret_bytes

    def spawn(self, n_children: int) -> "list[np.random.Generator]":
        """Randomness for so many parts of the work, each with the same secret beside it."""
        return [PartyRng(bits, self.secret_bytes) for bits in self.bit_generator.spawn(n_children)]


class Party:
    """All that a step may touch.

    Attributes:
        data: its rows; they never leave it.
        seed: of its randomness. A simulation gives all parties the run's; a party apart from the others draws one of
            its own, which nobody else knows.
        memory: what it remembers between questions: plain values only (what the wire can carry), so that it
            survives a restart. Never leaves the party by itself.
        phase: what is going on: `align`, `fit`, `look` or `final`. number: of the question, within its phase.
        rng: randomness, fresh for each question; the same seed, phase and round give the same numbers on every runtime.
        secret: what only this party knows; all its secret randomness comes from it. A hub keeps it with its journal,
            so that a resumed run asks the same, and puts the same noise on the same numbers.
    """

    def __init__(
        self,
        name: str,
        data: Table,
        seed: int,
        memory: dict[str, Any] | None = None,
        ledger: Ledger | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.name, self.data, self.seed = name, data, seed
        self.memory = {} if memory is None else memory
        self.ledger = Ledger() if ledger is None else ledger
        self.secret, self._kept = os.urandom(32) if secret is None else secret, secret is not None
        self._drawn = 0
        self.turn("fit", 0)

    def turn(self, phase: str, number: int, name: str = "") -> None:
        """Take fresh randomness for question `number` of `phase`, as the party of that name would if one is given."""
        self.phase, self.number = phase, number
        words = f"{name or self.name}/{phase}/{number}".encode()
        rng = np.random.default_rng([self.seed, int.from_bytes(blake2b(words, digest_size=16).digest())])
        self.rng: np.random.Generator = PartyRng(rng.bit_generator, self.secret_bytes) if self._kept else rng

    def keep_secret(self, secret: bytes) -> None:
        """Take this secret, which is kept with the run: what is drawn from it can be drawn again."""
        self.secret, self._kept = secret, True
        self.rng = PartyRng(self.rng.bit_generator, self.secret_bytes)

    def secret_bytes(self, count: int) -> bytes:
        """Bytes that nobody can predict without the party's secret, new ones each time."""
        self._drawn += 1
        return shake_256(self.secret + self._drawn.to_bytes(8, "little")).digest(count)
