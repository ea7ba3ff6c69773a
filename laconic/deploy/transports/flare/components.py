"""NVIDIA FLARE as the engine: one function at every party, bytes in and bytes out, and one main at the hub.

FLARE builds these from a job that carries no code: the classes are installed at every site, and each site's own list
says that only they may be built. What they hand on, and to whom, is decided elsewhere; see `laconic.deploy`.
"""

import traceback
from pathlib import Path
from typing import Protocol

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError

from laconic.atomic_files import write_sealed
from laconic.deploy.consortium import open_site
from laconic.deploy.coordinator import host_run
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports.rpc_client import ConnectionBroken, Line
from laconic.errors import LaconicError, PartyAbsent


class Ear(Protocol):
    """Hears frames for a party."""

    def hear(self, blob: bytes) -> bytes:
        """Answer one frame."""
        ...


class OpensDesk(Protocol):
    """Knows where a party's desk is."""

    def open(self, kit: Path) -> Ear:
        """The desk of the site with this kit."""
        ...


class Hosts(Protocol):
    """Knows how runs are hosted."""

    def host(self, kit: Path, runs: list[str], line: Line) -> None:
        """Host these runs in turn, over this line."""
        ...


class FlareParty:
    """The party's end of the line."""

    def __init__(self, desk: OpensDesk) -> None:
        self._desk = desk
        self._ear: Ear | None = None

    @collab.init  # type: ignore[untyped-decorator]
    def sit_down(self) -> None:
        """Open the desk before the first frame comes."""
        self._ear = self._desk.open(Path(collab.workspace.get_root_dir()))

    @collab.publish  # type: ignore[untyped-decorator]
    def hear(self, data: bytes) -> bytes:
        """Answer one frame."""
        if self._ear is None:
            self.sit_down()
        return self._ear.hear(data) if self._ear is not None else b""


class FlareHub:
    """The hub's end: it hosts the runs named, one after the other."""

    def __init__(self, hosting: Hosts, runs: list[str]) -> None:
        self._hosting, self._runs = hosting, runs

    @collab.main  # type: ignore[untyped-decorator]
    def host(self) -> None:
        """Host the runs."""
        sites = {proxy.name: proxy for proxy in collab.clients}

        def bring(site: str, frame: bytes, seconds: float) -> bytes:
            if site not in sites:
                raise ConnectionBroken(f"{site} is not there")
            try:
                reply: bytes = sites[site](timeout=seconds).hear(data=frame)
            except CollabCallError as problem:
                raise ConnectionBroken(f"{site} cannot be reached: {problem}") from problem
            return reply

        self._hosting.host(Path(collab.workspace.get_root_dir()), self._runs, bring)


class SiteDesk:
    """A party's desk in the folder that its kit is in."""

    def open(self, kit: Path) -> OnlineResponder:
        """The desk of the site with this kit."""
        return OnlineResponder(open_site(kit.parent))


class SiteHost:
    """The hub's runs in the folder that its kit is in.

    Args:
        deadline: seconds that a question may take; 0 for no limit.
    """

    def __init__(self, deadline: float = 0) -> None:
        self._deadline = deadline or None

    def host(self, kit: Path, runs: list[str], line: Line) -> None:
        """Host these runs in turn; an error ends a run, is written beside it, and does not touch the next."""
        site = open_site(kit.parent)
        for run in runs:
            folder = site.run(run)
            for name in ("error", "absent"):
                (folder / name).unlink(missing_ok=True)
            try:
                host_run(site, run, line, deadline=self._deadline, listener=_Notes(folder / "progress"))
            except PartyAbsent as problem:
                write_sealed(folder / "absent", str(problem).encode())
            except LaconicError as problem:
                write_sealed(folder / "error", str(problem).encode())
            # A bug must reach whoever waits for the result; the trace tells where it is.
            except Exception:
                write_sealed(folder / "error", traceback.format_exc().encode())


class _Notes:
    """Writes down how far a run is, for `laconic status`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, what: str, done: int, of: int | None) -> None:
        self._path.write_text(f"{what} {done}" + ("" if of is None else f" of {of}"), encoding="utf-8")
