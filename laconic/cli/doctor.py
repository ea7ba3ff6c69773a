"""`laconic doctor`: what is wrong with a party's data, before anything is sent."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import debug_option

if TYPE_CHECKING:
    from rich.table import Table

    from laconic.doctor.checks import Together
    from laconic.doctor.columns import Diagnosis

_STYLES = {"fine": "green", "note": "yellow", "wrong": "bold red"}


@click.command(short_help="Check party files and their data before anything is sent.")
@click.argument("files", metavar="PARTY.toml...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Add the kinds inferred from the cells to the party file, for approval.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")
@debug_option
@click.pass_context
def doctor(context: click.Context, files: tuple[Path, ...], write: bool, as_json: bool) -> None:
    """Check a party's ids and columns, alone and without sending anything; with several files, match their rows too.

    A site's folder stands for the party file in it; then versions, certificates, ports and the clock are looked at too.
    Ends with exit code 1 if anything is wrong.

    \b
    Examples:
      laconic doctor bank.toml
      laconic doctor bank.toml --write
      laconic doctor sites/bank
      laconic doctor bank.toml shop.toml insurer.toml
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    import msgspec
    from rich.console import Console

    from laconic.deploy.party_config import read_party
    from laconic.doctor.checks import examine, match_parties
    from laconic.doctor.columns import write_columns

    parties = [read_party(path / "party.toml" if path.is_dir() else path) for path in files]
    found = {party.name: list(examine(party)) for party in parties}
    wrong = any(one.level == "wrong" for some in found.values() for one in some)
    together = match_parties(files) if len(files) > 1 and not wrong else None
    if as_json:
        whole = {"parties": found} | ({} if together is None else {"together": together})
        click.echo(msgspec.json.encode(whole))
    else:
        console = Console()
        for name, some in found.items():
            console.print(_shown(name, some))
        if together is not None:
            console.print(_shown_together(together))
    if write and not wrong:
        for party in parties:
            kinds = write_columns(party)
            click.echo(f"Wrote {len(kinds)} columns to {party.path}; read them, and correct what is wrong.", err=True)
    context.exit(1 if wrong else 0)


def _shown(name: str, found: "list[Diagnosis]") -> "Table":
    from rich.text import Text

    table = _table(name, "", "about", "found", "to do")
    for one in found:
        table.add_row(Text(one.level, _STYLES[one.level]), Text(one.about), Text(one.words), Text(one.remedy))
    return table


def _shown_together(together: "Together") -> "Table":
    from rich.text import Text

    table = _table(
        f"Together: {together.shared:,} rows at every party", "party", "rows", "shared by some", "alone", "fingerprint"
    )
    for name, rows in together.rows.items():
        some = together.some[name]
        counts = (rows, some, rows - together.shared - some)
        table.add_row(Text(name), *(f"{count:,}" for count in counts), together.fingerprints[name][:8])
    return table


def _table(title: str, *headings: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading)
    return table
