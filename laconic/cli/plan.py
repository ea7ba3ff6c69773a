"""`laconic plan`: the whole plan of a run, to read, keep, change and run."""

import click

from laconic.cli.group import debug_option
from laconic.cli.options import ManyFiles, plan_from, plan_options


@click.command(cls=ManyFiles, short_help="Write the plan of a run as TOML.")
@click.argument("source", metavar="METHOD|PLAN.toml")
@plan_options
@debug_option
@click.pass_context
def plan(context: click.Context, source: str) -> None:
    """Write the whole plan of a run, with its defaults, as commented TOML.

    \b
    Examples:
      laconic plan FedOnce --data breast_cancer > my-plan.toml
      laconic run my-plan.toml
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.plan import write_plan

    click.echo(write_plan(plan_from(source, context)), nl=False)
