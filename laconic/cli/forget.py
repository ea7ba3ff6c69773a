"""`laconic forget`: a party leaves a saved model."""

from pathlib import Path

import click

from laconic.cli.group import debug_option


@click.command(short_help="Delete what a saved model keeps of a party.")
@click.argument("party")
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path, exists=True, file_okay=False))
@debug_option
def forget(party: str, folder: Path) -> None:
    """Delete a party's stored answers and all that the hub learnt from them, and refit without it; nobody is contacted.

    What was deleted is written to forgotten.jsonl in the hub's folder, with the digests of all files before and after.

    \b
    Examples:
      laconic forget shop churn
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from rich.console import Console

    from laconic.model.leaving import RECORD
    from laconic.model.leaving import forget as leave
    from laconic.model.model import hub_folder
    from laconic.model.show import show_card

    record, card = leave(folder, party)
    gone = [name for name in record.before if name not in record.after]
    click.echo(f"{party} is forgotten: its answers about {record.people:,} people are deleted ({', '.join(gone)}).")
    click.echo(f"What may stay: {record.stays}.")
    click.echo(f"The record is in {hub_folder(folder) / RECORD}.")
    Console().print(show_card(card))
