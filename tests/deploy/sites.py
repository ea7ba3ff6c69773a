"""Sites in a folder, and lines between them without an engine."""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from laconic import Plan, Result, write_plan
from laconic.core import Party
from laconic.deploy import coordinator
from laconic.deploy.coordinator import Growth
from laconic.deploy.party_files import Consortium, HubAddress, PartySite, open_site, write_consortium
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports.flare.operating import share_keys
from laconic.deploy.transports.rpc_client import ConnectionBroken, Line
from laconic.deploy.transports.secure_channel import SecureLine
from laconic.methods import methods

ALL = f"""
[allow]
methods = {json.dumps([*(kind.__name__ for kind in methods().values()), "ExactMatch", "PrivateMatch"])}
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port: int = one.getsockname()[1]
        return port


def consortium(parties: int = 3) -> Consortium:
    names = tuple(f"site{number}" for number in range(1, parties + 1))
    return Consortium(project="trial", hub=HubAddress(name="hub", address="localhost"), parties=names)


def make_sites(folder: Path, around: Consortium, allow: str = ALL) -> dict[str, PartySite]:
    """A site for everyone, without kits."""
    for name in (around.hub.name, *around.parties):
        for inner in ("kit", "plans", "runs"):
            (folder / name / inner).mkdir(parents=True)
        (folder / name / "parties.toml").write_text(write_consortium(around))
        (folder / name / "party.toml").write_text(f'name = "{name}"\n{allow}')
    share_keys({name: folder / name for name in (around.hub.name, *around.parties)}, {})
    return {name: open_site(folder / name) for name in (around.hub.name, *around.parties)}


def agree(sites: dict[str, PartySite], hub: PartySite, plan: Plan, run: str) -> None:
    """Put a plan at everyone, and a run of it at the hub."""
    text = write_plan(plan)
    for site in sites.values():
        (site.folder / "plans" / f"{run}.toml").write_text(text)
    hub.run(run).mkdir(parents=True, exist_ok=True)
    (hub.run(run) / "plan.toml").write_text(text)


def straight(responders: dict[str, OnlineResponder], away: set[str] | None = None) -> Line:
    """A line that is a call; to those away it is broken."""

    def bring(site: str, frame: bytes, seconds: float) -> bytes:
        if site in (away or ()):
            raise ConnectionBroken(f"{site} is away")
        return responders[site].hear(frame)

    return bring


Tap: TypeAlias = Callable[[str, bytes, Callable[[bytes], bytes]], bytes]
"""Is given a site, a frame for it in the clear, and the honest way there."""


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Let hubs in this process use lines on which a party, which has its keys, may say anything."""

    class Tapped(SecureLine):
        def __call__(self, party: str, frame: bytes, seconds: float) -> bytes:
            honest = partial(super().__call__, party, seconds=seconds)
            return tap(self._sites[party], frame, honest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "SecureLine", Tapped)
        yield


def lines(
    sites: dict[str, PartySite], away: Sequence[str] = (), hub: str = "registry", cut_after: int | None = None
) -> Line:
    """Lines to parties as they are started now, which remember by their disks alone; all break after some frames."""
    plain = straight({name: OnlineResponder(site) for name, site in sites.items() if name != hub}, set(away))
    left = count(cut_after or 0, -1)

    def bring(site: str, frame: bytes, seconds: float) -> bytes:
        if cut_after is not None and next(left) <= 0:
            raise ConnectionBroken(f"{site} is away")
        return plain(site, frame, seconds)

    return bring


def joining(name: str) -> Growth:
    """A change of a model by a party that joins it."""
    return Growth(joins=(name,))


def leaving(name: str) -> Growth:
    """A change of a model that a party left: the others get it."""
    return Growth(without=(name,))


def host_again(sites: dict[str, PartySite], run: str, hub: str = "registry", line: Line | None = None) -> Result:
    """Host a run that is there, or go on with it."""
    return coordinator.host_run(sites[hub], run, line or lines(sites, hub=hub))


def party_in(site: PartySite, run: str) -> Party:
    """A party as it is on its disk in a run."""
    return PartyFolder(site.run(run) / "memory").load()
