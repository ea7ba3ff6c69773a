"""`laconic add`: new rows or a new party for a saved model, by sending only the difference."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.group import debug_option
from laconic.cli.options import ManyFiles
from laconic.cli.predict import files_by_party

if TYPE_CHECKING:
    from laconic.core.table import Table
    from laconic.model.growing import Difference
    from laconic.model.model import Model


@click.command(cls=ManyFiles, short_help="Add rows or a party to a saved model.")
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--files", multiple=True, metavar="FILE...", help="New rows, one CSV or Parquet file a party.")
@click.option("--party", metavar="NAME=FILE", help="A new party and its rows; only it is asked.")
@debug_option
def add(folder: Path, files: tuple[str, ...], party: str | None) -> None:
    """Add new rows, or a new party, to a saved model; parties send only what they have not sent before.

    Rows with a label at the hub become training rows and the head is refitted; rows without can be predicted from then
    on without asking.

    \b
    Examples:
      laconic add churn --files bank-may.csv shop-may.csv
      laconic add churn --party insurer=insurer.csv
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from rich.console import Console

    from laconic.core.errors import PlanError
    from laconic.model.growing import save_grown
    from laconic.model.model import load_model
    from laconic.model.show import show_card

    if bool(files) == bool(party):
        raise PlanError("give --files with new rows, or --party NAME=FILE for a new party, one of the two")
    model = load_model(folder)
    model, sent = _add_party(model, folder, party) if party else _add_rows(model, folder, files)
    card = save_grown(model)
    for name, count in sent.people.items():
        whole = sent.whole[name]
        click.echo(f"{name} sent answers about {count:,} people: {sent.bytes.get(name, 0):,} bytes crossed; "
                   f"all that is kept of it is {whole:,}.")  # fmt: skip
    Console().print(show_card(card))


def _add_rows(model: "Model", folder: Path, files: tuple[str, ...]) -> "tuple[Model, Difference]":
    from laconic.core.errors import DataError
    from laconic.data.files import read_file
    from laconic.model.growing import add_rows
    from laconic.model.reaching import parts_of, reach_parts
    from laconic.model.rows import read_files, read_row_labels

    parts = parts_of(folder)
    named = files_by_party(files, list(parts))
    about = model.part.about
    if about.party not in named:
        raise DataError(f"{about.party} holds the label and the model: add a file with its own new rows")
    tables = read_files({name: part.about for name, part in parts.items()}, named)
    labels = read_row_labels(about, read_file(about.party, named[about.party], about.id))
    with reach_parts(model.part, parts, tables) as carrier:
        return add_rows(model, tables[about.party], labels, carrier)


def _add_party(model: "Model", folder: Path, spelt: str) -> "tuple[Model, Difference]":
    from laconic.core.errors import PlanError
    from laconic.model.growing import add_party

    name, equals, path = spelt.partition("=")
    if not name or not equals or not path:
        raise PlanError(f"--party needs NAME=FILE, such as insurer=insurer.csv, not {spelt!r}")
    table = _table(name, Path(path), model.part.about.id)
    aside = folder if folder != model.part.path else folder.parent
    return add_party(model, name, table, folder=aside)


def _table(party: str, path: Path, id_name: str) -> "Table":
    from laconic.data.files import read_file
    from laconic.data.frames import read_table

    return read_table(party, read_file(party, path, id_name), id_name)
