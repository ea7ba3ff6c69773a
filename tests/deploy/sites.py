"""Sites in a folder, and lines between them without an engine."""

import json
import socket
from pathlib import Path

from laconic import Plan, write_plan
from laconic.deploy.consortium import Consortium, HubAddress, PartySite, open_site, write_consortium
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports.rpc_client import ConnectionBroken, Line
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
