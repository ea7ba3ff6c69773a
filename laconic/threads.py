"""How many processor threads arithmetic may use: the one place that limits them.

Sums are taken in another order on two threads than on one, so that their last bits differ. Results are promised to the
bit, so every way to fit, answer or predict passes through `limit_threads`, whatever the environment says
(`OMP_NUM_THREADS`, `MKL_NUM_THREADS`, `OPENBLAS_NUM_THREADS`). Small networks are fastest on one thread too.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Lock, get_native_id, local
from time import monotonic, sleep
from typing import Any

_SETTLING = 2.0
"""Seconds that other threads may take to end or to fall asleep before a fork."""


@contextmanager
def limit_threads(count: int | None = None) -> Iterator[None]:
    """Let arithmetic use so many processor threads for as long as the block lasts; also a decorator.

    Args:
        count: how many; None keeps the limit of the block around this one, and is one thread where there is none.

    Example:
        >>> with limit_threads(2):
        ...     threads_now()
        2
    """
    around = _here.block
    if around is not None and count in (None, around.count):
        around.cover_new_libraries()
        yield
        return
    with ExitStack() as until:
        _here.block = _Block(count or 1, until)
        try:
            _here.block.cover_new_libraries()
            yield
        finally:
            _here.block = around


def threads_now() -> int | None:
    """The limit in force in this thread; None outside of every block."""
    return None if _here.block is None else _here.block.count


def fork_quietly() -> int:
    """`os.fork`, if possible at a moment in which no other thread of this process is at work.

    A thread of torch's is not gone when Python or OpenMP takes it for ended: for a moment longer it holds all locks of
    the memory of Intel's library for products, and a process that is forked then waits for them for ever. This makes
    it rare and does not rule it out, so whoever forks asks the new process for a product before relying on it.
    """
    until, before = monotonic() + _SETTLING, None
    while monotonic() < until:
        asleep = _threads_asleep()
        if asleep is not None and asleep == before:
            break
        before = asleep
        sleep(0.001)
    return os.fork()


def _threads_asleep() -> set[str] | None:
    """The other threads of this process, as far as the system shows them; None while one is at work or ending."""
    found = set()
    for one in Path("/proc/self/task").glob("*"):
        if one.name != str(get_native_id()):
            try:
                state = (one / "stat").read_text().rpartition(") ")[2][:1]
            except (FileNotFoundError, ProcessLookupError):
                return None
            if state != "S":
                return None
            found.add(one.name)
    return found


class _Block:
    """A block of code under one limit, and what undoes it."""

    def __init__(self, count: int, until: ExitStack) -> None:
        self.count = count
        self._until = until
        self._modules = 0
        self._covered: set[str] = set()

    def cover_new_libraries(self) -> None:
        """Limit the libraries that were loaded since this was last called; each would start with all processors."""
        if self._modules == len(sys.modules):
            return
        for name, limit in _limits(self.count):
            if name not in self._covered:
                self._covered.add(name)
                self._until.enter_context(limit)
        self._modules = len(sys.modules)


def _limits(count: int) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Every library that has threads of its own, by name, with a block that limits it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch", _held(torch.get_num_threads, torch.set_num_threads, count)
    for library in _loaded_libraries():
        # OpenMP, and BLAS on top of it, have a number for each thread that calls them.
        by_thread = "openmp" in (library.user_api, library.info().get("threading_layer"))
        each = _held(library.get_num_threads, library.set_num_threads, count)
        yield library.filepath, each if by_thread else _process_on(library, count)


def _loaded_libraries() -> list[Any]:
    """All libraries of BLAS and OpenMP; looked for only if a module was imported since, as that takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    if _found.modules != len(sys.modules):
        _found.libraries, _found.modules = ThreadpoolController().lib_controllers, len(sys.modules)
    return _found.libraries


@contextmanager
def _held(read: Callable[[], int], write: Callable[[int], None], count: int) -> Iterator[None]:
    """Set a number of threads, and put it back afterwards."""
    before = read()
    write(count)
    try:
        yield
    finally:
        write(before)


@contextmanager
def _process_on(library: Any, count: int) -> Iterator[None]:
    """Limit BLAS, which has one number for the whole process: it holds until the last thread has left its block."""
    with _lock:
        wishes = _wishes.setdefault(library.filepath, [])
        before = _before.setdefault(library.filepath, library.num_threads)
        wishes.append(count)
        _set_for_process(library, count)
    try:
        yield
    finally:
        with _lock:
            wishes.remove(count)
            _set_for_process(library, wishes[-1] if wishes else before)
            if not wishes:
                del _before[library.filepath]


def _set_for_process(library: Any, count: int) -> None:
    """Set the number of a BLAS library, whichever thread did so last.

    New releases of threadpoolctl let only the first thread set it, and ignore all others without a word; here a lock
    makes them take turns.
    """
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is not None:
        let_go(force=True)
    library.set_num_threads(count)
    if let_go is not None:
        let_go(force=True)


class _Here(local):
    block: _Block | None = None


class _Found:
    def __init__(self) -> None:
        self.modules = 0
        self.libraries: list[Any] = []


_here = _Here()
_found = _Found()
_lock = Lock()
_before: dict[str, int] = {}
"""By BLAS library, the number that it had before any block that is open."""
_wishes: dict[str, list[int]] = {}
"""By BLAS library, the numbers of all blocks that are open, in all threads."""
