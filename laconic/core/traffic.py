"""The record of what crossed the wire, to the byte, kept by the hub."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Protocol

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


class Watcher(Protocol):
    """Hears how a run stands while it goes on: nothing that the hub does not know, and no row or prediction."""

    def asked(self, phase: str, number: int, step: str, parties: Sequence[str], /) -> None:
        """The hub asks these parties, in round `number` of a phase."""

    def answered(self, crossing: Crossing, /) -> None:
        """A party has answered, or has not in time."""

    def scored(self, metric: str, value: float, /, *, final: bool) -> None:
        """How good the model is by now, on held-out rows."""


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` hear of every run that begins within this block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase cost.

    Attributes:
        rounds: how often the hub waited for answers, which are `up`.
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
    """Every crossing of one run, and the rounds and bytes so far by phase: `align`, `fit`, `look`, `final`."""

    def __init__(self) -> None:
        self.phase = "fit"
        self.crossings: list[Crossing] = []
        self.rounds = Counter[str]()
        self.bytes = Counter[str]()
        self.watcher = _watcher.get()
        self._seconds: dict[str, float] = defaultdict(float)

    def next_round(self) -> int:
        """Number the next wait of the hub within the phase, from 1."""
        self.rounds[self.phase] += 1
        return self.rounds[self.phase]

    def book(
        self, step: str, takes: str | None, gives: str | None, number: int, party: str, *, down: int, up: int | None
    ) -> None:
        """Add one crossing of the phase, in its round `number`."""
        crossing = Crossing(
            phase=self.phase, round=number, step=step, party=party, down=down, up=up, takes=takes, gives=gives
        )
        self.crossings.append(crossing)
        self.bytes[self.phase] += down + (up or 0)
        if self.watcher is not None:
            self.watcher.answered(crossing)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Book what crosses within this block, and its time, under `phase`; then go back to the phase before."""
        before, self.phase = self.phase, phase
        started = perf_counter()
        try:
            yield
        finally:
            taken = perf_counter() - started
            self._seconds[phase] += taken
            if phase == "look":
                # A look happens in the middle of fitting; its time is not fitting time.
                self._seconds[before] -= taken
            self.phase = before

    def traffic(self, phase: str) -> Traffic:
        """What a phase cost in all."""
        there = [crossing for crossing in self.crossings if crossing.phase == phase]
        return Traffic(
            bytes_up=sum(crossing.up or 0 for crossing in there),
            bytes_down=sum(crossing.down for crossing in there),
            rounds=self.rounds[phase],
            uploads=len({crossing.round for crossing in there if crossing.gives and crossing.up is not None}),
            downloads=len({crossing.round for crossing in there if crossing.takes}),
            seconds=round(self._seconds[phase], 4),
        )
