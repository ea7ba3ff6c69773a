"""All parties in this process: plain calls, so a stack trace shows the whole way from the user's line to the step."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

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
        workers: how many parties answer at the same time, each in a thread; worth it where steps spend their time in
            large matrix products. Every party has its own rows, memory and chance, so that the numbers stay the same.
    """

    faults: Faults = Faults()
    deadline: float | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse to work with nobody."""
        if self.workers < 1:
            raise ValueError(f"workers must be 1 or more, not {self.workers}")

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator["_Calls"]:
        """Reach these parties for as long as the block lasts."""
        with _pool(self.workers) as pool:
            yield _Calls(parties, Fate(self.faults), self.deadline, pool)


class _Calls:
    def __init__(
        self, parties: tuple[Party, ...], fate: Fate, deadline: float | None, pool: ThreadPoolExecutor | None
    ) -> None:
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
        if self._pool is None or len(blobs) < 2:
            return {name: answer(script, self._parties[name], blob) for name, blob in blobs.items()}
        futures = {name: self._pool.submit(answer, script, self._parties[name], blob) for name, blob in blobs.items()}
        return {name: future.result() for name, future in futures.items()}


def _in_time(arrivals: Mapping[str, float | None]) -> list[tuple[str, float]]:
    return [(name, delay) for name, delay in arrivals.items() if delay is not None]


def _pool(workers: int) -> "ThreadPoolExecutor | nullcontext[None]":
    if workers == 1:
        return nullcontext()
    import torch

    # A thread starts with as many threads of its own as the machine has cores, whatever was set before.
    return ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),))
