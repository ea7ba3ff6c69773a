"""All parties in this process: plain calls, so a stack trace shows the whole way from the user's line to the step."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np

from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script, answer, steps_of
from laconic.core.wire import Blob, decode_question, encode
from laconic.errors import ContractBroken, LaconicError
from laconic.learn.device import device_asked, on_device
from laconic.plan.runtime import Faults, InProcess
from laconic.threads import limit_threads, threads_now


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


@contextmanager
def open_calls(
    parties: tuple[Party, ...],
    settings: InProcess = InProcess(),  # noqa: B008 (frozen)
) -> Iterator["_Calls"]:
    """Reach these parties by plain calls for as long as the block lasts."""
    with ExitStack() as until:
        yield _Calls(parties, Fate(settings.faults), settings.deadline, _Pool(settings.workers, until))


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
        self._parties: tuple[Party, ...] = ()

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator["Recorder"]:
        """Reach these parties, and write down what is said."""
        with open_calls(parties) as carrier:
            self._parties, self._carrier = parties, carrier
            yield self

    @property
    def names(self) -> tuple[str, ...]:
        """The parties, in the order of the federation."""
        return self._carrier.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Ask as `InProcess` does, and write down what a method asked and was answered."""
        for name, reply in self._carrier.carry(script, blobs, deadline):
            step = decode_question(blobs[name]).step
            if step in steps_of(script) and isinstance(script, Method):
                self.crossings += [(name, step, "down", blobs[name]), (name, step, "up", bytes(reply))]
            yield name, reply
        for party in self._parties:
            try:
                encode(party.memory)
            except LaconicError as problem:
                raise ContractBroken(f"{party.name} remembers what cannot be stored: {problem}") from problem

    def ledgers(self) -> dict[str, Ledger]:
        """Each party's own ledger."""
        return self._carrier.ledgers()
