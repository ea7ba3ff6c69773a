"""The few value types that every layer shares, and how long work says how far it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf, prod
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Weights: TypeAlias = dict[str, Array]
"""What a learner has learnt, by name: plain arrays, so that it can be stored, sent and loaded without code."""

Rng: TypeAlias = np.random.Generator
Listener: TypeAlias = Callable[[str, int, int | None], None]
"""Called with `(what, done, of)` as long work goes on; `of` is None when the end is not known."""


def flat(rows: Array) -> Array:
    """Each row as one line of numbers; also where there is no row, of which numpy could not tell the width."""
    return rows.reshape(len(rows), prod(rows.shape[1:]))


class Settings(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Frozen settings that can be written as text and back; the class name is the tag `type`.

    Check values in `__post_init__`: it runs for settings made in Python and for those read from a plan.
    """


def check_least(least: float, **values: float | None) -> None:
    """Refuse settings, by name, that are below `least` or not finite; None is not looked at."""
    for name, value in values.items():
        if value is not None and not least <= value < inf:
            raise ValueError(f"{name} must be {least:g} or more, not {value}")


def check_above_zero(most: float = inf, /, **values: float) -> None:
    """Refuse settings, by name, that are not above 0, or above `most`."""
    for name, value in values.items():
        if not 0 < value <= most or value == inf:
            upper = "" if most == inf else f" and at most {most:g}"
            raise ValueError(f"{name} must be above 0{upper}, not {value}")


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def track(count: int, what: str) -> Iterator[int]:
    """Count from 0 to `count` - 1 and call the listener, if there is one, after each turn."""
    listener = _listener.get()
    for turn in range(count):
        yield turn
        if listener is not None:
            listener(what, turn + 1, count)


def heard() -> Listener | None:
    """Who is called with progress in this block; None if nobody listens."""
    return _listener.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this block, `listener` is called with all progress."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
