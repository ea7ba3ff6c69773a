"""The files that say who takes part: `party.toml` is a party's own, `parties.toml` the same for everyone.

`party.toml` is what one party says of itself: its name, its data, and what it allows to leave; see docs/data.md.
`parties.toml` says who takes part and where the hub is reached, and holds no secret.
"""

import os
import re
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from laconic.data.federation import Federation
from laconic.data.partition.rows import PartBy
from laconic.data.readers.horizontal_frames import SERVER
from laconic.data.readers.source_rows import KnownColumns, read_public_file, read_rows_apart, read_schema, server_table
from laconic.data.readers.source_table import OwnTable, read_own
from laconic.data.schema import IdRules, OwnData
from laconic.deploy.transports.envelopes.keys import KeyRing, open_ring
from laconic.errors import DataError, PlanError, Refused
from laconic.learn.device import Device
from laconic.plan.keys import to_settings
from laconic.plan.plan import DataPlan, Plan
from laconic.plan.text import plan_fingerprint, read_plan
from laconic.values import Settings

S = TypeVar("S", bound=Settings)
SQLITE = "sqlite:///"
UNKNOWN = "unknown"
"""Who is at several parties, where each reads its own rows: such people may suffer the losses of all."""


class PartyFile(Settings, frozen=True, tag=False):
    """One party's own settings, which never leave it.

    Attributes:
        name: the party's name in the federation.
        data: where its rows are and what they mean; none for a server, which has no rows.
        seed: where its randomness comes from in runs on its own data: a seed of its own per run, or the plan's, which
            everybody knows; with that, others can draw again what it drew in secret. For trials.
        device: what torch learns on at this machine, in runs over several machines; as in a plan.
        runs_per_day: the most runs that begin here within a day; each keeps rows on the disk until its folder is gone.
        account: the folder in which it counts what it has spent, in all runs; none for one beside its data. Keep it.
        allow: what it lets leave, as written; `laconic.deploy.policy` reads it.
        serve: how much clients of a served model may ask, as written; `laconic.inference.server.party` reads it.
        path: the file it came from; set by `read_party`.
    """

    name: str
    data: OwnData | None = None
    seed: Literal["own", "plan"] = "own"
    device: Device = "auto"
    runs_per_day: int = 100
    account: str = ""
    allow: dict[str, Any] = msgspec.field(default_factory=dict)
    serve: dict[str, Any] = msgspec.field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        """Refuse a party without a name, and names that would make files and reports unreadable."""
        plain = self.name.replace("_", "").replace("-", "").replace(".", "").replace(" ", "")
        if not plain.isalnum() or self.name != self.name.strip():
            raise ValueError(f"name must be letters, digits, spaces, dots, - or _, such as bank, not {self.name!r}")
        if self.runs_per_day < 1:
            raise ValueError(f"runs_per_day must be 1 or more, not {self.runs_per_day}")

    @property
    def own_data(self) -> OwnData:
        """The data, of a party that must have some."""
        if self.data is None:
            raise PlanError(f"{self.path or self.name}: party {self.name!r} has no [data]; say source and key there")
        return self.data


def read_party(path: Path | str) -> PartyFile:
    """Read a `party.toml`; a relative source is looked for beside it."""
    path = Path(path)
    try:
        party = read_toml(path, PartyFile, "party file", "docs/data.md")
    except PlanError as problem:
        if path.suffix == ".toml" or not isinstance(problem.__cause__, UnicodeDecodeError | tomllib.TOMLDecodeError):
            raise
        raise PlanError(
            f"{path} is no party file; write one beside it, such as {path.name.split('.')[0]}.toml, that says "
            f'name, data.source = "{path.name}" and data.key, as docs/data.md shows'
        ) from problem
    if party.path:
        raise PlanError(f"{path}: there is no setting path (found: {party.path!r}); name the data in data.source")
    data = party.data
    if data is not None:
        erased = None if data.erased is None else _beside(path, data.erased)
        data = msgspec.structs.replace(data, source=_beside(path, data.source), erased=erased)
    account = party.account and os.fspath(path.absolute().parent / Path(party.account).expanduser())
    return msgspec.structs.replace(party, data=data, account=account, path=str(path))


def read_toml(path: Path, kind: type[S], what: str, page: str) -> S:
    """Settings of a kind from a TOML file; an error names the file, the key, and the page that shows what goes in."""
    try:
        return to_settings(tomllib.loads(path.read_text(encoding="utf-8")), kind)
    except FileNotFoundError as problem:
        raise PlanError(f"there is no {what} {path}; write one, as {page} shows") from problem
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise PlanError(f"the {what} {path} cannot be read as TOML: {problem}") from problem
    except PlanError as problem:
        raise PlanError(f"{path}: {problem}") from problem


def _beside(path: Path, source: str) -> str:
    """A file's path, or that of an SQLite database, taken from the folder of the party file; other URLs unchanged."""
    head, start, database = source.partition(SQLITE)
    if start and not head and database not in ("", ":memory:"):
        return SQLITE + os.fspath(path.absolute().parent / database)
    return source if "://" in source else os.fspath(path.parent / Path(source).expanduser())


_BITS = 128


def seed_of(plan: Plan, file: PartyFile) -> int:
    """The seed that a party begins a run with, a new one each time it is asked for; the run's folder keeps it.

    Whoever knows the seed can draw a party's first weights again, and undo what they hide. Rows of a public data set,
    which everybody deals out from the plan, have nothing to hide: there the plan's seed gives what a simulation gives.
    """
    return plan.seed if plan.data.name is not None or file.seed == "plan" else secrets.randbits(_BITS)


def from_party_files(paths: Sequence[Path | str], *, name: str = "parties", by: PartBy | None = None) -> Federation:
    """Read each party's rows as its own file describes them; the party with a label is the hub.

    Args:
        by: the label holder's column by which rows are parted; None for at random.
    """
    parties = [read_party(path) for path in paths]
    check_together(parties)
    read = {
        party.name: read_own(party.name, party.own_data, by=by if party.own_data.label is not None else None)
        for party in parties
        if party.data is not None
    }
    hub = next(party.name for party in parties if party.data is not None and party.data.label is not None)
    tables = {party: own.table for party, own in read.items()}
    readings = {party: own.reading for party, own in read.items() if own.reading is not None}
    return Federation(name=name, tables=tables, hub=hub, aligned=False, facts=_facts(name, read), readings=readings)


def rows_from_party_files(
    paths: Sequence[Path | str], data: DataPlan, *, seed: int, name: str = "parties"
) -> Federation:
    """Read each party's rows as its own file describes them: other people, with labels of their own.

    The hub is a server without rows, or with the public ones; every party holds out rows of its own to score on.

    Args:
        data: the plan's: public rows or a schema, kinds that hold at all parties, and what is held out.
    """
    parties = [read_party(path) for path in paths]
    refuse_same_names(parties)
    here = Path(paths[0]).parent
    tables, read = {SERVER: server_table(SERVER, known_columns(data, here))}, {}
    for party in parties:
        if party.data is not None:
            read[party.name] = read_apart(party, data, seed)
    refuse_homeless_names(data, list(read))
    if not read:
        raise PlanError(f"none of {', '.join(map(str, paths))} has [data]; say source and label there")
    tables |= {party: own.table for party, own in read.items()}
    readings = {party: own.reading for party, own in read.items() if own.reading is not None}
    facts = _facts(name, read) | people_of(data)
    return Federation(
        name=name, tables=tables, hub=SERVER, aligned=False, kind="horizontal", facts=facts, id="", readings=readings
    )


def people_of(data: DataPlan) -> dict[str, object]:
    """For the record: whether it is known who is at several parties, and who gets the model."""
    found: dict[str, object] = {"people": UNKNOWN if data.people is None else "one party each, as the plan says"}
    return found if data.home is None else found | {"home": list(data.home)}


def refuse_homeless_names(data: DataPlan, names: Sequence[str]) -> None:
    """Refuse that somebody gets the model who is no party."""
    strangers = [name for name in data.home or () if name not in names]
    if strangers:
        raise PlanError(f"data.home names {strangers[0]!r}, who is no party of the plan; they are {', '.join(names)}")


def read_apart(party: PartyFile, data: DataPlan, seed: int) -> OwnTable:
    """The rows of one party with other people, as its file and the plan say."""
    known = known_columns(data, Path(party.path).parent)
    return read_rows_apart(
        party.name, party.own_data, kinds=data.kinds, known=known, test=data.test, seed=seed, by=data.by
    )


def known_columns(data: DataPlan, here: Path) -> KnownColumns | None:
    """What the plan's public rows or schema say of columns; the files are in a folder, or where the plan says."""
    if data.schema is not None:
        return read_schema(_shared_file(data.schema, here)).known
    if data.public is None:
        return None
    without = tuple(name for name in (data.id, data.label, data.event, data.group) if name is not None)
    return KnownColumns(read_public_file(_shared_file(data.public, here), data.kinds, without))


def _shared_file(path: str, here: Path) -> Path:
    """A file that everybody has: beside the party file, or else where the path itself says."""
    beside = here / Path(path).expanduser()
    return beside if beside.exists() else Path(path).expanduser()


def refuse_same_names(parties: Sequence[PartyFile]) -> None:
    """Refuse two parties of one name, and one that is called as a server is."""
    seen: dict[str, str] = {}
    for party in parties:
        if party.name in seen:
            raise PlanError(f"{seen[party.name]} and {party.path} are both called {party.name!r}; rename one party")
        if party.name == SERVER and party.data is not None:
            raise PlanError(f"{party.path}: a party with rows cannot be called {SERVER!r}, as the hub is; rename it")
        seen[party.name] = party.path


def check_together(parties: Sequence[PartyFile]) -> None:
    """Refuse party files that cannot be of one federation: names, labels, and how ids are written."""
    refuse_same_names(parties)
    holders = [party for party in parties if party.data is not None and party.data.label is not None]
    if len(holders) != 1:
        found = " and ".join(f"{party.name} ({party.path})" for party in holders) or "none"
        raise PlanError(
            f"exactly one party must name a data.label; {found} does; correct the party files. Parties with other "
            "people, the same columns and labels of their own take a horizontal method, such as FedAvg"
        )
    first, *others = [party for party in parties if party.data is not None]
    for other in others:
        if len(other.own_data.keys) != len(first.own_data.keys):
            raise PlanError(
                f"the key of {first.name} has {len(first.own_data.keys)} columns ({', '.join(first.own_data.keys)}), "
                f"that of {other.name} has {len(other.own_data.keys)} ({', '.join(other.own_data.keys)}); "
                "name as many columns in data.key at every party, in the same order"
            )
        if _comparable(other.own_data.ids) != _comparable(first.own_data.ids):
            raise DataError(
                f"{first.name} and {other.name} write ids by different rules ({_comparable(first.own_data.ids)} and "
                f"{_comparable(other.own_data.ids)}); set the same data.ids at every party, or nobody would match"
            )


def _comparable(rules: IdRules) -> str:
    """The rules that must be the same everywhere; how dates are read is each party's own affair."""
    return f"case {rules.case}, spaces {rules.spaces}, zeros {rules.zeros}"


def _facts(name: str, read: Mapping[str, OwnTable]) -> dict[str, object]:
    notes = [note for own in read.values() for note in own.notes]
    facts: dict[str, object] = {
        "source": name,
        "rows": {party: own.rows for party, own in read.items()},
        "left_out": {party: own.left_out for party, own in read.items() if own.left_out},
        "columns": {party: len(own.table.columns) for party, own in read.items()},
        "kinds": {party: {c.name: c.kind for c in own.table.columns} for party, own in read.items()},
    }
    if notes:
        facts["notes"] = notes
    return facts


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class HubAddress(Settings, frozen=True, tag=False):
    """The party that hosts runs, and where the others reach it.

    Attributes:
        name: the hub's name: the label holder, or a server.
        address: the host name by which the others reach it; it is in the certificates. `localhost` for a trial on one
            machine, which nobody else can reach.
        port: the one port that must be open at the hub; the others need none.
    """

    name: str
    address: str
    port: int = 8102

    def __post_init__(self) -> None:
        """Refuse an address or a port that cannot be."""
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", self.address):
            raise ValueError(f"address must be a host name, such as bank.example.org, not {self.address!r}")
        if not 0 < self.port < 65_536:
            raise ValueError(f"port must be from 1 to 65535, not {self.port}")


class Consortium(Settings, frozen=True, tag=False):
    """Who takes part in a project: the hub, and all others in the order of the federation."""

    project: str
    hub: HubAddress
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse names that certificates and folders cannot bear, and names used twice."""
        for name in (self.project, self.hub.name, *self.parties):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a name here; use letters, digits, - and _")
        if "server" in self.parties:
            raise ValueError("no party can be called server: the engine calls the hub so; choose another name")
        names = (self.hub.name, *self.parties)
        if len(set(names)) < len(names) or self.hub.address in self.parties:
            raise ValueError(f"every party needs a name of its own, other than the hub's address: {', '.join(names)}")
        if not self.parties:
            raise ValueError("parties is empty; name at least one party beside the hub")


def read_consortium(path: Path) -> Consortium:
    """Read a `parties.toml`."""
    return read_toml(path, Consortium, "file", "docs/three_organisations.md")


def write_consortium(consortium: Consortium) -> str:
    """A `parties.toml`."""
    hub = consortium.hub
    names = ", ".join(f'"{name}"' for name in consortium.parties)
    return (
        "# Who takes part; the same file at everyone.\n"
        f'project = "{consortium.project}"\nparties = [{names}]\n\n'
        f'[hub]\nname = "{hub.name}"\naddress = "{hub.address}"\nport = {hub.port}\n'
    )


LOG = "errors.log"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class PartySite:
    """Where everything of one party is.

    Attributes:
        folder: `party.toml` and `parties.toml`, keys in `keys`, plans in `plans`, runs in `runs`, the engine's kit in
            `kit`.
    """

    folder: Path

    @property
    def name(self) -> str:
        """The party's name in the consortium; the folder bears it."""
        return self.party_file.name

    @property
    def party_file(self) -> PartyFile:
        """What the party says of itself."""
        return read_party(self.folder / "party.toml")

    @property
    def consortium(self) -> Consortium:
        """Who takes part."""
        return read_consortium(self.folder / "parties.toml")

    @property
    def is_hub(self) -> bool:
        """Whether this is the site of the party that asks."""
        return self.name == self.consortium.hub.name

    @property
    def kit(self) -> Path:
        """The engine's part of the site."""
        return self.folder / "kit"

    @property
    def log(self) -> Path:
        """The details of what went wrong when it was asked, which nobody else sees."""
        return self.folder / LOG

    @property
    def keys(self) -> Path:
        """The party's key ring: its own keys, and the public ones of whom it trusts; online and by envelope."""
        return self.folder / "keys"

    @property
    def ring(self) -> KeyRing:
        """The keys themselves; those of a site must know the hub's."""
        if not self.keys.is_dir():
            raise PlanError(
                f"{self.folder} was made before parties proved who they are; make its keys with `laconic request "
                f"{self.name} -o {self.folder}`, and send the request to {self.consortium.hub.name}; see "
                "docs/three_organisations.md"
            )
        ring = open_ring(self.keys, self.name)
        ring.named(self.consortium.hub.name)
        return ring

    def run(self, name: str) -> Path:
        """The folder of a run; its name must be one that stays within the site."""
        if not _RUN.fullmatch(name):
            raise Refused(f"{name!r} cannot be the name of a run; use letters, digits, - and _")
        return self.folder / "runs" / name

    def plans(self) -> dict[str, Plan]:
        """The plans that this party has agreed to, by fingerprint."""
        paths = sorted((self.folder / "plans").glob("*.toml"))
        plans = [read_plan(path.read_text(encoding="utf-8")) for path in paths]
        return {plan_fingerprint(plan): plan for plan in plans}


def open_site(folder: Path) -> PartySite:
    """The site in a folder."""
    if not (folder / "kit").is_dir() or not (folder / "parties.toml").is_file():
        raise PlanError(f"{folder} is no site; make sites with `laconic provision parties.toml`, and send each its own")
    site = PartySite(folder.absolute())
    names = (site.consortium.hub.name, *site.consortium.parties)
    if site.name not in names:
        raise PlanError(f"{folder / 'party.toml'} is of {site.name!r}, who is not in parties.toml: {', '.join(names)}")
    return site
