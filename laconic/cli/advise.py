"""`laconic advise`: which methods suit, and what each would cost, before anything is trained or sent."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import (
    FOLDER,
    Change,
    ManyFiles,
    changes_of,
    plan_options,
    plan_with,
    read_aloud,
    refuse_no_plan,
    show,
    showing_progress,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from laconic.core.method import Method


@click.command(short_help="List the methods and what leaves each party.")
def methods() -> None:
    """List the methods: what each does, how often it talks, and what leaves each party."""
    from laconic.core.capabilities import CAPABILITIES
    from laconic.methods import registry

    headings = ("method", "rounds", "what it is, and what may leave each party, in its steps' words")
    show(_table(headings, [_method(one) for one in registry.methods().values()]))
    show(_table(("offers", "what that means"), [(one.__name__.lower(), _first_line(one)) for one in CAPABILITIES]))


@click.command(short_help="List the public data sets.")
def data() -> None:
    """List the public data sets, and whether their files are at hand."""
    import os

    from rich.text import Text

    from laconic.data.datasets import VARIABLE, names

    folder = os.environ.get(VARIABLE)
    from_files = f"files in {folder}" if folder else f"needs files: set {VARIABLE}"
    rows = [(name, Text(line), Text(from_files if needs_files else "at hand")) for name, line, needs_files in names()]
    show(_table(("data", "what it is", "where"), [*rows]))


def _method(kind: "type[Method]") -> "tuple[RenderableType, ...]":
    from rich.text import Text

    from laconic.core.capabilities import capabilities_of
    from laconic.core.step import steps_of

    rounds = kind().rounds
    steps = steps_of(kind).values()
    leaving = {f"\nfrom peers: {step.gives}": None for step in steps if step.gives}
    leaving |= {f"\nfrom the hub: {step.takes}": None for step in steps if step.takes}
    rows = "\nlearns from rows that all parties share" if kind.kind == "vertical" else ""
    rows += ", and from each party's other rows" if "own" in kind.uses else ""
    offered = ", ".join(one.__name__.lower() for one in capabilities_of(kind))
    offers = f"\noffers: {offered}" if offered else ""
    leaves = leaving or ("\nnothing leaves any party",)
    words = Text.assemble((_first_line(kind), "bold"), *leaves, (rows + offers, "italic"))
    return kind.__name__, "as needed" if rounds is None else str(rounds), words


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _table(headings: tuple[str, ...], rows: "list[tuple[RenderableType, ...]]") -> "Table":
    from laconic.report.words import make_table

    table = make_table(headings)
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*row)
    return table


@click.command(short_help="See a federation at work, in under a minute.")
@click.option("--folder", type=FOLDER, default=Path("laconic-demo"), show_default=True,
              help="Where to put two small CSV files to go on with.")  # fmt: skip
def demo(folder: Path) -> None:
    """Three organisations learn together: alone, in one exchange, in many, and pooled, side by side.

    Needs no network and no files.
    """
    from rich.markup import escape

    from laconic.cli.demo_runs import INTRODUCTION, READING_HELP, run_demo, write_files
    from laconic.report.tables import show_comparison

    show(escape(INTRODUCTION), "\n")
    with showing_progress() as listener:
        results = run_demo(listener)
    show(show_comparison(results))
    show(escape(READING_HELP))
    command = write_files(folder)
    show("\nNext, files of your own, one per party. Two to begin with are there already:\n")
    # Printed as it is: a command that was wrapped could not be copied.
    click.echo(f"  {command}")


if TYPE_CHECKING:
    from rich.table import Table

    from laconic.data.federation import Federation
    from laconic.deploy.advice import Advice
    from laconic.plan.plan import Plan


@click.command(cls=ManyFiles, short_help="Which methods suit, and what each would send, before a run.")
@click.argument("source", metavar="[PLAN.toml]", required=False)
@plan_options
@click.option("--link", default="10Mbit", show_default=True, metavar="SPEED", help="Of the line to each party: 1Gbit.")
@click.option("--ping", type=click.FloatRange(0), default=0.05, show_default=True, help="Seconds there and back.")
@click.option("--exchanges", type=click.IntRange(1), metavar="N", help="How often the hub may ask. [any number]")
@click.option("--labels-may-leave", is_flag=True, help="Also methods from which others can read labels.")
@click.option("--raw-may-leave", is_flag=True, help="Also pooling: raw columns are handed over.")
@click.option("--json", "as_json", is_flag=True, help="Print the advice as one JSON object.")
@click.pass_context
def advise(
    context: click.Context,
    source: str | None,
    link: str,
    ping: float,
    exchanges: int | None,
    labels_may_leave: bool,
    raw_may_leave: bool,
    as_json: bool,
) -> None:
    """Name two or three methods for your files, with what each would send, how often, and how long that takes.

    Nothing is sent. Each candidate is played on a few hundred of the rows, here, and carried on to all of them. Bytes
    and rounds come out within 5 % of a run's, or are the most where training may stop early. The time
    of learning comes out within a factor of 5. Raw columns stay, and so do labels, unless you say otherwise. It ends
    with the command to compare them.

    \b
    Examples:
      laconic advise --files bank.csv shop.csv --id customer --label churned --link 10Mbit
      laconic advise --files bank.csv shop.csv --id customer --label churned --exchanges 3 --labels-may-leave
      laconic advise --files north.csv south.csv west.csv --label diagnosis --json
      laconic advise my-plan.toml --link 2Mbit
    """
    from laconic.deploy.advice import RunLimits, read_link
    from laconic.deploy.advice import advise as work_out

    limits = RunLimits(
        link=read_link(link),
        ping=ping,
        exchanges=exchanges,
        labels_may_leave=labels_may_leave,
        raw_may_leave=raw_may_leave,
    )
    plan, federation = _parties(source, changes_of(context))
    if not as_json:
        read_aloud(False)(federation)
    with showing_progress() as listener:
        found = work_out(federation, limits, seed=plan.seed, listener=listener)
    if as_json:
        click.echo(found.to_json())
        return
    rows = f"{found.rows:,} training rows" + (" that all share" if found.kind == "vertical" else " in all")
    click.echo(f"For {found.parties} parties with {rows}, at {limits.link / 1e6:g} Mbit/s:")
    show(_shown(found))
    for line in _sentences(found, _command(plan, found)):
        click.echo(line)


def _parties(source: str | None, changes: list[Change]) -> "tuple[Plan, Federation]":
    """The plan's parties: vertical or horizontal, as their tables say."""
    from laconic.deploy.execute import parties_of

    if source is not None:
        if Path(source).suffix != ".toml":
            raise PlanError(f"give a plan file (NAME.toml), or your files after --files; {source!r} is neither")
        refuse_no_plan(Path(source))
    plan = plan_with(source or _usual(changes), changes)
    return plan, parties_of(plan)


def _usual(changes: list[Change]) -> str:
    """A method of the kind that the files are for, to make a plan with: which kind, their columns say."""
    from laconic.data.readers.cells import plain_name
    from laconic.data.readers.federate import by_party, kind_of, read_file

    said = dict(changes)
    paths, label = said.get("data.files"), said.get("data.label")
    if not isinstance(paths, list) or not isinstance(label, str) or any(str(one).endswith(".toml") for one in paths):
        return "FedOnce"
    id_name = said.get("data.id")
    id_name = id_name if isinstance(id_name, str) else None
    frames = {party: read_file(party, path, id_name, [label]) for party, path in by_party(paths).items()}
    return "FedAvg" if kind_of(frames, plain_name(label), id_name) == "horizontal" else "FedOnce"


def _shown(advice: "Advice") -> "Table":
    from rich.text import Text

    from laconic.report.words import in_bytes, in_seconds, make_table

    numbers = ("bytes", "rounds", "on the line", "learning")
    table = make_table(("method", *numbers, "labels"), right=numbers)
    for one in advice.candidates:
        most = "up to " if one.at_most else ""
        cost = (f"{most}{in_bytes(one.bytes)}", f"{most}{one.rounds:,}")
        times = (in_seconds(one.line_seconds), in_seconds(one.learning_seconds))
        labels = Text("leave", "yellow") if one.labels_leave else Text("stay", "green")
        table.add_row(one.method, *cost, *times, labels)
    return table


def _sentences(advice: "Advice", command: str) -> list[str]:
    """Why each is named, why others are not, how figures were found, and what to type next."""
    said = [
        f"{one.method}: {one.why}. What leaves: {'; '.join(one.leaves) or 'nothing made from rows'}."
        for one in advice.candidates
    ]
    said += [f"Not {name}: {reason}." for name, reason in advice.left_out.items()]
    if not advice.candidates:
        return [*said, "No method is within these limits; allow more exchanges, or let more leave."]
    return [*said, "", advice.model, "", f"To compare them on your rows: {command}"]


def _command(plan: "Plan", advice: "Advice") -> str:
    """The command that compares the candidates."""
    from shlex import join

    data = plan.data
    words = ["laconic", "compare", *(one.method for one in advice.candidates)]
    words += (
        ["--data", data.name, "--parties", str(data.parties)] if data.name is not None else ["--files", *data.paths]
    )
    options = {"--id": data.id, "--label": data.label, "--event": data.event, "--public": data.public}
    options |= {"--split-by": data.split_by, "--group": data.group}
    for option, value in options.items():
        words += [] if value is None else [option, value]
    return join(words)
