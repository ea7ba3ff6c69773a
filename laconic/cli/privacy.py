"""`laconic privacy`: what noise costs, and what a budget needs, before anything runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import (
    FILE,
    ManyFiles,
    changes_of,
    plan_from,
    plan_options,
    show,
    showing_done,
    showing_progress,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from rich.table import Table

    from laconic.audit.attacks import Finding
    from laconic.audit.leakage import Width
    from laconic.plan.plan import Plan
    from laconic.privacy.accounting import AnyAccountant
    from laconic.privacy.budget import Demand


@click.command(cls=ManyFiles, short_help="Work out epsilon for noise, or noise for an epsilon.")
@click.argument("source", metavar="[METHOD|PLAN.toml]", required=False)
@plan_options
@click.option("--rows", type=int, default=10_000, show_default=True, help="Training rows.")
@click.option("--batch", type=int, default=256, show_default=True, help="Rows per step, on average.")
@click.option("--epochs", type=int, default=20, show_default=True, help="How often a row is seen, on average.")
@click.option("--sigma", type=float, help="Noise in units of the clipping length: gives epsilon.")
@click.option("--epsilon", type=float, help="A budget for everyone's row: gives sigma.")
@click.option("--delta", type=float, default=1e-5, show_default=True, help="The probability that the loss is greater.")
@click.option("--grow", is_flag=True, help="Show how epsilon grows with parties, epochs and batch.")
@click.pass_context
def privacy(
    context: click.Context,
    source: str | None,
    rows: int,
    batch: int,
    epochs: int,
    sigma: float | None,
    epsilon: float | None,
    delta: float,
    grow: bool,
) -> None:
    """Work out, before anything runs, what noise costs or what a budget needs, for people known to all parties.

    \b
    Examples:
      laconic privacy --parties 4 --rows 60000 --batch 128 --epochs 50 --sigma 1 --grow
      laconic privacy --parties 4 --rows 60000 --batch 128 --epochs 50 --epsilon 2
      laconic privacy FedOnce --data breast_cancer --set budget.epsilon=2
    """
    if source is not None:
        show(_of_plan(plan_from(source, context)))
        return
    if (sigma is None) == (epsilon is None):
        raise PlanError("give --sigma to learn epsilon, or --epsilon to learn sigma, one of the two")
    from laconic.privacy.private_sgd import DpSgd

    demand = DpSgd(batch=batch, epochs=epochs).demand(rows)
    parties = int(str(dict(changes_of(context)).get("data.parties", 1)))
    if epsilon is not None:
        show(_needed(demand, parties, epsilon, delta))
        return
    show(_costs(demand, parties, sigma or 0.0, delta))
    if grow:
        show(_growth(rows, batch, epochs, parties, sigma or 0.0, delta))


def _costs(demand: "Demand", parties: int, sigma: float, delta: float) -> "Table":
    table = _table(f"{parties} parties, sigma {sigma:g}, delta {delta:g}", "accountant", "epsilon")
    for accountant in _accountants():
        each = {str(place): demand.events(sigma) for place in range(parties)}
        table.add_row(type(accountant).__name__, f"{accountant.epsilon(each, delta):.4g}")
    return table


def _needed(demand: "Demand", parties: int, epsilon: float, delta: float) -> "Table":
    from laconic.privacy.budget import Budget

    table = _table(f"{parties} parties, epsilon {epsilon:g}, delta {delta:g}", "accountant", "sigma at each", "spent")
    demands = {str(place): demand for place in range(parties)}
    for accountant in _accountants():
        budget = Budget(epsilon=epsilon, delta=delta, accountant=accountant)
        noise = budget.multipliers(demands)
        table.add_row(type(accountant).__name__, f"{noise['0']:.4g}", f"{budget.spent(demands, noise):.4g}")
    return table


def _growth(rows: int, batch: int, epochs: int, parties: int, sigma: float, delta: float) -> "Table":
    from laconic.privacy.accounting import Pld
    from laconic.privacy.private_sgd import DpSgd

    table = _table("How epsilon grows (Pld)", "what", "", "1/4", "1/2", "1", "x 2", "x 4")
    for what, value in {"parties": parties, "epochs": epochs, "batch": batch}.items():
        cells = []
        for factor in (0.25, 0.5, 1, 2, 4):
            changed = {"parties": parties, "epochs": epochs, "batch": batch} | {what: max(1, round(value * factor))}
            demand = DpSgd(batch=changed["batch"], epochs=changed["epochs"]).demand(rows)
            each = {str(place): demand.events(sigma) for place in range(changed["parties"])}
            cells.append(f"{Pld(interval=1e-3).epsilon(each, delta):.3g}")
        table.add_row(what, str(value), *cells)
    return table


def _of_plan(plan: "Plan") -> "Table":
    from laconic.core.capabilities import Budgeted
    from laconic.deploy.execute import parties_of
    from laconic.plan.plan import keep_budget, least_rows
    from laconic.privacy.accounting import events_of, together

    federation = parties_of(plan)
    method = keep_budget(plan, federation)
    if not isinstance(method, Budgeted):
        raise PlanError(f"{type(plan.method).__name__} puts no priced noise on anything; FedOnce can")
    rows = least_rows(plan, federation)
    found = method.expected_noise(rows, federation.hub, federation.peers)
    events = {
        party: together({str(number): events_of(noise) for number, noise in enumerate(noises)})
        for party, noises in found.items()
        if noises
    }
    accountant, delta = plan.budget.accountant, plan.budget.delta
    table = _table(
        f"{type(method).__name__}, {rows:,} training rows, delta {delta:g}", "party", "sigma", "steps", "epsilon"
    )
    for party, noises in found.items():
        for noise in noises:
            alone = accountant.epsilon({party: events_of(noise)}, delta)
            proven = "" if noise.proven else " claimed, not proven"
            table.add_row(party, f"{noise.multiplier or 0:.4g}", f"{noise.count:,}", f"{alone:.4g}{proven}")
    if events:
        table.add_row("all together", "", "", f"{accountant.epsilon(events, delta):.4g}", style="bold")
    return table


def _accountants() -> "tuple[AnyAccountant, ...]":
    from laconic.privacy.accounting import Moments, Pld, Rdp, SimpleDivision

    return Pld(), Rdp(), Moments(), SimpleDivision()


def _table(title: str, *headings: str) -> "Table":
    from laconic.report.words import make_table

    return make_table(headings, right=headings[1:], title=title)


@click.command(short_help="Attack a saved run: what could a curious party find out?")
@click.argument("result", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="RESULT.json")
@click.option("--known", default=100, show_default=True, help="Rows of another party that an attacker knows in full.")
@click.option("--shadows", default=0, show_default=True, help="Models an attacker trains to find out who took part.")
@click.option("--save", type=FILE, metavar="FILE", help="Also write what was found, for `laconic disclose --audit`.")
def audit(result: Path, known: int, shadows: int, save: Path | None) -> None:
    """Run a saved result again and attack it: who took part, what columns hold, who has which label.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --save run.json
      laconic audit run.json --known 50 --save audit.json
      laconic disclose run.json --party shop --audit audit.json -o shop.html
    """
    import msgspec

    from laconic.align.alignment import ExactMatch
    from laconic.atomic_files import refuse_unwritable
    from laconic.audit.audit_run import audit as attack
    from laconic.deploy.execute import parties_of
    from laconic.deploy.tuning import read_results
    from laconic.methods.registry import read_method
    from laconic.plan.plan import DataPlan, Plan
    from laconic.report.disclosure import write_audit
    from laconic.report.tables import show_findings, show_price

    if save is not None:
        refuse_unwritable(save)
    record, *more = read_results(result)
    if more:
        raise PlanError(
            f"{result} holds {1 + len(more)} runs; save the one to attack with: laconic run ... --save FILE"
        )
    if "plan" not in record.data:
        raise PlanError(f"{result} does not say where its rows came from; save it with: laconic run ... --save FILE")
    data = msgspec.convert(record.data["plan"], DataPlan)
    method = read_method(record.method)
    found: list[Finding] = []
    with showing_done("findings", found, lambda: show_findings(found)), showing_progress():
        attack(
            method,
            parties_of(Plan(method=method, data=data, seed=record.seed)),
            seed=record.seed,
            known=known,
            shadows=shadows,
            align=ExactMatch(test=data.test, valid=data.valid),
            each=found.append,
        )
    show(show_findings(found))
    if record.privacy is not None:
        show(show_price(record.privacy))
    if save is not None:
        write_audit(save, record, found, known=known, shadows=shadows)
        click.echo(f"Wrote {save}.")


@click.command(cls=ManyFiles, short_help="What widths of FedOnce are worth, cost and give away.")
@click.argument("source", metavar="[METHOD|PLAN.toml]", default="FedOnce")
@plan_options
@click.option("--known", default=100, show_default=True, help="Rows of another party that an attacker knows in full.")
@click.pass_context
def widths(context: click.Context, source: str, known: int) -> None:
    """Compare widths of FedOnce's encoder before you choose one: score, bytes, and how well columns can be rebuilt.

    Scores are of validation rows; test rows are not looked at. The label holder alone comes first.

    \b
    Examples:
      laconic widths --data breast_cancer
      laconic widths --files bank.csv shop.csv --id customer --label churned
      laconic widths --data breast_cancer --encoder Pca
    """
    from laconic.align.alignment import ExactMatch
    from laconic.audit.leakage import compare_widths
    from laconic.deploy.execute import parties_of
    from laconic.methods.vertical.fedonce import FedOnce
    from laconic.plan.plan import keep_budget
    from laconic.report.tables import show_widths

    plan = plan_from(source, context)
    federation = parties_of(plan)
    method = keep_budget(plan, federation)
    if not isinstance(method, FedOnce):
        raise PlanError(f"{type(method).__name__} has no encoder whose width could be chosen; FedOnce has")
    align = ExactMatch(test=plan.data.test, valid=plan.data.valid)
    found: list[Width] = []
    with showing_done("widths", found, lambda: show_widths(found)), showing_progress():
        compare_widths(method, federation, seed=plan.seed, known=known, align=align, each=found.append)
    show(show_widths(found))
