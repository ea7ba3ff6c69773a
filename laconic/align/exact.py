"""Match rows by comparing ids in the clear: for simulations, and where parties may show each other their ids."""

from typing import Any

import numpy as np

from laconic.core.errors import DataError
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.run import Align
from laconic.core.script import step
from laconic.core.values import Array
from laconic.data.splits import split


class ExactMatch(Align, frozen=True):
    """The hub sees all ids, keeps those that every party has, and tells each party which rows to keep.

    Attributes:
        test: share of the shared rows held out for the final score.
        valid: share of the rest that methods may use to stop early.
    """

    test: float = 0.2
    valid: float = 0.1

    def match(self, hub: Party, peers: Peers, /) -> dict[str, int]:
        """Keep the shared rows, in the order of their ids as text."""
        ids = ({hub.name: _keys(hub)} if hub.data.rows else {}) | peers.ask(self.show_ids)
        shared = sorted(set.intersection(*(set(keys) for keys in ids.values())))
        if not shared:
            seen = "; ".join(f"{name} has ids like {keys[0]!r}" for name, keys in ids.items())
            raise DataError(f"no id is at every party: {seen}. Check that the id columns mean the same and look alike")
        seed = int(hub.rng.integers(2**31))
        orders = {name: _find(shared, keys) for name, keys in ids.items()}
        questions = {name: {"order": orders[name], "seed": seed} for name in peers.names}
        peers.ask_each(self.keep_rows, questions)
        if hub.data.rows:
            self.keep_rows(hub, orders[hub.name], seed)
        return {"shared": len(shared)} | {f"rows of {name}": len(keys) for name, keys in ids.items()}

    @step(takes=None, gives="the ids of all its rows, in the clear")
    def show_ids(self, party: Party) -> list[str]:
        """All ids, as text."""
        return _keys(party)

    @step(takes="which of its rows every other party has too", gives=None)
    def keep_rows(self, party: Party, order: Array, seed: int) -> None:
        """Keep the rows named, in this order, cut the same way at every party."""
        cuts = split(len(order), np.random.default_rng(seed), test=self.test, valid=self.valid)
        party.data = party.data.take(order, cuts)


def _keys(party: Party) -> list[str]:
    ids: Any = party.data.ids
    if ids is None:
        raise DataError(f"{party.name} has no id column, so its rows cannot be matched")
    return [str(one) for one in ids]


def _find(shared: list[str], keys: list[str]) -> Array:
    place = {key: at for at, key in enumerate(keys)}
    return np.array([place[key] for key in shared], dtype=np.int64)
