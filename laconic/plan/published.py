"""Plans as papers have them, and their tables: a file of presets for each paper.

A preset is a plan under a name, or `like` another one with keys to `set`. `PAPER#NAME` names one wherever a plan file
can be named. A table lists presets to run, each with the paper's figure.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from laconic.errors import PlanError
from laconic.plan.keys import to_settings
from laconic.plan.plan import Plan
from laconic.plan.text import change_plan, to_plain

_FOLDER = Path(__file__).parent / "presets"


class Row(msgspec.Struct, frozen=True):
    """One line of a paper's table.

    Attributes:
        preset: the name of its preset.
        arm: what the paper calls it.
        metric: what is measured, by our name.
        paper: the paper's figure, or one for each party as host in turn; None where it prints none.
        set: keys of the plan to change.
    """

    preset: str
    arm: str
    metric: str
    paper: float | tuple[float, ...] | None = None
    set: dict[str, Any] = {}


class Line(msgspec.Struct, frozen=True):
    """A row for one host: what is run, and what the paper found."""

    row: Row
    arm: str
    plan: Plan
    paper: float | None


def papers() -> tuple[str, ...]:
    """The papers that have presets.

    Example:
        >>> from laconic.plan import papers
        >>> papers()
        ('fedonce',)
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def read_preset(name: str) -> Plan:
    """The plan of a preset, by `PAPER#NAME`.

    Raises:
        PlanError: there is no such paper or preset; the message lists those that there are.

    Example:
        >>> from laconic.plan import read_preset
        >>> read_preset("fedonce#phishing-table5").data.parties
        10
    """
    paper, _, preset = name.partition("#")
    return _plan(paper, preset)


def read_table(paper: str, number: str) -> list[Line]:
    """What to run for a paper's table, row by row, and host by host where the paper names several.

    Example:
        >>> from laconic.plan import read_table
        >>> [(line.arm, line.paper) for line in read_table("fedonce", "7")][0]
        ('FedOnce-L0', 0.9278)
    """
    tables = _file(paper).get("table", {})
    if number not in tables:
        raise PlanError(f"there is no table {number} of {paper}; there are: {', '.join(tables)}")
    lines = list[Line]()
    for row in msgspec.convert(tables[number], list[Row]):
        plan = change_plan(to_plain(_plan(paper, row.preset)), row.set.items())
        several = row.paper if isinstance(row.paper, tuple) else None
        for host, figure in enumerate((row.paper,) if several is None else several):
            arm = row.arm if several is None else f"{row.arm}, party {host + 1}"
            found = change_plan(to_plain(plan), [] if several is None else [("data.hub", host)])
            lines.append(Line(row, arm, found, figure if not isinstance(figure, tuple) else None))
    return lines


def _plan(paper: str, preset: str) -> Plan:
    known = {name: one for name, one in _file(paper).items() if name != "table"}
    if preset not in known:
        raise PlanError(f"there is no preset {preset or '(no name)'} of {paper}; there are: {', '.join(known)}")
    plain = known[preset]
    if "like" in plain:
        return change_plan(to_plain(_plan(paper, plain["like"])), plain["set"].items())
    return to_settings(plain, Plan)


@cache
def _file(paper: str) -> dict[str, Any]:
    if paper not in papers():
        raise PlanError(f"there are no presets of {paper!r}; there are some of: {', '.join(papers())}")
    return tomllib.loads((_FOLDER / f"{paper}.toml").read_text(encoding="utf-8"))
