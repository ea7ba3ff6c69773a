"""`parties.toml`: who takes part and where the hub is reached; the same for everyone, and no secret."""

import re
from dataclasses import dataclass
from pathlib import Path

from laconic.deploy.party_config import PartyFile, read_party, read_toml
from laconic.deploy.transports.envelopes.keys import KeyRing, open_ring
from laconic.errors import PlanError, Refused
from laconic.plan.plan import Plan
from laconic.plan.text import plan_fingerprint, read_plan
from laconic.values import Settings

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
