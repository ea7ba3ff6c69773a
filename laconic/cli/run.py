"""`laconic run`: one method, one federation, one result; `laconic compare`: several methods on the same splits."""

from contextlib import contextmanager
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
    say_what_lies_open,
    show,
    watch_option,
    watch_run,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laconic.plan.plan import Plan

from typing import TYPE_CHECKING

from laconic.cli.options import (
    FILE,
    Change,
    changes_of,
    plan_with,
    showing_progress,
)

if TYPE_CHECKING:
    from laconic.deploy.result import Result
    from laconic.deploy.tuning import Allowance, OnResult
    from laconic.plan.plan import Plan
    from laconic.values import Listener


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
    card, on_read = None, read_aloud(every_column, [plan.method])
    with watch_run(watched, _title(plan)) as listener:
        if leakage:
            from laconic.audit.leakage import execute_measured

            result = execute_measured(plan, listener=listener, on_read=on_read)
        elif model is None:
            result = execute(plan, listener=listener, on_read=on_read)
        else:
            from laconic.deploy.execute import own_data_of, priced
            from laconic.inference.save import save_model
            from laconic.plan.text import write_plan

            trained = execute_and_keep(plan, listener=listener, on_read=on_read)
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
    from laconic.deploy.tuning import compare_plans as run_all
    from laconic.report.tables import show_arms

    plans = _plans(sources, changes_of(context), yardsticks=yardsticks)
    data = plans[0].data
    path = save or Path(f"compare-{data.name or '-'.join(Path(file).stem for file in data.paths)}.jsonl")
    refuse_unwritable(path, report)
    first = plans[0].seed
    allowance = _allowance(tune, trials, seconds)
    methods = [plan.method for plan in plans]
    if data.name is not None:
        say_what_lies_open(methods)
    with _naming_kept(path), showing_progress() as listener:
        results = run_all(
            plans,
            range(first, first + seeds),
            path,
            tune=allowance,
            run=execute_measured if leakage else None,
            listener=listener,
            on_result=_teller(listener, path),
            on_read=read_aloud(every_column, methods),
        )
    show(show_arms(results))
    if report is not None:
        from laconic.cli.report import write_report

        write_report(results, report)
    else:
        click.echo(f"Saved in {path}. As a page: laconic report {path} -o page.html")


@contextmanager
def _naming_kept(path: Path) -> "Iterator[None]":
    """When Ctrl-C ends this block, say how many runs are kept, those of an earlier start too."""
    from laconic.deploy.result import read_records
    from laconic.deploy.tuning import is_run
    from laconic.shown import counted

    try:
        yield
    except KeyboardInterrupt:
        records = read_records(path) if path.is_file() else []
        runs = sum(map(is_run, records))
        trials = f" and {counted(len(records) - runs, 'trial')}" if len(records) > runs else ""
        kept = f"{path} keeps {counted(runs, 'run')}{trials}, and the same command goes on from there"
        click.echo(f"\nStopped. {kept if records else 'Nothing was finished, so nothing is kept'}.", err=True)
        click.get_current_context().exit(130)


@click.command(short_help="Run a paper's table at the paper's settings.")
@click.argument("paper")
@click.option("--table", "number", required=True, metavar="N", help="Which of the paper's tables.")
@click.option("--data", metavar="NAME", help="Its rows on this data set only.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Runs of each row.")
@click.option("--quick", is_flag=True, help="One seed and two epochs: shows that it runs, and no figure to go by.")
@click.option("--save", type=FILE, metavar="FILE", help="Save each result as a JSON line. [reproduce-PAPER.jsonl]")
def reproduce(paper: str, number: str, data: str | None, seeds: int, quick: bool, save: Path | None) -> None:
    """Run a paper's table at the paper's settings, and show our figures beside the paper's.

    Each result is saved as it finishes. After Ctrl-C, the same command goes on from there.

    \b
    Examples:
      laconic reproduce fedonce --table 7 --data phishing
      laconic reproduce fedonce --table 6 --quick
      laconic plan fedonce#phishing-table5
    """
    from laconic.atomic_files import refuse_unwritable
    from laconic.plan.published import read_table
    from laconic.report.published import lines_on, run_published, show_published

    lines = lines_on(read_table(paper, number), data, quick=quick)
    path = save or Path(f"reproduce-{paper}{'-quick' if quick else ''}.jsonl")
    refuse_unwritable(path)
    with _naming_kept(path), showing_progress() as listener:

        def tell(result: "Result | None", done: int, of: int) -> None:
            from laconic.report.words import one_line

            if result is not None:
                click.echo(f"seed {done} of {of}: {one_line(result)}", err=True)

        results = run_published(lines, range(1 if quick else seeds), path, listener, tell)
    few = ", quick: two epochs, no figure to go by" if quick else ""
    show(show_published(f"{paper}, table {number}{few}", lines, results))
    click.echo(f"Saved in {path}. What a preset sets: laconic plan {paper}#{lines[0].row.preset}")


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

    from laconic.deploy.tuning import YARDSTICKS, refuse_unlike
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
