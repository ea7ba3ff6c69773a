"""Limits on what a client may ask: how much at once, and how much a second."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from laconic.core.values import Settings

_CLIENTS = 10_000
"""How many clients are remembered; whoever was silent longest is forgotten first."""


class Limits(Settings, frozen=True):
    """What one client may ask.

    Attributes:
        bytes: of a request's body.
        ids: in one request.
        requests: a second, on average; ten seconds' worth at once.
        ids_a_second: on average; ten seconds' worth at once.
    """

    bytes: int = 1 << 20
    ids: int = 1000
    requests: float = 500.0
    ids_a_second: float = 20_000.0

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if min(self.bytes, self.ids) < 1 or min(self.requests, self.ids_a_second) <= 0:
            raise ValueError(f"limits must be above 0, not {self}")


class Allowance:
    """How much each client may still ask: refilled as time goes by, up to ten seconds' worth."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._most, self._clock = rate, max(1.0, 10 * rate), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, client: str, amount: float = 1.0) -> float:
        """Take so much; 0 if there was enough, else the seconds to wait until there will be."""
        now = self._clock()
        left, then = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        # Once full, anything may be asked, even more than the most: or it could never be.
        enough = left >= min(amount, self._most)
        self._left[client] = (left - amount if enough else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if enough else (min(amount, self._most) - left) / self._rate
