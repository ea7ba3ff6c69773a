"""`laconic methods` and `laconic data`: what there is to choose from."""

from typing import TYPE_CHECKING

import click

from laconic.cli.group import debug_option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from laconic.core.method import Method


@click.command(short_help="List the methods and what leaves each party.")
@debug_option
def methods() -> None:
    """List the methods: what each does, how often it talks, and what leaves each party."""
    from rich.console import Console

    from laconic.methods import METHODS

    headings = ("method", "rounds", "what it is, and what may leave each party, in its steps' words")
    Console().print(_table(headings, [_method(one) for one in METHODS]))


@click.command(short_help="List the public data sets.")
@debug_option
def data() -> None:
    """List the public data sets, and whether their files are at hand."""
    import os

    from rich.console import Console
    from rich.text import Text

    from laconic.data.sources import names
    from laconic.data.sources.reading import VARIABLE

    folder = os.environ.get(VARIABLE)
    from_files = f"files in {folder}" if folder else f"needs files: set {VARIABLE}"
    rows = [(name, Text(line), Text(from_files if needs_files else "at hand")) for name, line, needs_files in names()]
    Console().print(_table(("data", "what it is", "where"), [*rows]))


def _method(kind: "type[Method]") -> "tuple[RenderableType, ...]":
    from rich.text import Text

    from laconic.core.script import steps_of

    rounds = kind().rounds
    steps = steps_of(kind).values()
    leaving = {f"\nfrom peers: {step.gives}": None for step in steps if step.gives}
    leaving |= {f"\nfrom the hub: {step.takes}": None for step in steps if step.takes}
    rows = "\nlearns from rows that all parties share" if kind.kind == "vertical" else ""
    rows += ", and from each party's other rows" if "own" in kind.uses else ""
    words = Text.assemble(
        ((kind.__doc__ or "").partition("\n")[0], "bold"), *leaving or ("\nnothing leaves any party",), (rows, "italic")
    )
    return kind.__name__, "as needed" if rounds is None else str(rounds), words


def _table(headings: tuple[str, ...], rows: "list[tuple[RenderableType, ...]]") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    return table
