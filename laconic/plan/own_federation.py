"""A federation from one `party.toml` a party, for trials on one machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from laconic.core.errors import DataError, PlanError
from laconic.data.federation import Federation
from laconic.data.own_data import IdRules
from laconic.data.own_table import OwnTable, read_own
from laconic.plan.party_file import PartyFile, read_party


def from_party_files(paths: Sequence[Path | str], *, name: str = "parties") -> Federation:
    """Read each party's rows as its own file describes them; the party with a label is the hub.

    Args:
        paths: one party file a party.
        name: of the data, for reports.

    Raises:
        PlanError: a party file cannot be used, or two do not fit together.
        DataError: a party's rows cannot be used.
    """
    parties = [read_party(path) for path in paths]
    check_together(parties)
    read = {party.name: read_own(party.name, party.own_data) for party in parties if party.data is not None}
    hub = next(party.name for party in parties if party.data is not None and party.data.label is not None)
    tables = {party: own.table for party, own in read.items()}
    return Federation(name=name, tables=tables, hub=hub, aligned=False, facts=_facts(name, read))


def check_together(parties: Sequence[PartyFile]) -> None:
    """Refuse party files that cannot be of one federation: names, labels, and how ids are written.

    Raises:
        PlanError: says which two do not fit and what to change.
    """
    seen: dict[str, str] = {}
    for party in parties:
        if party.name in seen:
            raise PlanError(f"{seen[party.name]} and {party.path} are both called {party.name!r}; rename one party")
        seen[party.name] = party.path
    holders = [party for party in parties if party.data is not None and party.data.label is not None]
    if len(holders) != 1:
        found = " and ".join(f"{party.name} ({party.path})" for party in holders) or "none"
        raise PlanError(
            f"exactly one party must name a data.label; {found} does; correct the party files. Parties with the same "
            "columns and labels of their own need none: laconic run FedAvg --files a.csv b.csv --label COLUMN"
        )
    first, *others = [party for party in parties if party.data is not None]
    for other in others:
        if len(other.own_data.keys) != len(first.own_data.keys):
            raise PlanError(
                f"the key of {first.name} has {len(first.own_data.keys)} columns ({', '.join(first.own_data.keys)}), "
                f"that of {other.name} has {len(other.own_data.keys)} ({', '.join(other.own_data.keys)}); "
                "say data.key alike, in the same order"
            )
        if _comparable(other.own_data.ids) != _comparable(first.own_data.ids):
            raise DataError(
                f"{first.name} and {other.name} write ids by different rules ({_comparable(first.own_data.ids)} and "
                f"{_comparable(other.own_data.ids)}); say data.ids alike at every party, or nobody would match"
            )


def _comparable(rules: IdRules) -> str:
    """The rules that must be the same everywhere; how dates are read is each party's own affair."""
    return f"case {rules.case}, spaces {rules.spaces}, zeros {rules.zeros}"


def _facts(name: str, read: Mapping[str, OwnTable]) -> dict[str, object]:
    return {
        "source": name,
        "rows": {party: own.rows for party, own in read.items()},
        "left_out": {party: own.left_out for party, own in read.items() if own.left_out},
        "columns": {party: len(own.table.columns) for party, own in read.items()},
        "kinds": {party: {c.name: c.kind for c in own.table.columns} for party, own in read.items()},
    }
