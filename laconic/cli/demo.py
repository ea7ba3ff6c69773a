"""`laconic demo`: what a federation gains, and what it costs, in under a minute."""

from pathlib import Path

import click

from laconic.cli.group import debug_option
from laconic.cli.progress import showing_progress


@click.command(short_help="See a federation at work, in under a minute.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("laconic-demo"),
    show_default=True,
    help="Where to put two small CSV files to go on with.",
)
@debug_option
def demo(folder: Path) -> None:
    """Three organisations learn together: alone, in one exchange, in many, and pooled, side by side.

    Needs no network and no files.
    """
    from rich.console import Console
    from rich.markup import escape

    from laconic.demo import INTRODUCTION, READING_HELP, run_demo, write_files
    from laconic.report.tables import show_comparison

    console = Console()
    console.print(escape(INTRODUCTION), "\n")
    with showing_progress() as listener:
        results = run_demo(listener)
    console.print(show_comparison(results))
    console.print(escape(READING_HELP))
    command = write_files(folder)
    console.print("\nNext, files of your own, one a party. Two to begin with are there already:\n")
    # Printed as it is: a command that was wrapped could not be copied.
    click.echo(f"  {command}")
