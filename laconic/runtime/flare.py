"""NVIDIA FLARE as the engine: one function at every party, bytes in and bytes out, and one main at the hub.

FLARE builds these from a job that carries no code: the classes are installed at every site, and each site's own list
says that only they may be built. What they hand on, and to whom, is decided elsewhere; see `laconic.online`.
"""

from pathlib import Path
from typing import Protocol

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError

from laconic.runtime.line import Line, LineBroken


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
                raise LineBroken(f"{site} is not there")
            try:
                reply: bytes = sites[site](timeout=seconds).hear(data=frame)
            except CollabCallError as problem:
                raise LineBroken(f"{site} cannot be reached: {problem}") from problem
            return reply

        self._hosting.host(Path(collab.workspace.get_root_dir()), self._runs, bring)
