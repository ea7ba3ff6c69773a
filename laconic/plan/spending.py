"""What a party has spent of its people's privacy, in all its runs, on its own disk."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from laconic.core.ledger import Entry, Ledger, Noise
from laconic.core.wire import Limits, decode, encode
from laconic.privacy.price import price
from laconic.runtime.whole import Slots

_OWN = Limits(bytes=2**32, items=10_000_000, depth=64)
_WORDS = "foreseen before the run"


class _Run(msgspec.Struct, frozen=True):
    """One run: the noise foreseen for it, and the noisy releases it has made."""

    foreseen: tuple[Entry, ...] = ()
    released: tuple[Entry, ...] = ()


class Spending:
    """The noisy releases of every run, written before they leave; only ever added to.

    A run counts with what was foreseen for it or with what it has released, whichever costs more, so that two runs
    begun together cannot pass a limit between them, and a run that was cut off cannot be begun again for nothing.

    Args:
        path: where the two files of the ledger are, beside the party's runs.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._slots = Slots(path)
        self._lock = path.with_name(f"{path.name}.lock")
        self._known: dict[str, _Run] = {}

    def has(self, run: str) -> bool:
        """Whether a run has begun."""
        return run in self._runs()

    def epsilon(self, delta: float) -> float:
        """The loss of anyone's row by all runs together; infinite if there is no bound."""
        return _epsilon(self._runs(), delta)

    def foreseen(self, run: str, noises: tuple[Noise, ...], delta: float) -> float:
        """The loss if a run with this noise were added."""
        return _epsilon(self._runs() | {run: _Run(foreseen=_expected(noises))}, delta)

    def with_run(self, run: str, ledger: Ledger, delta: float) -> float:
        """The loss if this were a run's own ledger."""
        runs = self._runs()
        return _epsilon(runs | {run: _Run(runs.get(run, _Run()).foreseen, _noisy(ledger))}, delta)

    def reserve(self, run: str, noises: tuple[Noise, ...]) -> None:
        """Write down what a run will spend before it begins."""
        with self._locked():
            self._put(run, _Run(foreseen=_expected(noises)))

    def write(self, run: str, ledger: Ledger) -> None:
        """Write down what a run has released."""
        with self._locked():
            self._put(run, _Run(self._runs().get(run, _Run()).foreseen, _noisy(ledger)))

    def _put(self, run: str, what: _Run) -> None:
        runs = self._runs()
        if runs.get(run) != what:
            self._known = runs | {run: what}
            self._slots.write(encode(msgspec.to_builtins(self._known)))

    def _runs(self) -> dict[str, _Run]:
        if self._slots.exists and self._slots.stale:
            found: Any = decode(self._slots.read(), _OWN)
            self._known = msgspec.convert(found, dict[str, _Run])
        return self._known

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _noisy(ledger: Ledger) -> tuple[Entry, ...]:
    """The entries that have a price: the others are open releases, which no epsilon covers."""
    return tuple(entry for entry in ledger.entries if entry.noise is not None and entry.noise.multiplier is not None)


def _expected(noises: tuple[Noise, ...]) -> tuple[Entry, ...]:
    return tuple(
        Entry(phase="fit", step=f"{number}", words=_WORDS, form="", times=1, bytes=0, noise=noise)
        for number, noise in enumerate(noises)
    )


def _epsilon(runs: Mapping[str, _Run], delta: float) -> float:
    """Runs add up as parties that share all people do.

    Within one run, cuts are of different people. Two runs may cut differently, so that between them a person may be in
    any of them; then all noise counts against everyone.
    """
    spent = {run: costlier for run, what in runs.items() if (costlier := _costlier(what, delta))}
    if len(spent) < 2:
        return max((_price({run: entries}, delta) for run, entries in spent.items()), default=0.0)
    of_everyone: dict[str, tuple[Entry, ...]] = {}
    for run, entries in spent.items():
        for entry in entries:
            if entry.noise is not None:
                noise = msgspec.structs.replace(entry.noise, people="everyone")
                # By cut: a noise drawn once in each of two cuts was drawn twice.
                key = f"{run}, {entry.noise.people}"
                of_everyone[key] = (*of_everyone.get(key, ()), msgspec.structs.replace(entry, noise=noise))
    return _price(of_everyone, delta)


def _costlier(run: _Run, delta: float) -> tuple[Entry, ...]:
    if not run.foreseen or not run.released:
        return run.foreseen or run.released
    return max(run.foreseen, run.released, key=lambda entries: _price({"": entries}, delta))


def _price(spent: Mapping[str, tuple[Entry, ...]], delta: float) -> float:
    found = price({run: Ledger(entries) for run, entries in spent.items()}, delta).epsilon
    return inf if found is None else found
