"""`laconic doctor`: what is wrong with a party's data, before anything is sent."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import ManyFiles, columns_option, show
from laconic.errors import PlanError

if TYPE_CHECKING:
    from rich.table import Table

    from laconic.doctor.checks import Agreed, Diagnosis, Together

_STYLES = {"fine": "green", "note": "yellow", "wrong": "bold red"}


@click.command(cls=ManyFiles, short_help="Check party files, or plain files, before anything is sent.")
@click.argument("files", metavar="[PARTY.toml...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--files", "tables", metavar="FILE...", multiple=True, help="Plain CSV or Parquet files to look at.")
@click.option("--id", "id_name", metavar="COLUMN", help="With --files: who a row is about. Rows are then matched.")
@click.option("--label", metavar="COLUMN", help="With --files: the column to predict.")
@click.option(
    "--event", metavar="COLUMN", help="With --files: whether the event came, where the label is the time to it."
)
@columns_option
@click.option("--write", is_flag=True, help="Add the guessed kinds of columns to the party file, for you to check.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")
@click.pass_context
def doctor(
    context: click.Context,
    files: tuple[Path, ...],
    tables: tuple[str, ...],
    id_name: str | None,
    label: str | None,
    event: str | None,
    every_column: bool,
    write: bool,
    as_json: bool,
) -> None:
    """Check a party's ids and columns, alone and without sending anything; with several files, match their rows too.

    With --files, plain files are read as `laconic run` reads them: what each column is, and what looks odd.
    For a site's folder, versions, certificates, ports and the clock are checked too.
    Ends with exit code 1 if anything is wrong.

    \b
    Examples:
      laconic doctor bank.toml
      laconic doctor bank.toml --write
      laconic doctor sites/bank
      laconic doctor bank.toml shop.toml insurer.toml
      laconic doctor --files bank.csv shop.csv
      laconic doctor --files bank.csv shop.csv --id customer --label churned --columns
    """
    if bool(files) == bool(tables):
        raise PlanError("name party files (laconic doctor bank.toml), or plain files after --files; one of the two")
    if tables:
        if write:
            raise PlanError(
                "--write adds kinds to a party file; plain files have none: use --set data.kinds.COLUMN=..."
            )
        context.exit(_look_at_tables(tables, id_name, label, event, every=every_column, as_json=as_json))
    import msgspec

    from laconic.deploy.party_files import read_party
    from laconic.doctor.checks import agree_parties, examine, match_parties, write_columns

    parties = [read_party(path / "party.toml" if path.is_dir() else path) for path in files]
    found = {party.name: list(examine(party)) for party in parties}
    wrong = any(one.level == "wrong" for some in found.values() for one in some)
    agreed = agree_parties(_files(files)) if len(files) > 1 and not wrong else None
    together = match_parties(files) if len(files) > 1 and not wrong and agreed is None else None
    if as_json:
        whole: dict[str, object] = {"parties": found} | ({} if together is None else {"together": together})
        whole |= {} if agreed is None else {"agreed": agreed}
        click.echo(msgspec.json.encode(whole))
    else:
        for name, some in found.items():
            show(_shown(name, some))
        if together is not None:
            show(_shown_together(together))
        if agreed is not None:
            click.echo(_agreed_words(agreed))
    if write and not wrong:
        for party in parties:
            kinds = write_columns(party)
            click.echo(f"Wrote {len(kinds)} columns to {party.path}; read them, and correct what is wrong.", err=True)
    context.exit(1 if wrong else 0)


def _files(places: tuple[Path, ...]) -> list[Path]:
    return [path / "party.toml" if path.is_dir() else path for path in places]


def _agreed_words(agreed: "Agreed") -> str:
    rows = ", ".join(f"{name} {count:,}" for name, count in agreed.rows.items())
    classes = ", ".join(agreed.classes) or "a number"
    return f"Together: {agreed.columns} columns at every party; {agreed.label} is {classes}; rows to learn from: {rows}"


def _look_at_tables(
    paths: tuple[str, ...], id_name: str | None, label: str | None, event: str | None, *, every: bool, as_json: bool
) -> int:
    """Show what plain files hold and, if id and label are named, whether they fit together; the exit code."""
    import msgspec

    from laconic.doctor.checks import look_at_files

    found = look_at_files(paths, id_name, label, event)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return 1 if found.wrong else 0
    for party, reading in found.readings.items():
        for line in reading.lines(party, every=every):
            click.echo(line)
    for note in found.notes:
        click.echo(f"Read: {note}")
    for problem in found.wrong:
        click.echo(f"Wrong: {problem}")
    if found.together is not None:
        show(_shown_together(found.together))
    return 1 if found.wrong else 0


def _shown(name: str, found: "list[Diagnosis]") -> "Table":
    from rich.text import Text

    from laconic.report.words import make_table

    table = make_table(("", "about", "found", "to do"), title=name)
    for one in found:
        table.add_row(Text(one.level, _STYLES[one.level]), Text(one.about), Text(one.words), Text(one.remedy))
    return table


def _shown_together(together: "Together") -> "Table":
    from rich.text import Text

    from laconic.report.words import make_table

    headings = ("party", "rows", "shared by some", "alone", "fingerprint")
    table = make_table(headings, title=f"Together: {together.shared:,} rows at every party")
    for name, rows in together.rows.items():
        some = together.some[name]
        counts = (rows, some, rows - together.shared - some)
        table.add_row(Text(name), *(f"{count:,}" for count in counts), together.fingerprints[name][:8])
    return table
