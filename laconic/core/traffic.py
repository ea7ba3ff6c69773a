"""The record of what crossed the wire, to the byte, kept by the hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import msgspec


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """One question to one party and its answer; `up` is None when no answer came in time."""

    phase: str
    round: int
    step: str
    party: str
    down: int
    up: int | None
    takes: str | None
    gives: str | None


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase cost.

    Attributes:
        bytes_up: bytes of all answers. bytes_down: bytes of all questions.
        rounds: how often the hub waited.
        uploads: rounds in which peers sent something made from their rows.
        downloads: rounds in which the hub sent something made from its rows or labels.
    """

    bytes_up: int = 0
    bytes_down: int = 0
    rounds: int = 0
    uploads: int = 0
    downloads: int = 0
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        """Bytes in both directions."""
        return self.bytes_up + self.bytes_down


class WireLog:
    """Every crossing of one run, by phase: `align`, `fit`, `look`, `final`."""

    def __init__(self) -> None:
        self.phase = "fit"
        self.crossings: list[Crossing] = []
        self._rounds: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._bytes: dict[str, int] = {}

    def next_round(self) -> int:
        """Number the next wait of the hub within the phase, from 1."""
        self._rounds[self.phase] = self._rounds.get(self.phase, 0) + 1
        return self._rounds[self.phase]

    def write(self, crossing: Crossing) -> None:
        """Add one crossing."""
        self.crossings.append(crossing)
        size = crossing.down + (crossing.up or 0)
        self._bytes[crossing.phase] = self._bytes.get(crossing.phase, 0) + size

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Book what crosses within this block, and its time, under `phase`; then go back to the phase before."""
        before, self.phase = self.phase, phase
        started = perf_counter()
        try:
            yield
        finally:
            taken = perf_counter() - started
            self._seconds[phase] = self._seconds.get(phase, 0.0) + taken
            if phase == "look":
                # A look happens in the middle of fitting; its time is not fitting time.
                self._seconds[before] = self._seconds.get(before, 0.0) - taken
            self.phase = before

    def bytes_of(self, phase: str) -> int:
        """Bytes of a phase so far, both directions."""
        return self._bytes.get(phase, 0)

    def rounds_of(self, phase: str) -> int:
        """Rounds of a phase so far."""
        return self._rounds.get(phase, 0)

    def traffic(self, phase: str) -> Traffic:
        """What a phase cost in all."""
        there = [crossing for crossing in self.crossings if crossing.phase == phase]
        return Traffic(
            bytes_up=sum(crossing.up or 0 for crossing in there),
            bytes_down=sum(crossing.down for crossing in there),
            rounds=self.rounds_of(phase),
            uploads=len({crossing.round for crossing in there if crossing.gives and crossing.up is not None}),
            downloads=len({crossing.round for crossing in there if crossing.takes}),
            seconds=round(self._seconds.get(phase, 0.0), 4),
        )
