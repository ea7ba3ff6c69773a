"""What a trained method asks when it predicts, found by letting it predict."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from laconic.core.errors import PartyAbsent
from laconic.core.ledger import Ledger
from laconic.core.log import Crossing, WireLog
from laconic.core.party import Party
from laconic.core.peers import Carrier, Peers
from laconic.core.script import Script, steps_of
from laconic.core.values import Array
from laconic.core.wire import Blob, Question, decode, decode_question, encode
from laconic.model.asking import FindRows, cut_name
from laconic.model.card import Asked
from laconic.model.store import as_kept
from laconic.runtime.faults import Faults
from laconic.runtime.inprocess import InProcess
from laconic.simulation import on_threads
from laconic.trained import Trained

_FEW, _MANY = "probe 1", "probe 2"  # of one length, or the names would count as bytes
_ROWS = 64


def probe(trained: Trained) -> tuple[tuple[Asked, ...], tuple[str, ...] | None]:
    """What each party is asked for a prediction, and the steps whose answers can be kept.

    The second is None if the method asks anything but its rows' own answers: then it has to ask anew each time.
    """
    rows = min(_ROWS, *(len(_shared(party)) for party in (trained.hub, *trained.others) if party.data.rows))
    few, many = max(1, rows // 2), rows
    one, _, _ = _predict(trained, _FEW, few)
    other, kept, _ = _predict(trained, _MANY, many)
    asked = []
    for first, second in zip(one, other, strict=True):
        up, down = ((getattr(second, way) - getattr(first, way)) / max(1, many - few) for way in ("up", "down"))
        asked.append(
            Asked(
                party=second.party,
                step=second.step,
                gives=second.gives,
                takes=second.takes,
                bytes_up=up,
                bytes_down=down,
                bytes_fixed=(second.up or 0) + second.down - many * (up + down),
                needed=_predict(trained, _MANY, many, absent=second.party)[2],
            )
        )
    if asked and trained.method.kind == "vertical":
        asked = [*_finding(trained), *asked]
    steps = tuple(dict.fromkeys(crossing.step for crossing in other)) if kept else None
    return tuple(asked), steps


def _finding(trained: Trained) -> list[Asked]:
    """What it takes to say whom a prediction is about."""
    words = steps_of(FindRows)["find_rows"]
    found = []
    for party in trained.others:
        keys = party.data.keys[_shared(party)].tolist()
        none, all_of_them = _asking_bytes([]), _asking_bytes(keys)
        row = (all_of_them - none) / len(keys)
        found.append(
            Asked(
                party=party.name,
                step="find_rows",
                gives=words.gives,
                takes=words.takes,
                bytes_up=1.0,
                bytes_down=row,
                bytes_fixed=none + len(encode(np.empty(0, dtype=bool))),
                needed=False,
            )
        )
    return found


def _asking_bytes(ids: list[str]) -> int:
    return len(encode(Question("find_rows", "align", 1, {"ids": ids, "rows": cut_name(ids)})))


def _predict(trained: Trained, cut: str, count: int, absent: str | None = None) -> tuple[list[Crossing], bool, bool]:
    """Let the method predict some rows; what crossed, whether all of it can be kept, and whether it failed."""
    hub, *others = (_copy(party, cut, count) for party in (trained.hub, *trained.others))
    faults = Faults(absent=(absent,)) if absent else Faults()
    log = WireLog()
    log.phase = "final"
    with on_threads(1), InProcess(faults=faults).open(tuple(others)) as within:
        carrier = _Listening(within, count)
        hub.turn("final", 0)
        try:
            trained.method.predict(hub, Peers(trained.method, hub, carrier, log, carrier.names), cut)
        except PartyAbsent:
            return log.crossings, carrier.row_by_row, True
    return log.crossings, carrier.row_by_row, False


def _copy(party: Party, cut: str, count: int) -> Party:
    table = party.data.with_cut(cut, _shared(party)[:count]) if party.data.rows else party.data
    # Deep: what a party is asked while it is tried out must leave no trace.
    return Party(party.name, table, party.seed, deepcopy(party.memory), Ledger(party.ledger.entries))


def _shared(party: Party) -> Array:
    """Rows to try it out on: in a vertical federation, the same people at every party."""
    cuts = party.data.cuts
    # A server without public rows has only rows to score on.
    found = [cuts[name] for name in ("train", "public") if name in cuts]
    return np.concatenate(found or [cuts["test"]])


class _Listening:
    """A carrier that notes whether every question names just a cut, and every answer has a row for each of its rows."""

    def __init__(self, within: Carrier, count: int) -> None:
        self._within, self._count = within, count
        self.row_by_row = True

    @property
    def names(self) -> tuple[str, ...]:
        return self._within.names

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        for name, blob in self._within.carry(script, blobs, deadline):
            asked: dict[str, Any] = decode_question(blobs[name]).payload
            fits = asked.keys() == {"rows"} and as_kept(decode(blob), asked["rows"], self._count) is not None
            self.row_by_row = self.row_by_row and fits
            yield name, blob

    def ledgers(self) -> dict[str, Ledger]:
        return self._within.ledgers()
