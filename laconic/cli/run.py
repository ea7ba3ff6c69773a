"""`laconic run`: one method, one federation, one result."""

from pathlib import Path

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
    showing_progress,
)
from laconic.errors import PlanError


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
@columns_option
@click.pass_context
def run(
    context: click.Context,
    source: str,
    as_json: bool,
    save: Path | None,
    model: Path | None,
    replace: bool,
    every_column: bool,
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
    elif replace:
        raise PlanError("--replace is for a saved model: name its folder with --model FOLDER")
    card = None
    with showing_progress() as listener:
        if model is None:
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
