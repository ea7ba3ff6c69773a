"""NVIDIA FLARE as the engine: one function at every party, bytes in and bytes out, and one main at the hub.

FLARE builds these from a job that carries no code: the classes are installed at every site, and each site's own list
says that only they may be built.
"""

import traceback
from pathlib import Path

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError

from laconic.atomic_files import hold, write_sealed, write_whole
from laconic.core.traffic import watching
from laconic.deploy.coordinator import host_run
from laconic.deploy.party_files import LOG, PartySite, open_site
from laconic.deploy.responder import ErrorLog, OnlineResponder
from laconic.deploy.transports.rpc_client import ConnectionBroken, Line
from laconic.deploy.transports.secure_channel import refusal
from laconic.deploy.watch import STATE, Watch
from laconic.errors import LaconicError, PartyAbsent

_HUB = "server"
"""How the engine calls the hub's end of a line; as the certificate of the line names it."""


def _folder() -> Path:
    """The folder of the site whose kit the engine was started from."""
    return Path(collab.workspace.get_root_dir()).parent


class FlareParty:
    """The party's end of the line."""

    def __init__(self) -> None:
        self._responder: OnlineResponder | None = None

    @collab.publish  # type: ignore[untyped-decorator]
    def hear(self, data: bytes) -> bytes:
        """Answer one frame, if the engine says that it comes from the hub; FLARE lets any party call any other.

        Nothing is raised here, as the engine would send the hub the whole trace.
        """
        if collab.caller != _HUB:
            return refusal()
        try:
            if self._responder is None:
                self._responder = OnlineResponder(open_site(_folder()))
        except Exception as problem:
            return refusal(ErrorLog(_folder() / LOG).note(problem))
        return self._responder.hear(data)


class FlareHub:
    """The hub's end: it hosts the runs named, one after the other.

    Args:
        runs: their names.
        deadline: seconds that a question may take; 0 for no limit.
    """

    def __init__(self, runs: list[str], deadline: float = 0) -> None:
        self._runs, self._deadline = runs, deadline or None

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

        site = open_site(_folder())
        for run in self._runs:
            self._host(site, run, bring)

    def _host(self, site: PartySite, run: str, line: Line) -> None:
        """Host one run; an error ends it, is written beside it, and does not touch the next.

        A run that is being hosted already is left alone: what is written beside it is for whoever hosts it.
        """
        folder = site.run(run)
        with hold(folder / "hosting") as held:
            if held:
                self._host_alone(site, run, folder, line)

    def _host_alone(self, site: PartySite, run: str, folder: Path, line: Line) -> None:
        watch = Watch(run, file=folder / STATE)

        def note(what: str, done: int, of: int | None) -> None:
            watch.note(what, done, of)
            words = f"{what} {done}" + ("" if of is None else f" of {of}")
            write_whole(folder / "progress", words.encode(), private=True)

        for name in ("error", "absent"):
            (folder / name).unlink(missing_ok=True)
        try:
            with watching(watch):
                host_run(site, run, line, deadline=self._deadline, listener=note)
            watch.end("finished")
        except PartyAbsent as problem:
            watch.end(f"ended: {problem}")
            write_sealed(folder / "absent", str(problem).encode())
        except LaconicError as problem:
            watch.end(f"ended: {problem}")
            write_sealed(folder / "error", str(problem).encode())
        # A bug must reach whoever waits for the result; the trace tells where it is.
        except Exception:
            watch.end("ended by an error")
            write_sealed(folder / "error", traceback.format_exc().encode())
