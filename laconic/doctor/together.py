"""What several parties see together: how many rows they share, and that they hold them in the same order."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from laconic.align.exact import ExactMatch
from laconic.core.align import fingerprint
from laconic.core.log import WireLog
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.plan.own_federation import from_party_files
from laconic.runtime.inprocess import InProcess


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of several parties, matched.

    Attributes:
        shared: how many rows all have.
        rows: how many each has. some: how many of a party's rows some other has, but not every one.
        fingerprints: of the alignment, by party; equal if all hold the same rows in the same order.
    """

    shared: int
    rows: Mapping[str, int]
    some: Mapping[str, int]
    fingerprints: Mapping[str, str]


def match_parties(paths: Sequence[Path | str]) -> Together:
    """Match the rows of parties whose files are all here, in the clear and within this process.

    Raises:
        PlanError: the party files do not fit together.
        DataError: rows cannot be read, or nobody is at every party.
    """
    federation = from_party_files(paths)
    parties = {name: Party(name, table, 0) for name, table in federation.tables.items()}
    hub = parties[federation.hub]
    others = tuple(party for party in parties.values() if party is not hub)
    align, log = ExactMatch(), WireLog()
    log.phase = "align"
    with InProcess().open(others) as carrier:
        hub.turn("align", 0)  # As a run begins, so that its fingerprint is the same.
        peers = Peers(align, hub, carrier, log, carrier.names)
        found: dict[str, Any] = align.match(hub, peers)
        align.confirm(hub, peers)
    prints = {name: fingerprint(party.data) for name, party in parties.items()}
    return Together(shared=found["shared"], rows=found["rows"], some=found["some"], fingerprints=prints)
