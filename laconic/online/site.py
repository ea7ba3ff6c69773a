"""A site: the folder on a party's own machine with its kit, its rules, its plans and its runs."""

import re
from dataclasses import dataclass
from pathlib import Path

from laconic.core.errors import PlanError, Refused
from laconic.online.circle import Circle, read_circle
from laconic.plan.fingerprint import plan_fingerprint
from laconic.plan.party_file import PartyFile, read_party
from laconic.plan.shape import Plan
from laconic.plan.text import read_plan

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class Site:
    """Where everything of one party is.

    Attributes:
        folder: `party.toml` and `parties.toml`, plans in `plans`, runs in `runs`, the engine's kit in `kit`.
    """

    folder: Path

    @property
    def name(self) -> str:
        """The party's name in the circle; the folder bears it."""
        return self.party_file.name

    @property
    def party_file(self) -> PartyFile:
        """What the party says of itself."""
        return read_party(self.folder / "party.toml")

    @property
    def circle(self) -> Circle:
        """Who takes part."""
        return read_circle(self.folder / "parties.toml")

    @property
    def is_hub(self) -> bool:
        """Whether this is the site of the party that asks."""
        return self.name == self.circle.hub.name

    @property
    def kit(self) -> Path:
        """The engine's part of the site."""
        return self.folder / "kit"

    @property
    def spent(self) -> Path:
        """The ledger of epsilon over all runs."""
        return self.folder / "spent"

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


def open_site(folder: Path) -> Site:
    """The site in a folder.

    Raises:
        PlanError: the folder is no site, or its party file is of somebody else.
    """
    if not (folder / "kit").is_dir() or not (folder / "parties.toml").is_file():
        raise PlanError(f"{folder} is no site; make sites with `laconic provision parties.toml`, and send each its own")
    site = Site(folder.absolute())
    names = (site.circle.hub.name, *site.circle.parties)
    if site.name not in names:
        raise PlanError(f"{folder / 'party.toml'} is of {site.name!r}, who is not in parties.toml: {', '.join(names)}")
    return site
