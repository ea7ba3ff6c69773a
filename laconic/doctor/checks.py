"""All that `laconic doctor` looks at, in order."""

from collections.abc import Iterator

from laconic.core.errors import LaconicError
from laconic.doctor.columns import check_columns
from laconic.doctor.diagnosis import Check, Diagnosis
from laconic.doctor.ids import check_ids
from laconic.doctor.machine import check_machine
from laconic.plan.party_file import PartyFile

CHECKS: tuple[Check, ...] = (check_machine, check_ids, check_columns)
"""Each looks at one party file and what it names; add a check here, and the command makes it."""


def _check_no_data(party: PartyFile) -> Iterator[Diagnosis]:
    words = f"{party.name} has no [data]: fit for plans on public data sets only, of which it takes its share"
    yield Diagnosis(level="note", about="data", words=words, remedy="say source and key in [data] for rows of its own")


def examine(party: PartyFile) -> Iterator[Diagnosis]:
    """Everything that the checks find at one party; a check that cannot go on says why, and the next goes on."""
    for check in CHECKS if party.data is not None or not party.path else (check_machine, _check_no_data):
        try:
            yield from check(party)
        except LaconicError as problem:
            yield Diagnosis(level="wrong", about=check.__name__.removeprefix("check_"), words=str(problem))
