"""Make the sites of a circle: for everyone a folder with a kit, the same plan, and a party file to fill in."""

import shutil
from pathlib import Path

from laconic.core.errors import PlanError
from laconic.online.circle import Circle, write_circle
from laconic.plan.text import read_plan
from laconic.runtime.flare_kits import make_kits

_PARTY = """\
# What {name} says of itself. Only {name} sees this file.
name = "{name}"

# Where its rows are; leave this out for a plan on a public data set.
# [data]
# source = "rows.csv"
# key = "customer"
{label}
# What may leave. Whatever is not named here is refused.
[allow]
methods = [{methods}]
# steps = ["learn_and_send", "represent"]
# max_rows = 100000
# max_bytes = 100000000
# min_noise = 1.0
# max_epsilon = 2.0
"""


def provision(circle: Circle, folder: Path, plan: Path | None = None) -> tuple[Path, ...]:
    """Make a site for everyone; nothing stays if something goes wrong.

    Args:
        circle: who takes part.
        folder: where to; sites that are there already are not touched, and are an error.
        plan: the plan to put at everyone; None to leave that to each.

    Returns:
        The sites, the hub's first.

    Raises:
        PlanError: there is a site already, or the plan cannot be read.
    """
    names = (circle.hub.name, *circle.parties)
    text = None if plan is None else plan.read_text(encoding="utf-8")
    method = "FedOnce" if text is None else type(read_plan(text).method).__name__
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise PlanError(f"{folder / there[0]} is there already; move it away, or make the sites in another folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        make_kits(folder, circle.project, circle.hub.name, circle.hub.address, circle.hub.port, circle.parties)
        for name in names:
            _furnish(folder / name, name, circle, method, text)
    except BaseException:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
        raise
    return tuple(folder / name for name in names)


def _furnish(site: Path, name: str, circle: Circle, method: str, plan: str | None) -> None:
    for inner in ("plans", "runs"):
        (site / inner).mkdir()
    label = '# label = "churned"\n' if name == circle.hub.name else ""
    methods = ", ".join(f'"{one}"' for one in (method, "ExactMatch", "PrivateMatch"))
    (site / "party.toml").write_text(_PARTY.format(name=name, label=label, methods=methods), encoding="utf-8")
    (site / "parties.toml").write_text(write_circle(circle), encoding="utf-8")
    if plan is not None:
        (site / "plans" / "plan.toml").write_text(plan, encoding="utf-8")
    site.chmod(0o700)  # The kit holds the site's private key.
