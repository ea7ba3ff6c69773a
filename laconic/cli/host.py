"""`laconic host`: run a plan as the party that asks, with parties on other machines or by envelope."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laconic.cli.group import debug_option
from laconic.cli.mail import find_place, mail_options
from laconic.cli.online import tell
from laconic.cli.progress import showing_progress
from laconic.cli.showing import hand_over
from laconic.core.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.errors import Waiting
    from laconic.core.result import Result
    from laconic.mail.place import Place

_FILE: Any = click.Path(path_type=Path, dir_okay=False)
_FOLDER: Any = click.Path(path_type=Path, file_okay=False)
_WAITING = 3


@click.command(short_help="Run a plan as the party that asks.")
@click.argument("plan", type=_FILE, metavar="PLAN.toml")
@click.option("--site", type=_FOLDER, help="Online: the hub's site.")
@click.option(
    "--wait", type=float, default=60.0, show_default=True, help="Online: seconds to wait for parties to join."
)
@click.option("--deadline", type=float, default=0.0, help="Online: seconds a question may take; 0 for no limit.")
@click.option("--afresh", is_flag=True, help="Online: begin a new run even if one was cut off.")
@click.option("--envelopes", type=_FOLDER, help="By mail: train from the envelopes in this folder.")
@click.option("--party", type=_FILE, metavar="FILE", help="By mail: your own party.toml.")
@mail_options
@click.option("--without", multiple=True, metavar="NAME", help="By mail: do without a party, if the method can.")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="With --predict: the CSV file. [scores.csv]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--save", type=_FILE, metavar="FILE", help="Save the result as JSON.")
@debug_option
@click.pass_context
def host(
    context: click.Context,
    plan: Path,
    site: Path | None,
    wait: float,
    deadline: float,
    afresh: bool,
    envelopes: Path | None,
    party: Path | None,
    keys: Path | None,
    ids: Path | None,
    predict: Path | None,
    days: float,
    without: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Run a plan as the party that asks; a run that was cut off goes on from its journal.

    Online (--site), parties that have joined are asked. By mail (--envelopes, --party), answers come from envelopes. If
    some are missing, questions are written to the folder `questions` within the folder of envelopes, and the command
    ends with code 3. Take them to the parties, put their answers into the folder, and give the same command again.

    \b
    Examples:
      laconic host plan.toml --site sites/bank
      laconic host plan.toml --site sites/bank --deadline 600 --save result.json
      laconic host plan.toml --envelopes inbox --party bank.toml
      laconic host plan.toml --envelopes november --party bank.toml --predict november.txt -o scores.csv
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.core.errors import Waiting
    from laconic.core.writing import refuse_unwritable

    if not plan.is_file():
        raise PlanError(f"there is no plan file {plan}; write one with: laconic plan FedOnce --data breast_cancer")
    refuse_unwritable(save, output)
    if (site is None) == (envelopes is None) or (envelopes is not None and party is None):
        raise PlanError("say where the parties are: --site FOLDER, or --envelopes FOLDER with --party FILE")
    if site is not None:
        hand_over(_host_online(plan, site, wait, deadline, afresh), as_json, save)
        return
    place = find_place(plan, party or Path(), keys, ids, predict)
    folder = envelopes or Path()
    try:
        if predict is None:
            hand_over(_train(place, folder, without, days), as_json, save)
        else:
            _predict(place, folder, without, days, predict, output or Path("scores.csv"))
    except Waiting as waiting:
        _say_waiting(waiting, folder)
        context.exit(_WAITING)


def _host_online(plan: Path, site: Path, wait: float, deadline: float, afresh: bool) -> "Result":
    from laconic.online.operating import host as host_run
    from laconic.online.site import open_site

    return host_run(open_site(site), plan, tell, wait=wait, deadline=deadline, afresh=afresh)


def _train(place: "Place", envelopes: Path, without: tuple[str, ...], days: float) -> "Result":
    from laconic.mail.hosting import host as train

    with showing_progress() as listener:
        return train(place, envelopes, without=without, days=days, listener=listener)


def _predict(
    place: "Place", envelopes: Path, without: tuple[str, ...], days: float, predict: Path, output: Path
) -> None:
    from laconic.mail.place import read_ids_file
    from laconic.mail.predicting import predict as score

    found = score(place, envelopes, read_ids_file(predict), without=without, days=days)
    found.save(output)
    click.echo(f"{output}: {len(found.ids):,} predictions of {found.task.label}")


def _say_waiting(waiting: "Waiting", envelopes: Path) -> None:
    from laconic.mail.hosting import QUESTIONS, posted

    names = " and ".join(waiting.names)
    click.echo(f"Waiting for {names} to answer `{waiting.step}`.", err=True)
    for name in waiting.names:
        for path in posted(envelopes / QUESTIONS, name):
            click.echo(f"  take to {name}: {path}", err=True)
    click.echo(f"Put the answers into {envelopes}, and give this command again.", err=True)
