"""Progress on long work: a loop says where it is, whoever listens shows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from laconic.core.values import Listener

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def track(count: int, what: str) -> Iterator[int]:
    """Count from 0 to `count` - 1 and tell the listener, if there is one, after each turn."""
    listener = _listener.get()
    for turn in range(count):
        yield turn
        if listener is not None:
            listener(what, turn + 1, count)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this block, `listener` is told of all progress."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
