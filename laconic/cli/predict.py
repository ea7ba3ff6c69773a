"""`laconic predict`: scores for new rows, from files, by a saved model."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.group import debug_option
from laconic.cli.options import ManyFiles

if TYPE_CHECKING:
    from laconic.model.absent import AnyAbsent
    from laconic.model.scores import Scores

WAYS = ("zeros", "refit", "solo", "abstain")


@click.command(cls=ManyFiles, short_help="Predict new rows with a saved model.")
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--files", multiple=True, metavar="FILE...", help="New rows, one CSV or Parquet file a party.")
@click.option("--absent", type=click.Choice(WAYS), default="refit", show_default=True, help="If a party is not there.")
@click.option("--without", multiple=True, metavar="PARTY", help="Do as if this party were not there; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="CSV file for the scores.")
@debug_option
def predict(folder: Path, files: tuple[str, ...], absent: str, without: tuple[str, ...], out: Path | None) -> None:
    """Predict rows by their ids: new ones from files, or without files those that the hub keeps answers about.

    \b
    Examples:
      laconic run FedOnce --files bank.csv shop.csv --id customer --label churned --model churn
      laconic predict churn --files bank-may.csv shop-may.csv --out scores.csv
      laconic predict churn --files bank-may.csv --absent solo
      laconic predict churn --without shop --absent zeros
      laconic run FedAvg --files north.csv south.csv --label diagnosis --model wards
      laconic predict wards --files may.csv
    A file is the party's whose name its own begins with: bank-may.csv is the bank's. Where parties have the same
    columns, one file of any name will do.
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.core.writing import refuse_unwritable

    refuse_unwritable(out)
    scores = _from_files(folder, files, absent, without) if files else _stored(folder, absent, without)
    _write(scores, out)


def way_called(word: str) -> "AnyAbsent":
    """What to do about absent parties, by the word for it."""
    from laconic.model.absent import WAYS as KNOWN

    return next(one for one in KNOWN if one.word == word)


def files_by_party(files: tuple[str, ...], parties: list[str]) -> dict[str, Path]:
    """Each file under the party whose name it begins with; the longest such name wins."""
    from laconic.core.errors import DataError

    found: dict[str, Path] = {}
    for file in map(Path, files):
        fitting = [name for name in parties if file.name.startswith(name)]
        if not fitting:
            raise DataError(f"whose rows are in {file}? Let its name begin with a party's: {', '.join(parties)}")
        name = max(fitting, key=len)
        if name in found:
            raise DataError(f"{found[name]} and {file} would both be {name}'s; give one file a party")
        found[name] = file
    return found


def _from_files(folder: Path, files: tuple[str, ...], absent: str, without: tuple[str, ...]) -> "Scores":
    from laconic.core.errors import DataError
    from laconic.core.table import Table
    from laconic.model.folder import folder_name
    from laconic.model.model import load_model
    from laconic.model.reaching import parts_of, reach_parts
    from laconic.model.rows import read_files

    model, parts = load_model(folder), parts_of(folder)
    _refuse_strangers(without, list(parts))
    abouts = {name: part.about for name, part in parts.items()}
    hub = model.part.about.party
    if model.method.kind == "horizontal" and len(files) == 1:
        # All parties have the same columns, and the hub has the whole model: whose rows they are does not matter.
        named = {hub: Path(files[0])}
    else:
        named = files_by_party(files, list(dict.fromkeys([*parts, *model.part.about.peers])))
    lost = [name for name in named if name not in parts]
    if lost:
        raise DataError(
            f"{folder} has no part of {lost[0]}, without which nobody can read {named[lost[0]]}; bring the folder "
            f"{folder / folder_name(lost[0])} back, or leave the file out: --absent says what is done then"
        )
    tables = read_files(abouts, named)
    own = tables.get(hub, Table.without_rows(hub))
    if model.part.about.columns and hub not in tables:
        raise DataError(f"{hub} predicts, but there is no file with its rows; add one whose name begins with {hub}")
    ids = (own if own.rows else next(iter(tables.values()))).keys.tolist()
    there = {name: table for name, table in tables.items() if name not in without}
    with reach_parts(model.part, parts, there) as carrier:
        return model.ask(own, carrier, ids, absent=way_called(absent))


def _stored(folder: Path, absent: str, without: tuple[str, ...]) -> "Scores":
    from laconic.model.model import load_model

    model = load_model(folder)
    _refuse_strangers(without, list(model.part.about.peers))
    store = model.store
    for name in without:
        store = store.as_if_absent(name)
    return model.predict_from(store, store.own.keys.tolist(), absent=way_called(absent))


def _refuse_strangers(named: tuple[str, ...], known: list[str]) -> None:
    from laconic.core.errors import PlanError
    from laconic.plan.keys import closest

    for name in named:
        if name not in known:
            raise PlanError(f"there is no party {name!r} in this model; {closest(name, known, 'The parties are')}")


def _write(scores: "Scores", out: Path | None) -> None:
    from collections import Counter

    from laconic.core.writing import write_whole
    from laconic.model.scores import scores_frame

    text = scores_frame(scores).to_csv(index=False, lineterminator="\n")
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
    for how, count in Counter(scores.how).most_common():
        click.echo(f"{count:,} of {len(scores.ids):,} rows: {_WORDS.get(how, how)}", err=True)


_WORDS = {
    "all": "predicted with everybody there",
    "zeros": "a party was absent and counted as zeros",
    "refit": "a party was absent, predicted by a head refitted without it",
    "solo": "a party was absent, predicted by the hub alone",
    "abstain": "a party was absent, no answer",
}
