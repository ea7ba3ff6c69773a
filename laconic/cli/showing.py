"""A result as commands hand it over: saved where asked, and shown as tables or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from laconic.core.result import Result


def hand_over(result: "Result", as_json: bool, save: Path | None) -> None:
    """Save the result if asked, and show it."""
    if save is not None:
        result.save(save)
    if as_json:
        click.echo(result.to_json())
        return
    from rich.console import Console

    from laconic.report.tables import show_result

    Console().print(show_result(result))
