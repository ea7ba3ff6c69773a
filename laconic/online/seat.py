"""A seat: what a plan settles for one party of a circle: whom it plays, its rows, and the scripts it may be asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laconic.core.align import Align
from laconic.core.errors import DataError, PlanError
from laconic.core.party import Party
from laconic.core.table import Table
from laconic.data.own_table import read_own
from laconic.methods import AnyMethod
from laconic.online.circle import Circle
from laconic.online.site import Site
from laconic.plan.execute import align_of, deal_of, federation_of
from laconic.plan.own_seed import seed_of
from laconic.plan.promises import keep_budget_of, refuse_unkept
from laconic.plan.shape import Plan

SERVER = "server"


@dataclass(frozen=True)
class Seating:
    """Who plays whom in a plan.

    Attributes:
        plan: the plan.
        holder: the party with the labels. names: all parties with rows, in the order of the federation.
        sites: the site at which each of them is.
        facts: what is known of the data beforehand, for the report.
    """

    plan: Plan
    holder: str
    names: tuple[str, ...]
    sites: dict[str, str]
    facts: dict[str, Any]

    @property
    def align(self) -> Align | None:
        """How rows are matched; None if they correspond already."""
        return None if self.plan.data.name is not None else align_of(self.plan)

    @property
    def hub(self) -> str:
        """Who asks: the label holder, or a server without rows beside it."""
        return SERVER if self.plan.method.server else self.holder

    @property
    def peers(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(name for name in self.names if name != self.hub)

    def method(self, shared: int | None, table: Table) -> AnyMethod:
        """The plan's method, with the noise that keeps its budget for so many shared rows."""
        if self.plan.budget.epsilon is None:
            return self.plan.method
        guests = tuple(name for name in self.names if name != self.holder)
        return keep_budget_of(self.plan, self._least_rows(shared, table), self.holder, guests)

    def _least_rows(self, shared: int | None, table: Table) -> int:
        if self.align is None:
            return len(table.cut("train"))
        if shared is None or shared != len(table.cut("shared")):
            raise DataError(f"the hub says that {shared} rows are shared; here there are {len(table.cut('shared'))}")
        data = self.plan.data
        return max(1, int(shared * (1 - data.test) * (1 - data.valid)) - 2)


def seat(plan: Plan, circle: Circle) -> Seating:
    """Work out who plays whom.

    A public data set is dealt among made-up parties: the hub's site plays the one with the labels, and the other sites
    play the others in turn. With data of their own, everybody plays themselves.
    """
    refuse_unkept(plan)
    if plan.data.name is None:
        if plan.method.kind == "horizontal":
            raise PlanError(
                f"{type(plan.method).__name__} on files with other rows runs on one machine so far (laconic run); on "
                "several, use a public data set (data.name), or a vertical method such as FedOnce"
            )
        names = _own_names(plan, circle)
        return Seating(plan, circle.hub.name, names, {name: name for name in names}, {})
    federation = federation_of(deal_of(plan), plan.seed)
    others = [name for name in federation.names if name != federation.hub]
    if len(others) != len(circle.parties):
        raise PlanError(
            f"the plan deals {plan.data.name} among {len(others)} parties beside the hub, but parties.toml names "
            f"{len(circle.parties)}; set data.parties, or the number in data.cut, to fit"
        )
    sites = {federation.hub: circle.hub.name} | dict(zip(others, circle.parties, strict=True))
    return Seating(
        plan,
        federation.hub,
        federation.names,
        sites,
        {"name": federation.name, "kind": federation.kind} | federation.facts,
    )


def sit_down(seating: Seating, site: Site, name: str) -> Party:
    """A party with its rows, from its own source, or its share of a public data set.

    The hub's chance comes from the plan's seed, a party's that is asked from one of its own.
    """
    plan, file = seating.plan, site.party_file
    if plan.data.name is not None:
        table = federation_of(deal_of(plan), plan.seed).tables[name]
    else:
        table = read_own(name, file.own_data).table
    return Party(name, table, plan.seed if name == seating.hub else seed_of(plan, file))


def _own_names(plan: Plan, circle: Circle) -> tuple[str, ...]:
    files = plan.data.files
    named = tuple(files) if isinstance(files, dict) else tuple(Path(path).name.split(".")[0] for path in files)
    if set(named) != {circle.hub.name, *circle.parties}:
        raise PlanError(
            f"the plan is for {', '.join(named)}, but parties.toml for {circle.hub.name}, {', '.join(circle.parties)}; "
            'say data.files = { name = "party.toml", ... } with the same names'
        )
    return named
