"""Rows matched before anything begins: every party was given the same list of ids, and none has to be shown.

The list may come from an earlier private matching, or be one that all have anyway, such as the customers of a contract.
With it a whole run can be one exchange, as nothing is left to ask before the method's own question.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from laconic.align.alignment import AT_RANDOM, Align, HeldOut, choose_held_out, keep_shared, keys_of, label_holder_says
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.data.federation import HELD_OUT
from laconic.errors import DataError
from laconic.values import Array, Rng

_MEMORY = "agreed"


class AgreedIds(Align, frozen=True):
    """Each party keeps the rows of a list of ids that all hold; only a count and a digest of the list cross.

    Attributes:
        test: share of the agreed rows held out for the final score.
        valid: share of the rest that methods may use to stop early.
        held_out: as for `ExactMatch`. By a column of the label holder, parties cannot keep their rows before they are
            asked, and who does not answer is not left out.
    """

    test: float = HELD_OUT
    valid: float = 0.1
    held_out: HeldOut = AT_RANDOM

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Have everybody keep the rows agreed upon; who does not answer has no say in which they are."""
        seed = int(hub.rng.integers(2**31))
        if self.held_out is not AT_RANDOM:
            return self._match_parted(hub, peers, seed)
        own = {hub.name: self.keep_agreed(hub, seed)} if hub.data.rows else {}
        counts: dict[str, int] = own | peers.tolerant.ask(self.keep_agreed, seed=seed)
        return _counted(counts)

    def _match_parted(self, hub: Party, peers: Peers, seed: int) -> dict[str, Any]:
        """The same, with the rows held out that the label holder names."""
        before = hub.data.rows
        if hub.data.rows:
            held = choose_held_out(hub, _agreed(hub), seed, test=self.test, valid=self.valid)
            own = {hub.name: self.keep_parted(hub, held)}
        else:
            held, own = label_holder_says(peers.ask(self.find_held_out, seed=seed)), {}
        found = _counted(own | peers.ask(self.keep_parted, held=held))
        barred = before - hub.data.rows  # by a column of the hub; see `barred_rows`
        return found | ({"barred": {hub.name: barred}} if barred else {})

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """One question: how rows are cut comes from the run's seed, unless the label holder's column decides."""
        if self.held_out is not AT_RANDOM:
            first = (Ask.known(self.find_held_out, seed=int(rng.integers(2**31))),) if server else ()
            return Opening((*first, Ask.later(self.keep_parted)), then="ends")
        return Opening((Ask.known(self.keep_agreed, seed=int(rng.integers(2**31))),), then="ends")

    @step(takes=None, gives="how many ids were agreed upon")
    def keep_agreed(self, party: Party, seed: int) -> int:
        """Put the agreed rows first, in the order of their ids as text, cut the same way at every party."""
        shared = _agreed(party)
        keep_shared(party, shared, seed, test=self.test, valid=self.valid)
        return len(shared)

    @step(
        takes=None,
        gives="from the label holder, which of the agreed rows are held out, by one of its columns: the last in time, "
        "or whole groups; two bits per row",
    )
    def find_held_out(self, party: Party, seed: int) -> Array | None:
        """What the label holder's column says; None from all others. Asked by a server, which has no rows."""
        if party.data.y is None:
            return None
        return choose_held_out(party, _agreed(party), seed, test=self.test, valid=self.valid)

    @step(
        takes="which of the agreed rows are held out by a column of the label holder: which are the last in time, or "
        "stay together",
        gives="how many ids were agreed upon",
    )
    def keep_parted(self, party: Party, held: Array) -> int:
        """Put the agreed rows first, with the rows held out that the label holder names."""
        shared = _agreed(party)
        keep_shared(party, shared, 0, test=self.test, valid=self.valid, held=held)
        return len(shared)


def _agreed(party: Party) -> Array:
    """The positions of the rows agreed upon."""
    places = party.memory.get(_MEMORY)
    return np.arange(party.data.rows) if places is None else np.asarray(places)


def _counted(counts: dict[str, int]) -> dict[str, Any]:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise DataError(f"the parties did not agree on the same ids: {shown}; give everyone the same list of ids")
    return {"shared": next(iter(counts.values()), 0), "rows": counts}


def agree(party: Party, ids: Iterable[str]) -> None:
    """Note at a party which ids were agreed upon; without this, all its rows are."""
    place = {key: at for at, key in enumerate(keys_of(party).tolist())}
    wanted = list(dict.fromkeys(ids))
    missing = [one for one in wanted if one not in place]
    if missing:
        raise DataError(
            f"party {party.name!r} has no row for {len(missing):,} of the {len(wanted):,} ids agreed upon, such as "
            f"{missing[0]!r}; leave them out of everybody's list, or add the rows"
        )
    party.memory[_MEMORY] = np.array([place[one] for one in wanted], dtype=np.int64)
