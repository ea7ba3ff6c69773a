"""Match rows by comparing ids in the clear: for simulations, and where parties may show each other their ids."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from laconic.align.keeping import keep_shared, keys_of
from laconic.core.align import Align
from laconic.core.errors import DataError
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import step
from laconic.core.values import Array

_BETWEEN = "\0"


class ExactMatch(Align, frozen=True):
    """The hub sees all ids, and tells each party which of its rows all others have, and which some have.

    Attributes:
        test: share of the shared rows held out for the final score.
        valid: share of the rest that methods may use to stop early.
    """

    test: float = 0.2
    valid: float = 0.1

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Put the shared rows first everywhere, in the order of their ids as text."""
        shown: dict[str, str] = {hub.name: self.show_ids(hub)} if hub.data.rows else {}
        ids = {name: text.split(_BETWEEN) for name, text in (shown | peers.ask(self.show_ids)).items()}
        holders = Counter(key for keys in ids.values() for key in keys)
        shared = sum(count == len(ids) for count in holders.values())
        if not shared:
            seen = "; ".join(f"{name} has ids like {keys[0]!r}" for name, keys in ids.items())
            raise DataError(f"no id is at every party: {seen}. {_remedy(list(ids.values()))}")
        seed = int(hub.rng.integers(2**31))
        questions = {name: _places(keys, holders, len(ids)) | {"seed": seed} for name, keys in ids.items()}
        peers.ask_each(self.keep_rows, {name: questions[name] for name in peers.names})
        if hub.data.rows:
            self.keep_rows(hub, **questions[hub.name])
        return {
            "shared": shared,
            "rows": {name: len(keys) for name, keys in ids.items()},
            "some": {name: len(question["some"]) for name, question in questions.items()},
        }

    @step(takes=None, gives="the ids of all its rows, in the clear")
    def show_ids(self, party: Party) -> str:
        """All ids in one text: a list would be a value for each, of which the wire takes only so many."""
        return _BETWEEN.join(keys_of(party).tolist())

    @step(takes="which of its rows every other party has too, and which some other has", gives=None)
    def keep_rows(self, party: Party, shared: Array, some: Array, seed: int) -> None:
        """Put the rows named first, cut the same way at every party."""
        keep_shared(party, shared, seed, test=self.test, valid=self.valid, some=some)


_RULES: dict[str, tuple[str, Callable[[str], str]]] = {
    "case = 'lower'": ("case", str.lower),
    "spaces = 'drop'": ("white space", lambda key: "".join(key.split())),
    "zeros = 'drop'": ("leading zeros", lambda key: key.lstrip("0") if key.isdecimal() else key),
}
"""Rules for ids that make more of them alike, as a party file says them, and what they leave out."""


def _remedy(ids: list[list[str]]) -> str:
    """What would make ids match: the one rule under which some do, if there is one."""
    for rule, (what, written) in _RULES.items():
        if set.intersection(*({written(key) for key in keys} for keys in ids)):
            return (
                f"They differ in {what} only: write them alike, or say data.ids.{rule} in the party file of every "
                "party (docs/data.md)"
            )
    return "Check that the id columns mean the same people and are written alike"


def _places(keys: list[str], holders: Counter[str], parties: int) -> dict[str, Any]:
    counts = np.array([holders[key] for key in keys], dtype=np.int64)
    return {"shared": np.flatnonzero(counts == parties), "some": np.flatnonzero((counts > 1) & (counts < parties))}
