"""`laconic host`: run a plan as the party that asks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laconic.cli.group import debug_option
from laconic.cli.mail import find_place, party_options
from laconic.cli.progress import showing_progress
from laconic.core.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.errors import Waiting
    from laconic.mail.place import Place

_FILE: Any = click.Path(path_type=Path, dir_okay=False)
_WAITING = 3


@click.command(short_help="Run a plan as the party that asks.")
@click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN.toml")
@click.option(
    "--envelopes",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    required=True,
    help="Train from the envelopes in this folder.",
)
@party_options
@click.option("--without", multiple=True, metavar="NAME", help="Do without a party, if the method can; repeatable.")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="With --predict: the CSV file to write. [scores.csv]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--save", type=_FILE, metavar="FILE", help="Save the result as JSON.")
@debug_option
@click.pass_context
def host(
    context: click.Context,
    plan: Path,
    envelopes: Path,
    party: Path,
    keys: Path | None,
    ids: Path | None,
    predict: Path | None,
    days: float,
    without: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Train from envelopes, without a connection to anyone.

    If answers are missing, questions for them are written to the folder `questions` within FOLDER, and the command ends
    with code 3. Take them to the parties, put their answers into FOLDER, and give the same command again: it goes on
    where it was.

    \b
    Examples:
      laconic host plan.toml --envelopes inbox --party bank.toml
      laconic host plan.toml --envelopes november --party bank.toml --predict november.txt -o scores.csv
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.core.errors import Waiting

    for path in (save, output):
        if path is not None and not path.absolute().parent.is_dir():
            raise PlanError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    place = find_place(plan, party, keys, ids, predict)
    try:
        if predict is None:
            _train(place, envelopes, without, days, as_json, save)
        else:
            _predict(place, envelopes, without, days, predict, output or Path("scores.csv"))
    except Waiting as waiting:
        _say_waiting(waiting, envelopes)
        context.exit(_WAITING)


def _train(
    place: "Place", envelopes: Path, without: tuple[str, ...], days: float, as_json: bool, save: Path | None
) -> None:
    from laconic.mail.hosting import host as train

    with showing_progress() as listener:
        result = train(place, envelopes, without=without, days=days, listener=listener)
    if save is not None:
        result.save(save)
    if as_json:
        click.echo(result.to_json())
        return
    from rich.console import Console

    from laconic.report.tables import show_result

    Console().print(show_result(result))


def _predict(
    place: "Place", envelopes: Path, without: tuple[str, ...], days: float, predict: Path, output: Path
) -> None:
    from laconic.mail.place import read_ids_file
    from laconic.mail.predicting import predict as score

    found = score(place, envelopes, read_ids_file(predict), without=without, days=days)
    found.save(output)
    click.echo(f"{output}: {len(found.ids):,} predictions of {found.task.label}")


def _say_waiting(waiting: "Waiting", envelopes: Path) -> None:
    from laconic.mail.hosting import QUESTIONS

    names = " and ".join(waiting.names)
    click.echo(f"Waiting for {names} to answer `{waiting.step}`.", err=True)
    for name in waiting.names:
        for path in sorted((envelopes / QUESTIONS).glob(f"{name}-*")):
            click.echo(f"  take to {name}: {path}", err=True)
    click.echo(f"Put the answers into {envelopes}, and give this command again.", err=True)
