"""All parties in this process: plain calls, so a stack trace shows the whole way from the user's line to the step."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.script import Script, answer
from laconic.core.values import Settings
from laconic.runtime.faults import Fate, Faults


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
        replies = self._answers(script, {name: blobs[name] for name in arrivals})
        for name, _ in sorted(_in_time(arrivals), key=lambda arrival: arrival[1]):
            yield name, replies[name]

    def ledgers(self) -> dict[str, Ledger]:
        return {name: party.ledger for name, party in self._parties.items()}

    def _answers(self, script: Script, blobs: Mapping[str, bytes]) -> dict[str, bytes]:
        pool = self._pool.for_steps(script) if len(blobs) > 1 else None
        if pool is None:
            return {name: answer(script, self._parties[name], blob) for name, blob in blobs.items()}
        futures = {name: pool.submit(answer, script, self._parties[name], blob) for name, blob in blobs.items()}
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
            import torch

            # A thread starts with as many threads of its own as the machine has cores, whatever was set before.
            pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))
            self._threads = self._until.enter_context(pool)
        return self._threads if workers > 1 else None


def cores() -> int:
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
