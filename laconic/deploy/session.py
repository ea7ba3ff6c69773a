"""What a plan settles, so that parties who never meet work out the same scripts, names and fingerprint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laconic.align.agreed import AgreedIds
from laconic.core.align import Align
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.data.readers.source_table import own_table
from laconic.deploy.consortium import Consortium, PartySite
from laconic.deploy.execute import align_of, deal_of, federation_of
from laconic.deploy.party_config import seed_of
from laconic.deploy.question_forecast import SERVER, QuestionForecast
from laconic.deploy.transports.envelopes.cover import Asked
from laconic.errors import DataError, PlanError
from laconic.plan.plan import Plan, keep_budget_of, refuse_unkept
from laconic.plan.text import plan_fingerprint
from laconic.tables.table import Table


@dataclass(frozen=True)
class Agreement:
    """A plan as all parties understand it.

    Attributes:
        plan: the plan.
        names: the parties with rows, in the plan's order.
        holder: which of them has the labels.
        align: how rows are matched; None if they correspond already.
        method: the plan's method, with the noise that keeps its budget.
    """

    plan: Plan
    names: tuple[str, ...]
    holder: str
    align: Align | None
    method: Method

    @property
    def hub(self) -> str:
        """Who asks: the label holder, or a server that it runs."""
        return SERVER if self.method.server else self.holder

    @property
    def peers(self) -> tuple[str, ...]:
        """Who is asked."""
        return tuple(name for name in self.names if name != self.hub)

    @property
    def fingerprint(self) -> str:
        """Equal only for plans that ask the same of the same parties; where they run does not matter."""
        return plan_fingerprint(self.plan)

    def script(self, kind: Asked) -> Script:
        """The script that a step belongs to."""
        if kind == "method":
            return self.method
        if self.align is None:
            raise PlanError("a question to match rows, but the plan's rows correspond already; compare the two plans")
        return self.align

    @property
    def schedule(self) -> QuestionForecast:
        """The questions of the run, as far as the scripts declare them."""
        return QuestionForecast(self.method, self.align, self.hub, self.plan.seed, self.plan.look_every)


def agree_on(plan: Plan, table: Table, agreed: int | None = None) -> Agreement:
    """Work out what a plan settles.

    Args:
        plan: what all parties hold a copy of.
        table: this party's own rows.
        agreed: how many ids were agreed upon beforehand; None for all of this party's rows.

    Raises:
        PlanError: the plan cannot be carried out by mail; says why.
    """
    refuse_unkept(plan)
    if plan.method.kind != "vertical":
        raise PlanError(
            f"{type(plan.method).__name__} is a horizontal method; by envelope go vertical ones, such as FedOnce or Rap"
        )
    names, holder = _parties(plan)
    align = None if plan.data.name is not None else align_of(plan)
    method: Method = plan.method
    if plan.budget.epsilon is not None:
        rows = _training_rows(align, table, agreed)
        method = keep_budget_of(plan, rows, holder, tuple(name for name in names if name != holder))
    return Agreement(plan, names, holder, align, method)


def _parties(plan: Plan) -> tuple[tuple[str, ...], str]:
    """The parties with rows, and who has the labels: by `data.hub`, as nobody can look into another's file."""
    files = plan.data.files
    if plan.data.name is not None:
        federation = federation_of(plan.data, plan.seed)
        return federation.names, federation.hub
    names = tuple(files) if isinstance(files, dict) else tuple(Path(path).name.split(".")[0] for path in files)
    hub = plan.data.hub
    holder = names[hub] if isinstance(hub, int) and 0 <= hub < len(names) else str(hub)
    if holder not in names:
        raise PlanError(f"data.hub = {hub!r} is no party; say which of {', '.join(names)} has the labels")
    return names, holder


def _training_rows(align: Align | None, table: Table, agreed: int | None) -> int:
    """How many training rows there are at least, as every party works it out before anything is asked."""
    if align is None:
        return len(table.cut("train"))
    if not isinstance(align, AgreedIds):
        raise PlanError(
            "budget.epsilon needs to know how many rows there are before anything is sent: set data.match.type = "
            "AgreedIds, and give every party the same list of ids"
        )
    shared = table.rows if agreed is None else agreed
    return max(1, int(shared * (1 - align.test) * (1 - align.valid)) - 2)


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

    def method(self, shared: int | None, table: Table) -> Method:
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


def seat(plan: Plan, circle: Consortium) -> Seating:
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


def sit_down(seating: Seating, site: PartySite, name: str) -> Party:
    """A party with its rows, from its own source, or its share of a public data set.

    The hub's chance comes from the plan's seed, a party's that is asked from one of its own.
    """
    plan, file = seating.plan, site.party_file
    if plan.data.name is not None:
        table = federation_of(deal_of(plan), plan.seed).tables[name]
    else:
        table = own_table(name, file.own_data)
    return Party(name, table, plan.seed if name == seating.hub else seed_of(plan, file))


def _own_names(plan: Plan, circle: Consortium) -> tuple[str, ...]:
    files = plan.data.files
    named = tuple(files) if isinstance(files, dict) else tuple(Path(path).name.split(".")[0] for path in files)
    if set(named) != {circle.hub.name, *circle.parties}:
        raise PlanError(
            f"the plan is for {', '.join(named)}, but parties.toml for {circle.hub.name}, {', '.join(circle.parties)}; "
            'say data.files = { name = "party.toml", ... } with the same names'
        )
    return named
