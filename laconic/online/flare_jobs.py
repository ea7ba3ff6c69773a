"""What FLARE builds at each site beside its own parts: the party's desk, and how the hub hosts runs."""

import traceback
from pathlib import Path

from laconic.core.errors import LaconicError, PartyAbsent
from laconic.online.desk import Desk
from laconic.online.hosting import host_run
from laconic.online.site import open_site
from laconic.runtime.line import Line
from laconic.runtime.whole import write_whole


class SiteDesk:
    """A party's desk in the folder that its kit is in."""

    def open(self, kit: Path) -> Desk:
        """The desk of the site with this kit."""
        return Desk(open_site(kit.parent))


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
                write_whole(folder / "absent", str(problem).encode())
            except LaconicError as problem:
                write_whole(folder / "error", str(problem).encode())
            # A bug must reach whoever waits for the result; the trace tells where it is.
            except Exception:
                write_whole(folder / "error", traceback.format_exc().encode())


class _Notes:
    """Writes down how far a run is, for `laconic status`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, what: str, done: int, of: int | None) -> None:
        self._path.write_text(f"{what} {done}" + ("" if of is None else f" of {of}"))
