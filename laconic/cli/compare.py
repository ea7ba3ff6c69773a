"""`laconic compare`: several methods on the same splits, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import Change, ManyFiles, changes_of, debug_option, plan_options, plan_with, showing_progress
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.result import Result
    from laconic.deploy.compare import OnResult
    from laconic.plan.plan import Plan
    from laconic.values import Listener


@click.command(cls=ManyFiles, short_help="Run several methods on the same splits, side by side.")
@click.argument("sources", metavar="METHOD|PLAN.toml...", nargs=-1, required=True)
@plan_options
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Runs of each method.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where results are kept as they finish, a JSON line each. [compare-DATA.jsonl]",
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write an HTML page too."
)
@click.option("--yardsticks/--no-yardsticks", default=True, help="Add the label holder alone, and all pooled. [added]")
@debug_option
@click.pass_context
def compare(
    context: click.Context,
    sources: tuple[str, ...],
    seeds: int,
    save: Path | None,
    report: Path | None,
    yardsticks: bool,
) -> None:
    """Run several methods on the same splits and show one table: score, bytes, rounds, privacy, what was released.

    Each result is kept as it finishes. After Ctrl-C, the same command goes on from there.

    \b
    Examples:
      laconic compare FedOnce SplitNN Rap --data breast_cancer --parties 3 --seeds 3
      laconic compare FedOnce SplitNN --data digits --look-every 5 --report digits.html
      laconic compare FedOnce Rap --files bank.csv shop.csv --id customer --label churned
      laconic compare FedAvg Scaffold --files north.csv south.csv west.csv --label diagnosis
      laconic compare FedOnce SplitNN --data digits --set SplitNN.trainer.epochs=50 --set FedOnce.encoder.dim=8
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from rich.console import Console

    from laconic.atomic_files import refuse_unwritable
    from laconic.deploy.compare import compare as run_all
    from laconic.report.tables import show_arms

    plans = _plans(sources, changes_of(context), yardsticks=yardsticks)
    path = save or Path(f"compare-{_name_of(plans[0])}.jsonl")
    refuse_unwritable(path, report)
    first = plans[0].seed
    with showing_progress() as listener:
        results = run_all(
            plans, range(first, first + seeds), path, listener=listener, on_result=_teller(listener, path)
        )
    Console().print(show_arms(results))
    if report is not None:
        from laconic.cli.report import write_report

        write_report(results, report)
    else:
        click.echo(f"Kept in {path}. As a page: laconic report {path} -o page.html")


def _plans(sources: tuple[str, ...], changes: list[Change], *, yardsticks: bool) -> "list[Plan]":
    """The plans to compare: each source with the changes for all, and with those for its method alone."""
    import msgspec

    from laconic.deploy.compare import YARDSTICKS, refuse_unlike
    from laconic.plan.plan import Budget

    own = {key: key.partition(".")[0].casefold() for key, _ in changes if _is_method(key.partition(".")[0])}
    shared = [(key, value) for key, value in changes if key not in own]
    plans = [plan_with(source, shared) for source in sources]
    refuse_unlike(plans)
    if yardsticks:
        there = {type(plan.method) for plan in plans}
        # They promise nothing: what they give away, or do not, is the point of them.
        alone, pooled = (
            [] if kind in there else [msgspec.structs.replace(plans[0], method=kind(), budget=Budget())]
            for kind in YARDSTICKS[plans[0].method.kind]
        )
        plans = [*alone, *plans, *pooled]
    strangers = [key for key, name in own.items() if name not in {_method_of(plan).casefold() for plan in plans}]
    if strangers:
        raise PlanError(f"--set {strangers[0]}=... is for a method that is not compared; name it, or leave this out")
    return [_with_own(plan, [(key, value) for key, value in changes if own.get(key)]) for plan in plans]


def _with_own(plan: "Plan", changes: list[Change]) -> "Plan":
    """The plan with what `Name.setting` says of its method."""
    from laconic.plan.text import change_plan, to_plain

    name = _method_of(plan).casefold()
    mine = [(key.partition("."), value) for key, value in changes]
    return change_plan(
        to_plain(plan), [(f"method.{key[2]}", value) for key, value in mine if key[0].casefold() == name]
    )


def _is_method(word: str) -> bool:
    from laconic.methods.registry import methods

    return word.casefold() in {name.casefold() for name in methods()}


def _method_of(plan: "Plan") -> str:
    return type(plan.method).__name__


def _name_of(plan: "Plan") -> str:
    files = plan.data.files.values() if isinstance(plan.data.files, dict) else plan.data.files
    return plan.data.name or "-".join(Path(file).stem for file in files)


def _teller(listener: "Listener | None", path: Path) -> "OnResult":
    """Say a line for each run that ends, above the progress bars if there are any."""

    def tell(result: "Result | None", done: int, of: int) -> None:
        if listener is not None:
            listener("runs", done, of)
        if result is None:
            if done:
                click.echo(f"{done} of {of} runs are in {path} already; remove it to run them again", err=True)
            return
        from laconic.report.words import one_line

        click.echo(f"{done} of {of}: {one_line(result)}", err=True)

    return tell
