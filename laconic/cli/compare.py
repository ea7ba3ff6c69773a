"""`laconic compare`: several methods on the same splits, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import (
    FILE,
    Change,
    ManyFiles,
    changes_of,
    columns_option,
    plan_options,
    plan_with,
    read_aloud,
    show,
    showing_progress,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.result import Result
    from laconic.deploy.compare import OnResult
    from laconic.deploy.tuning import Allowance
    from laconic.plan.plan import Plan
    from laconic.values import Listener


@click.command(cls=ManyFiles, short_help="Run several methods on the same splits, side by side.")
@click.argument("sources", metavar="METHOD|PLAN.toml...", nargs=-1, required=True)
@plan_options
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Runs of each method.")
@click.option("--tune", is_flag=True, help="Find each arm's settings on validation rows, at equal effort.")
@click.option("--trials", type=click.IntRange(1), metavar="N", help="With --tune: settings tried of each. [12]")
@click.option("--seconds", type=float, metavar="S", help="With --tune: processor seconds for each arm. [300]")
@click.option("--save", type=FILE, metavar="FILE", help="Save each result as a JSON line. [compare-DATA.jsonl]")
@click.option("--report", type=FILE, metavar="FILE", help="Write an HTML page too.")
@click.option("--yardsticks/--no-yardsticks", default=True, help="Add the label holder alone, and all pooled. [added]")
@click.option("--leakage", is_flag=True, help="Measure how well others can rebuild columns from what leaves openly.")
@columns_option
@click.pass_context
def compare(
    context: click.Context,
    sources: tuple[str, ...],
    seeds: int,
    tune: bool,
    trials: int | None,
    seconds: float | None,
    save: Path | None,
    report: Path | None,
    yardsticks: bool,
    leakage: bool,
    every_column: bool,
) -> None:
    """Run several methods on the same splits and show one table: score, bytes, rounds, privacy, what was released.

    Each result is saved as it finishes. After Ctrl-C, the same command goes on from there.

    With --tune, every arm, the yardsticks too, gets the same number of trials, the same processor seconds and the same
    rule for stopping, for each seed. Trials see no test rows. The table says what each arm chose, and whether it was
    capped.

    \b
    Examples:
      laconic compare FedOnce SplitNN Rap --data breast_cancer --parties 3 --seeds 3
      laconic compare FedOnce SplitNN --data digits --look-every 5 --report digits.html
      laconic compare FedOnce Rap --files bank.csv shop.csv --id customer --label churned --leakage --report page.html
      laconic compare FedAvg Scaffold --files north.csv south.csv west.csv --label diagnosis
      laconic compare FedOnce SplitNN Rap --data breast_cancer --tune --trials 8 --seconds 60
      laconic compare FedOnce SplitNN --data digits --set SplitNN.trainer.epochs=50 --set FedOnce.encoder.dim=8
    """
    from laconic.atomic_files import refuse_unwritable
    from laconic.audit.leakage import execute_measured
    from laconic.deploy.compare import compare_plans as run_all
    from laconic.report.tables import show_arms

    plans = _plans(sources, changes_of(context), yardsticks=yardsticks)
    data = plans[0].data
    path = save or Path(f"compare-{data.name or '-'.join(Path(file).stem for file in data.paths)}.jsonl")
    refuse_unwritable(path, report)
    first = plans[0].seed
    allowance = _allowance(tune, trials, seconds)
    with showing_progress() as listener:
        results = run_all(
            plans,
            range(first, first + seeds),
            path,
            tune=allowance,
            run=execute_measured if leakage else None,
            listener=listener,
            on_result=_teller(listener, path),
            on_read=read_aloud(every_column),
        )
    show(show_arms(results))
    if report is not None:
        from laconic.cli.report import write_report

        write_report(results, report)
    else:
        click.echo(f"Saved in {path}. As a page: laconic report {path} -o page.html")


def _allowance(tune: bool, trials: int | None, seconds: float | None) -> "Allowance | None":
    """What each arm may spend on its settings; None without --tune."""
    from laconic.deploy.tuning import Allowance

    given = [name for name, value in (("trials", trials), ("seconds", seconds)) if value is not None]
    if given and not tune:
        raise PlanError(f"--{given[0]} is for --tune, which finds each arm's settings; add --tune")
    usual = Allowance()
    allowed = Allowance(trials=trials or usual.trials, seconds=usual.seconds if seconds is None else seconds)
    return allowed if tune else None


def _plans(sources: tuple[str, ...], changes: list[Change], *, yardsticks: bool) -> "list[Plan]":
    """The plans to compare: each source with the changes for all, and with those for its method alone."""
    import msgspec

    from laconic.deploy.compare import YARDSTICKS, refuse_unlike
    from laconic.methods.registry import methods
    from laconic.plan.plan import Budget
    from laconic.plan.text import change_plan, to_plain

    known = {_lower(kind) for kind in methods().values()}
    own = {key: name for key, _ in changes if (name := key.partition(".")[0].casefold()) in known}
    shared = [(key, value) for key, value in changes if key not in own]
    plans = [plan_with(source, shared) for source in sources]
    refuse_unlike(plans)
    if yardsticks:
        there = {type(plan.method) for plan in plans}
        # Without a budget: a yardstick shows what pooling everything, or nothing, gives.
        alone, pooled = (
            [] if kind in there else [msgspec.structs.replace(plans[0], method=kind(), budget=Budget())]
            for kind in YARDSTICKS[plans[0].method.kind]
        )
        plans = [*alone, *plans, *pooled]
    named = [_lower(type(plan.method)) for plan in plans]
    strangers = [key for key, name in own.items() if name not in named]
    if strangers:
        raise PlanError(f"--set {strangers[0]}=... is for a method that is not compared; name it, or leave this out")
    return [
        change_plan(
            to_plain(plan),
            [(f"method.{key.partition('.')[2]}", value) for key, value in changes if own.get(key) == name],
        )
        for plan, name in zip(plans, named, strict=True)
    ]


def _lower(kind: type) -> str:
    return kind.__name__.casefold()


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
