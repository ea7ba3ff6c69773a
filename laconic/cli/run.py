"""`laconic run`: one method, one federation, one result."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import (
    FOLDER,
    ManyFiles,
    columns_option,
    hand_over,
    plan_from,
    plan_options,
    read_aloud,
    result_options,
    show,
    watch_option,
    watch_run,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.plan.plan import Plan


@click.command(cls=ManyFiles, short_help="Run a method or a plan, and show the result.")
@click.argument("source", metavar="METHOD|PLAN.toml")
@plan_options
@result_options
@click.option(
    "--model",
    type=FOLDER,
    metavar="FOLDER",
    help="Save the trained model, a folder per party; see `laconic predict`.",
)
@click.option("--replace", is_flag=True, help="Replace a model that is already in that folder.")
@click.option("--leakage", is_flag=True, help="Measure how well others can rebuild columns from what leaves openly.")
@columns_option
@watch_option
@click.pass_context
def run(
    context: click.Context,
    source: str,
    as_json: bool,
    save: Path | None,
    model: Path | None,
    replace: bool,
    leakage: bool,
    every_column: bool,
    watched: bool,
) -> None:
    """Run a method, or a plan from a file, and show what it scored, what crossed and what was given away.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --parties 3
      laconic run FedOnce --data breast_cancer --set method.encoder.dim=8 --set 'method.precision="float16"'
      laconic run SplitNN --data digits --parties 4 --json --save splitnn.json
      laconic run FedOnce --files bank.csv shop.csv --id customer --label churned --columns
      laconic run FedOnce --files bank.csv shop.csv --id customer --label churned --model churn
      laconic run FedAvg --files north.csv south.csv west.csv --label diagnosis
      laconic run FedKt --files north.csv south.csv west.csv --label diagnosis --public open.csv
      laconic run SplitNN --files bank.csv shop.csv --id customer --label churned --look-every 50 --watch
      laconic run my-plan.toml --seed 1
    """
    from laconic.atomic_files import refuse_unwritable, refuse_unwritable_folder
    from laconic.deploy.execute import execute, execute_and_keep

    plan = plan_from(source, context)
    refuse_unwritable(save)
    if model is not None:
        from laconic.inference.bundle_files import refuse_full

        refuse_unwritable_folder(model)
        refuse_full(model, replace_old=replace)
    if leakage and model is not None:
        raise PlanError("--leakage listens to the whole run, and --model keeps what it made; give one of the two")
    if model is None and replace:
        raise PlanError("--replace is for a saved model: name its folder with --model FOLDER")
    card = None
    with watch_run(watched, _title(plan)) as listener:
        if leakage:
            from laconic.audit.leakage import execute_measured

            result = execute_measured(plan, listener=listener, on_read=read_aloud(every_column))
        elif model is None:
            result = execute(plan, listener=listener, on_read=read_aloud(every_column))
        else:
            from laconic.deploy.execute import own_data_of, priced
            from laconic.inference.save import save_model
            from laconic.plan.text import write_plan

            trained = execute_and_keep(plan, listener=listener, on_read=read_aloud(every_column))
            text, data, key = write_plan(plan), own_data_of(plan), trained.federation.id
            card = save_model(trained, model, id=key, plan=text, replace_old=replace, data=data)
            result = priced(trained.to_date(), plan)
    hand_over(result, as_json, save)
    if card is not None and not as_json:
        from laconic.report.tables import show_card

        show(show_card(card), f"\nSaved in {model}, one folder per party.")


def _title(plan: "Plan") -> str:
    """Which method runs on what, for a page."""
    files = plan.data.files.values() if isinstance(plan.data.files, dict) else plan.data.files
    names = [Path(one).name for one in files]
    return f"{type(plan.method).__name__} on {plan.data.name or ', '.join(names)}"


@click.command(cls=ManyFiles, short_help="Write the plan of a run as TOML.")
@click.argument("source", metavar="METHOD|PLAN.toml")
@plan_options
@click.pass_context
def plan(context: click.Context, source: str) -> None:
    """Write the whole plan of a run, with its defaults, as commented TOML.

    \b
    Examples:
      laconic plan FedOnce --data breast_cancer > my-plan.toml
      laconic run my-plan.toml
    """
    from laconic.plan.text import write_plan

    click.echo(write_plan(plan_from(source, context)), nl=False)
