"""`party.toml`: what one party says of itself: its name, its data, and what it allows to leave; see docs/data.md."""

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from laconic.core.errors import PlanError
from laconic.core.values import Settings
from laconic.data.own_data import OwnData
from laconic.plan.keys import to_settings

_SQLITE = "sqlite:///"


class PartyFile(Settings, frozen=True, tag=False):
    """One party's own settings, which never leave it.

    Attributes:
        name: the party's name in the federation.
        data: where its rows are and what they mean; none for a server, which has no rows.
        seed: where its chance comes from in runs on its own data: a seed of its own for each run, or the plan's, which
            everybody knows; with that, others can draw again what it drew in secret. For rehearsals.
        allow: what it lets leave, as written; `laconic.plan.allowances` reads it.
        path: the file it came from; set by `read_party`.
    """

    name: str
    data: OwnData | None = None
    seed: Literal["own", "plan"] = "own"
    allow: dict[str, Any] = msgspec.field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        """Refuse a party without a name, and names that would make files and reports unreadable."""
        plain = self.name.replace("_", "").replace("-", "").replace(".", "").replace(" ", "")
        if not plain.isalnum() or self.name != self.name.strip():
            raise ValueError(f"name must be letters, digits, spaces, dots, - or _, such as bank, not {self.name!r}")

    @property
    def own_data(self) -> OwnData:
        """The data, of a party that must have some."""
        if self.data is None:
            raise PlanError(f"{self.path or self.name}: party {self.name!r} has no [data]; say source and key there")
        return self.data


def read_party(path: Path | str) -> PartyFile:
    """Read a `party.toml`; a relative source is looked for beside it.

    Raises:
        PlanError: there is no such file, it is not TOML, or a key or value does not fit; names file and key.
    """
    path = Path(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise PlanError(f"there is no party file {path}; write one, as docs/data.md shows") from problem
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        if path.is_file() and path.suffix != ".toml":
            raise PlanError(
                f"{path} is no party file; write one beside it, such as {path.name.split('.')[0]}.toml, that says "
                f'name, data.source = "{path.name}" and data.key, as docs/data.md shows'
            ) from problem
        raise PlanError(f"the party file {path} cannot be read as TOML: {problem}") from problem
    if "path" in plain:
        raise PlanError(f"{path}: there is no setting path (found: {plain['path']!r}); name the data in data.source")
    try:
        party = to_settings(plain, PartyFile)
    except PlanError as problem:
        raise PlanError(f"{path}: {problem}") from problem
    data = party.data
    if data is not None:
        data = msgspec.structs.replace(data, source=_beside(path, data.source))
    return msgspec.structs.replace(party, data=data, path=str(path))


def _beside(path: Path, source: str) -> str:
    """A file's path, or that of an SQLite database, taken from the folder of the party file; other URLs unchanged."""
    head, start, database = source.partition(_SQLITE)
    if start and not head and database not in ("", ":memory:"):
        return _SQLITE + os.fspath(path.absolute().parent / database)
    return source if "://" in source else os.fspath(path.parent / Path(source).expanduser())
