"""Asking parties about people by their ids, after training."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from laconic.core.errors import StepError
from laconic.core.log import WireLog
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.script import Script, step
from laconic.core.values import Array
from laconic.model.store import Answers, as_kept

_ASKED = "asked "
_AT_ONCE = 16
"""How many questions about different people a party keeps in mind: several may be under way."""

_MOST = 20_000
"""Ids in one question; the wire takes no more than a hundred thousand values."""


class FindRows(Script, frozen=True):
    """Tells parties which people the next question is about."""

    @step(takes="the ids of the people to be predicted, in the clear", gives="which of these people it knows")
    def find_rows(self, party: Party, ids: list[str], rows: str) -> Array:
        """Put the rows of these people, as far as there are any, into the cut `rows`, in this order."""
        known = np.array([one in party.data.places for one in ids], dtype=bool)
        places = [party.data.places[one] for one in ids if one in party.data.places]
        asked = [name for name in party.data.cuts if name.startswith(_ASKED)]
        old = asked[: max(0, len(asked) - _AT_ONCE)]
        party.data = party.data.with_cut(rows, np.array(places, dtype=np.int64), dropping=old)
        return known


def cut_name(ids: Sequence[str]) -> str:
    """A name for the rows of these people; other people, another name: some noise is drawn once for each name."""
    found = blake2b(digest_size=8)
    for one in ids:
        found.update(one.encode() + b"\0")
    return f"{_ASKED}{found.hexdigest()}"


def collect(
    method: Method,
    steps: Sequence[str],
    hub: Party,
    carrier: Carrier,
    ids: Sequence[str],
    *,
    log: WireLog | None = None,
    rows: str | None = None,
    deadline: float | None = None,
) -> dict[str, Answers]:
    """What parties answer about these people, by party; whoever is late or lost, or knows none of them, is left out.

    Args:
        steps: the questions that the method asks when it predicts.
        log: where to write what crossed; None to write it nowhere.
        rows: what to call the cut; None for a name of these people's own.
        deadline: seconds for each question; None for as long as the runtime waits.
    """
    log = WireLog() if log is None else log
    found: dict[str, Answers] = {}
    for start in range(0, len(ids) if steps else 0, _MOST):
        some = list(ids[start : start + _MOST])
        peers = Peers(method, hub, carrier, log, carrier.names, tolerant=True, deadline=deadline)
        for name, answers in _ask(method, steps, peers, some, rows or cut_name(some)).items():
            found[name] = found[name].with_more(answers) if name in found else answers
    return {name: found[name] for name in carrier.names if name in found}


def _ask(method: Method, steps: Sequence[str], peers: Peers, ids: list[str], rows: str) -> dict[str, Answers]:
    known = find(peers, ids, rows)
    asked = peers.only(tuple(name for name, mask in known.items() if mask.any()))
    found: dict[str, dict[str, Any]] = {name: {} for name in asked.names}
    with peers.log.during("final"):
        for one in steps:
            for name, answer in asked.ask(getattr(method, one), rows=rows).items():
                kept = as_kept(answer, rows, int(known[name].sum()))
                if kept is None:
                    raise StepError(f"{name} did not answer `{one}` with one row for each person it was asked about")
                found[name][one] = kept
    people = {name: tuple(np.array(ids)[mask].tolist()) for name, mask in known.items()}
    return {name: Answers(people[name], answers) for name, answers in found.items() if len(answers) == len(steps)}


def find(peers: Peers, ids: list[str], rows: str) -> dict[str, Array]:
    """Tell parties which people are meant; which of them each party knows."""
    finding = FindRows()
    with peers.log.during("align"):
        found: dict[str, Array] = peers.speaking(finding).ask(finding.find_rows, ids=ids, rows=rows)
    return found
