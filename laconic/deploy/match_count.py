"""How often others have begun to match rows with a party, and how many points they brought: each may be a guess."""

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from laconic.core.wire import decode, encode
from laconic.deploy.store import OWN, Store
from laconic.errors import Refused

_KIND = "match"
_DAY = 86_400.0


class _Match(msgspec.Struct, frozen=True):
    """One run: when its matching began, and how many points were brought since."""

    began: float
    points: int = 0


class MatchLimit(NamedTuple):
    """The most of each that a party puts up with; none for no limit."""

    party: str
    points: int
    per_day: int | None
    in_all: int | None

    def refuse(self, rule: str, most: int | None, begun: int) -> None:
        """Raise an error if one matching more would be too many by a rule."""
        if most is not None and begun >= most:
            raise Refused(
                f"{self.party} does not allow this: private matching was begun {begun:,} times before, and [allow] in "
                f"its party.toml says {rule} = {most:,}"
            )


class MatchCount:
    """Counts the private matchings of all runs, written before anything is done for them; only ever added to."""

    def __init__(self, path: Path) -> None:
        self._store = Store(path, grows=True, adopt=lambda _: [])

    def begin(self, run: str, limit: MatchLimit) -> None:
        """Count a matching that begins, unless this run has had one, or it would be one too many."""
        now = time.time()
        with self._store.writing():
            found = self._found()
            today = sum(one.began > now - _DAY for one in found.values())
            if run in found:
                raise Refused(f"{limit.party} has begun to match rows in this run already; begin a new run")
            limit.refuse("matches_per_day", limit.per_day, today)
            limit.refuse("max_matches", limit.in_all, len(found))
            self._store.put(_KIND, run, encode(msgspec.to_builtins(_Match(now))))

    def bring(self, run: str, points: int, limit: MatchLimit) -> None:
        """Count points that are brought in a run, unless they are too many with those before."""
        with self._store.writing():
            before = self._found().get(run)
            if before is None:
                raise Refused(f"no match has begun at {limit.party}; ask it to begin first")
            total = before.points + points
            if total > limit.points:
                raise Refused(
                    f"{limit.party} does not allow this: with it {total:,} points would have been compared in this "
                    f"run, and max_points in [allow] of its party.toml permits {limit.points:,}"
                )
            self._store.put(_KIND, run, encode(msgspec.to_builtins(_Match(before.began, total))))

    def _found(self) -> dict[str, _Match]:
        return {
            record.key: msgspec.convert(decode(self._store.content(record), OWN), _Match)
            for record in self._store.records(_KIND)
        }
