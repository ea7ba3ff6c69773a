"""`laconic provision`, `join`, `status`, `stop`: parties on different machines; `host` is in a file of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laconic.cli.envelopes import find_place, mail_options
from laconic.cli.options import debug_option, hand_over, showing_progress
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.result import Result
    from laconic.deploy.party_context import PartyContext
    from laconic.errors import Waiting


_FOLDER: Any = click.Path(path_type=Path, file_okay=False)
_FILE: Any = click.Path(path_type=Path, dir_okay=False)


def tell(words: str) -> None:
    """Say something on standard error."""
    click.echo(words, err=True)


@click.command(short_help="Make a site for every party of a consortium.")
@click.argument("parties", type=_FILE, metavar="PARTIES.toml")
@click.option("-o", "--output", type=_FOLDER, default=Path("sites"), show_default=True, help="Where the sites go.")
@click.option("--plan", type=_FILE, metavar="PLAN.toml", help="Put this plan at every site.")
@debug_option
def provision(parties: Path, output: Path, plan: Path | None) -> None:
    """Make a folder for every party, with certificates and a party file to fill in.

    Send each party its own, and no other.

    Sites are locked down: they run only the code that they have installed, open no shell, and take no code from others.

    \b
    Examples:
      laconic provision parties.toml --plan plan.toml
      laconic provision parties.toml -o /srv/sites
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.consortium import read_consortium
    from laconic.deploy.transports.flare.operating import provision as make
    from laconic.errors import PlanError

    if plan is not None and not plan.is_file():
        raise PlanError(f"there is no plan file {plan}; write one with: laconic plan FedOnce --data breast_cancer")
    for site in make(read_consortium(parties), output, plan):
        click.echo(site)


@click.command(short_help="Be a party, from its site.")
@click.argument("site", type=_FOLDER)
@click.option("--plan", type=_FILE, metavar="PLAN.toml", help="Agree to this plan: put it among the site's plans.")
@debug_option
def join(site: Path, plan: Path | None) -> None:
    """Start a party: it answers the hub's questions as its party.toml allows, until stopped.

    \b
    Examples:
      laconic join sites/shop
      laconic join sites/shop --plan plan.toml
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.consortium import open_site
    from laconic.deploy.policy import read_policy
    from laconic.deploy.transports.flare.operating import join as be_party

    opened = open_site(site)
    read_policy(opened.party_file.allow, opened.party_file.path)
    if plan is not None:
        from laconic.plan.text import read_plan_file

        read_plan_file(plan)
        text = plan.read_text(encoding="utf-8")
        (opened.folder / "plans" / plan.name).write_text(text, encoding="utf-8")
    for fingerprint, one in opened.plans().items():
        tell(f"agreed to {type(one.method).__name__}, plan {fingerprint[:8]}")
    be_party(opened, tell)


@click.command(short_help="Show how a site and its runs stand.")
@click.argument("site", type=_FOLDER)
@debug_option
def status(site: Path) -> None:
    """Show whether a site's engine runs, who has joined, and how its runs stand.

    \b
    Example:
      laconic status sites/bank
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.consortium import open_site
    from laconic.deploy.transports.flare.operating import show_status

    for name, words in show_status(open_site(site)):
        click.echo(f"{name}: {words}")


@click.command(short_help="Stop a site.")
@click.argument("site", type=_FOLDER)
@debug_option
def stop(site: Path) -> None:
    """Stop a site's engine on this machine. Runs that were going on go on when it is started again.

    \b
    Example:
      laconic stop sites/shop
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.consortium import open_site
    from laconic.deploy.transports.flare import system as flare_system

    opened = open_site(site)
    click.echo(f"{opened.name}: {'stopped' if flare_system.stop(opened.kit) else 'was not running'}")


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
    from laconic.atomic_files import refuse_unwritable
    from laconic.errors import Waiting

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
    from laconic.deploy.consortium import open_site
    from laconic.deploy.transports.flare.operating import host as host_run

    return host_run(open_site(site), plan, tell, wait=wait, deadline=deadline, afresh=afresh)


def _train(place: "PartyContext", envelopes: Path, without: tuple[str, ...], days: float) -> "Result":
    from laconic.deploy.coordinator import host as train

    with showing_progress() as listener:
        return train(place, envelopes, without=without, days=days, listener=listener)


def _predict(
    place: "PartyContext", envelopes: Path, without: tuple[str, ...], days: float, predict: Path, output: Path
) -> None:
    from laconic.deploy.coordinator import predict as score
    from laconic.deploy.party_context import read_ids_file

    found = score(place, envelopes, read_ids_file(predict), without=without, days=days)
    found.save(output)
    click.echo(f"{output}: {len(found.ids):,} predictions of {found.task.label}")


def _say_waiting(waiting: "Waiting", envelopes: Path) -> None:
    from laconic.deploy.transports.envelopes.mailbox import QUESTIONS, posted

    names = " and ".join(waiting.names)
    click.echo(f"Waiting for {names} to answer `{waiting.step}`.", err=True)
    for name in waiting.names:
        for path in posted(envelopes / QUESTIONS, name):
            click.echo(f"  take to {name}: {path}", err=True)
    click.echo(f"Put the answers into {envelopes}, and give this command again.", err=True)
