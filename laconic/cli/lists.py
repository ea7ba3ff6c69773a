"""`laconic methods` and `laconic data`: what there is to choose from."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import FOLDER, show, showing_progress

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
