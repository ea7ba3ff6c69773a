"""All that `laconic doctor` looks at, in order."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from laconic.align.exact import ExactMatch
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.deploy.party_config import PartyFile, from_party_files
from laconic.deploy.transports.inprocess import open_calls
from laconic.doctor.account import check_account
from laconic.doctor.columns import Check, Diagnosis, check_columns
from laconic.doctor.ids import check_ids
from laconic.doctor.machine import check_machine
from laconic.errors import LaconicError
from laconic.tables.table import fingerprint

CHECKS: tuple[Check, ...] = (check_machine, check_account, check_ids, check_columns)
"""Each looks at one party file and what it names; add a check here, and the command makes it."""


def _check_no_data(party: PartyFile) -> Iterator[Diagnosis]:
    words = f"{party.name} has no [data]: fit for plans on public data sets only, of which it takes its share"
    yield Diagnosis("note", "data", words, "say source and key in [data] for rows of its own")


def examine(party: PartyFile) -> Iterator[Diagnosis]:
    """Everything that the checks find at one party; a check that cannot go on says why, and the next goes on."""
    for check in CHECKS if party.data is not None or not party.path else (check_machine, check_account, _check_no_data):
        try:
            yield from check(party)
        except LaconicError as problem:
            yield Diagnosis("wrong", check.__name__.removeprefix("check_"), str(problem))


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
    with open_calls(others) as carrier:
        hub.turn("align", 0)  # As a run begins, so that its fingerprint is the same.
        peers = Peers(align, hub, carrier, log, carrier.names)
        found: dict[str, Any] = align.match(hub, peers)
        align.confirm(hub, peers)
    prints = {name: fingerprint(party.data) for name, party in parties.items()}
    return Together(shared=found["shared"], rows=found["rows"], some=found["some"], fingerprints=prints)
