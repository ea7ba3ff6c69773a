"""`parties.toml`: who takes part and where the hub is reached; the same for everyone, and no secret."""

import re
import tomllib
from pathlib import Path

from laconic.core.errors import PlanError
from laconic.core.values import Settings
from laconic.plan.keys import to_settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class HubPlace(Settings, frozen=True, tag=False):
    """The party that runs the show, and where the others reach it.

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


class Circle(Settings, frozen=True, tag=False):
    """Who takes part.

    Attributes:
        project: a name for the whole.
        hub: who asks, and where it is.
        parties: all others, in the order of the federation.
    """

    project: str
    hub: HubPlace
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse names that certificates and folders cannot bear, and names used twice."""
        for name in (self.project, self.hub.name, *self.parties):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a name here; use letters, digits, - and _")
        names = (self.hub.name, *self.parties)
        if len(set(names)) < len(names) or self.hub.address in self.parties:
            raise ValueError(f"every party needs a name of its own, other than the hub's address: {', '.join(names)}")
        if not self.parties:
            raise ValueError("parties is empty; name at least one party beside the hub")


def read_circle(path: Path) -> Circle:
    """Read a `parties.toml`.

    Raises:
        PlanError: there is no such file, or it does not fit; names file and key.
    """
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise PlanError(f"there is no file {path}; docs/three_organisations.md shows what goes in") from problem
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise PlanError(f"{path} cannot be read as TOML: {problem}") from problem
    try:
        return to_settings(plain, Circle)
    except PlanError as problem:
        raise PlanError(f"{path}: {problem}") from problem


def write_circle(circle: Circle) -> str:
    """A `parties.toml`."""
    hub = circle.hub
    names = ", ".join(f'"{name}"' for name in circle.parties)
    return (
        "# Who takes part; the same file at everyone.\n"
        f'project = "{circle.project}"\nparties = [{names}]\n\n'
        f'[hub]\nname = "{hub.name}"\naddress = "{hub.address}"\nport = {hub.port}\n'
    )
