"""What a plan settles, so that parties who never meet work out the same scripts, names and fingerprint."""

from dataclasses import dataclass
from pathlib import Path

from laconic.align.agreed import AgreedIds
from laconic.core.align import Align
from laconic.core.errors import PlanError
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.envelope.content import Asked
from laconic.mail.rehearsal import SERVER, Rehearsal
from laconic.methods import AnyMethod
from laconic.plan.execute import align_of, federation_of
from laconic.plan.fingerprint import plan_fingerprint
from laconic.plan.promises import keep_budget_of, refuse_unkept
from laconic.plan.shape import Plan


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
    method: AnyMethod

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

    def rehearsal(self, form: Table) -> Rehearsal:
        """The run on rows that mean nothing but look like these."""
        return Rehearsal(
            self.method, self.align, self.names, self.holder, self.plan.seed, form, look_every=self.plan.look_every
        )


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
    method: AnyMethod = plan.method
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
