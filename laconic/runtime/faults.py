"""Late and lost parties, played from a seed, so that a method's answer to absence can be tried."""

import numpy as np

from laconic.core.values import Settings


class Faults(Settings, frozen=True):
    """How parties fail in a simulated federation.

    Attributes:
        late: the chance that an answer comes after the deadline; the party did the work, the hub goes without.
        lost: the chance, before each question, that a party is gone from then on.
        absent: parties that never answer at all.
        slowness: mean of the played delays, in seconds that nobody waits: they decide the order in which answers
            come, and who misses a deadline. 0 keeps the order asked.
        seed: which failures come.
    """

    late: float = 0.0
    lost: float = 0.0
    absent: tuple[str, ...] = ()
    slowness: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, chance in (("late", self.late), ("lost", self.lost)):
            if not 0 <= chance <= 1:
                raise ValueError(f"{name} is a chance from 0 to 1, not {chance}")
        if self.slowness < 0:
            raise ValueError(f"slowness must be 0 or more, not {self.slowness}")


class Fate:
    """The failures of one run, drawn question by question."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._rng = np.random.default_rng([faults.seed, 0xFA7E])
        self._gone = set(faults.absent)

    def reaches(self, party: str) -> bool:
        """Whether the next question gets to a party at all."""
        if self._rng.random() < self._faults.lost:
            self._gone.add(party)
        return party not in self._gone

    def in_time(self) -> bool:
        """Whether an answer comes before the deadline."""
        return bool(self._rng.random() >= self._faults.late)

    def delay(self) -> float:
        """How long an answer takes."""
        return float(self._rng.exponential(self._faults.slowness)) if self._faults.slowness else 0.0
