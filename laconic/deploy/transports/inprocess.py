"""All parties in this process: plain calls, so a stack trace shows the whole way from the user's line to the step."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier
from laconic.core.step import Script, answer, steps_of
from laconic.core.wire import Blob, decode_question, encode
from laconic.errors import ContractBroken, LaconicError
from laconic.learn.device import device_asked, on_device
from laconic.threads import limit_threads, threads_now
from laconic.values import Settings


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


class InProcess(Settings, frozen=True):
    """The default runtime.

    Attributes:
        faults: late and lost parties to play; none by default.
        deadline: the longest played delay that still counts as in time; None is no limit.
        workers: how many parties answer at the same time, each in a thread; None is one, or one for each core where a
            script says that its steps are long matrix products. Every party has its own rows, memory and chance, so
            that the numbers stay the same.
    """

    faults: Faults = Faults()
    deadline: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        """Refuse to work with nobody."""
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be 1 or more, not {self.workers}")

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator["_Calls"]:
        """Reach these parties for as long as the block lasts."""
        with ExitStack() as until:
            yield _Calls(parties, Fate(self.faults), self.deadline, _Pool(self.workers, until))


class _Calls:
    def __init__(self, parties: tuple[Party, ...], fate: Fate, deadline: float | None, pool: "_Pool") -> None:
        self._parties = {party.name: party for party in parties}
        self._fate, self._deadline, self._pool = fate, deadline, pool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        deadline = self._deadline if deadline is None else deadline
        arrivals: dict[str, float | None] = {}
        for name in blobs:
            if self._fate.reaches(name):
                delay = self._fate.delay() if self._fate.in_time() else None
                arrivals[name] = None if delay is None or (deadline is not None and delay > deadline) else delay
        pool = self._pool.for_steps(script) if len(arrivals) > 1 else None
        replies = {} if pool is None else self._answers(script, {name: blobs[name] for name in arrivals}, pool)
        # A plain loop: a comprehension would be one more frame between a user's line and the party's arithmetic.
        for name in arrivals if pool is None else ():
            replies[name] = answer(script, self._parties[name], blobs[name])
        for name, _ in sorted(_in_time(arrivals), key=lambda arrival: arrival[1]):
            yield name, replies[name]

    def ledgers(self) -> dict[str, Ledger]:
        return {name: party.ledger for name, party in self._parties.items()}

    def _answers(self, script: Script, blobs: Mapping[str, bytes], pool: ThreadPoolExecutor) -> dict[str, bytes]:
        # A thread begins without a limit and a device, whatever is in force in the one that it works for.
        answer_here = on_device(device_asked())(limit_threads(threads_now())(answer))
        futures = {name: pool.submit(answer_here, script, self._parties[name], blob) for name, blob in blobs.items()}
        return {name: future.result() for name, future in futures.items()}


def _in_time(arrivals: Mapping[str, float | None]) -> list[tuple[str, float]]:
    return [(name, delay) for name, delay in arrivals.items() if delay is not None]


class _Pool:
    """Threads for parties, made when they are first wanted."""

    def __init__(self, workers: int | None, until: ExitStack) -> None:
        self._workers, self._until = workers, until
        self._threads: ThreadPoolExecutor | None = None

    def for_steps(self, script: Script) -> ThreadPoolExecutor | None:
        """Threads for the steps of a script; None if one party is to answer after the other."""
        workers = self._workers or (cores() if script.long_products else 1)
        if workers > 1 and self._threads is None:
            self._threads = self._until.enter_context(ThreadPoolExecutor(workers))
        return self._threads if workers > 1 else None


def cores() -> int:
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class Recorder:
    """The in-process runtime, with every blob kept and every memory checked to be plain values."""

    def __init__(self) -> None:
        self.crossings: list[tuple[str, str, str, bytes]] = []
        self._within = InProcess()

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator[Carrier]:
        """Reach these parties, and write down what is said."""
        with self._within.open(parties) as carrier:
            yield _Recording(carrier, parties, self.crossings)


class _Recording:
    def __init__(
        self, carrier: Carrier, parties: tuple[Party, ...], crossings: list[tuple[str, str, str, bytes]]
    ) -> None:
        self._carrier, self._parties, self._crossings = carrier, parties, crossings

    @property
    def names(self) -> tuple[str, ...]:
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, reply in self._carrier.carry(script, blobs, deadline):
            step = decode_question(blobs[name]).step
            if step in steps_of(script) and isinstance(script, Method):
                self._crossings += [(name, step, "down", blobs[name]), (name, step, "up", bytes(reply))]
            yield name, reply
        for party in self._parties:
            try:
                encode(party.memory)
            except LaconicError as problem:
                raise ContractBroken(f"{party.name} remembers what cannot be stored: {problem}") from problem

    def ledgers(self) -> dict[str, Ledger]:
        return self._carrier.ledgers()
