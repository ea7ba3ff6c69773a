"""`laconic run`: one method, one federation, one result."""

from pathlib import Path

import click

from laconic.cli.group import debug_option
from laconic.cli.options import ManyFiles, plan_from, plan_options
from laconic.cli.progress import showing_progress
from laconic.core.errors import PlanError


@click.command(cls=ManyFiles, short_help="Run a method or a plan, and show the result.")
@click.argument("source", metavar="METHOD|PLAN.toml")
@plan_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Save the result as JSON."
)
@debug_option
@click.pass_context
def run(context: click.Context, source: str, as_json: bool, save: Path | None) -> None:
    """Run a method, or a plan from a file, and show what it scored, what crossed and what was given away.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --parties 3
      laconic run FedOnce --data breast_cancer --set method.encoder.dim=8 --set 'method.precision="float16"'
      laconic run SplitNN --data digits --parties 4 --json --save splitnn.json
      laconic run FedOnce --files bank.csv shop.csv --id customer --label churned
      laconic run my-plan.toml --seed 1
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.plan import execute

    plan = plan_from(source, context)
    if save is not None and not save.absolute().parent.is_dir():
        raise PlanError(f"cannot save {save}: there is no folder {save.parent}; make it first")
    with showing_progress() as listener:
        result = execute(plan, listener=listener)
    if save is not None:
        result.save(save)
    if as_json:
        click.echo(result.to_json())
        return
    from rich.console import Console

    from laconic.report.tables import show_result

    Console().print(show_result(result))
