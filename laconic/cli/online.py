"""`laconic provision`, `join`, `host`, `status`, `stop`: parties on different machines."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.envelopes import Mail, mail_options
from laconic.cli.options import FILE, FOLDER, hand_over, refuse_no_plan, result_options, showing_progress
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.result import Result
    from laconic.errors import Waiting


def tell(words: str) -> None:
    """Say something on standard error."""
    click.echo(words, err=True)


@click.command(short_help="Make a site for every party of a consortium.")
@click.argument("parties", type=FILE, metavar="PARTIES.toml")
@click.option("-o", "--output", type=FOLDER, default=Path("sites"), show_default=True, help="Where the sites go.")
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="Put this plan at every site.")
def provision(parties: Path, output: Path, plan: Path | None) -> None:
    """Make a folder for every party, with certificates and a party file to fill in.

    Send each party its own, and no other.

    Sites are locked down: they run only the code that they have installed, open no shell, and take no code from others.

    \b
    Examples:
      laconic provision parties.toml --plan plan.toml
      laconic provision parties.toml -o /srv/sites
    """
    from laconic.deploy.consortium import read_consortium
    from laconic.deploy.transports.flare.operating import provision as make

    if plan is not None:
        refuse_no_plan(plan)
    for site in make(read_consortium(parties), output, plan):
        click.echo(site)


@click.command(short_help="Be a party, from its site.")
@click.argument("site", type=FOLDER)
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="Agree to this plan: put it among the site's plans.")
def join(site: Path, plan: Path | None) -> None:
    """Start a party: it answers the hub's questions as its party.toml allows, until stopped.

    \b
    Examples:
      laconic join sites/shop
      laconic join sites/shop --plan plan.toml
    """
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


@click.command(short_help="Show the state of a site and its runs.")
@click.argument("site", type=FOLDER)
def status(site: Path) -> None:
    """Show whether a site's engine runs, who has joined, and the state of its runs.

    \b
    Example:
      laconic status sites/bank
    """
    from laconic.deploy.consortium import open_site
    from laconic.deploy.transports.flare.operating import show_status

    for name, words in show_status(open_site(site)):
        click.echo(f"{name}: {words}")


@click.command(short_help="Stop a site.")
@click.argument("site", type=FOLDER)
def stop(site: Path) -> None:
    """Stop a site's engine on this machine. Unfinished runs go on when it is started again.

    \b
    Example:
      laconic stop sites/shop
    """
    from laconic.deploy.consortium import open_site
    from laconic.deploy.transports.flare import system as flare_system

    opened = open_site(site)
    click.echo(f"{opened.name}: {'stopped' if flare_system.stop(opened.kit) else 'was not running'}")


_WAITING = 3


@click.command(short_help="Run a plan as the party that asks.")
@click.argument("plan", type=FILE, metavar="PLAN.toml")
@click.option("--site", type=FOLDER, help="Online: the hub's site.")
@click.option("--wait", default=60.0, show_default=True, help="Online: seconds to wait for parties to join.")
@click.option("--deadline", default=0.0, help="Online: seconds that one question may take; 0 for no limit.")
@click.option("--afresh", is_flag=True, help="Online: begin a new run even if one was cut off.")
@click.option("--envelopes", type=FOLDER, help="By mail: train from the envelopes in this folder.")
@click.option("--party", type=FILE, metavar="FILE", help="By mail: your own party.toml.")
@mail_options
@click.option("--without", multiple=True, metavar="NAME", help="By mail: do without a party, if the method can.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="With --predict: the CSV file. [scores.csv]")
@result_options
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
    mail: Mail,
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
    """
    from laconic.atomic_files import refuse_unwritable
    from laconic.errors import Waiting

    refuse_no_plan(plan)
    refuse_unwritable(save, output)
    if (site is None) == (envelopes is None) or (envelopes is not None and party is None):
        raise PlanError("say where the parties are: --site FOLDER, or --envelopes FOLDER with --party FILE")
    if site is not None:
        from laconic.deploy.consortium import open_site
        from laconic.deploy.transports.flare.operating import host as host_run

        result = host_run(open_site(site), plan, tell, wait=wait, deadline=deadline, afresh=afresh)
        hand_over(result, as_json, save)
        return
    try:
        found = _host_by_mail(plan, party or Path(), mail, envelopes or Path(), without, output)
    except Waiting as waiting:
        _say_waiting(waiting, envelopes or Path())
        context.exit(_WAITING)
    if found is not None:
        hand_over(found, as_json, save)


def _host_by_mail(
    plan: Path, party: Path, mail: Mail, envelopes: Path, without: tuple[str, ...], output: Path | None
) -> "Result | None":
    """Train from envelopes; or predict from them, which gives a file and no result."""
    from laconic.deploy.coordinator import host as train
    from laconic.deploy.coordinator import predict as score

    own, ids = mail.context(plan, party), mail.new_ids()
    if ids is None:
        with showing_progress() as listener:
            return train(own, envelopes, without=without, days=mail.days, listener=listener)
    found = score(own, envelopes, ids, without=without, days=mail.days)
    path = output or Path("scores.csv")
    found.save(path)
    click.echo(f"{path}: {len(found.ids):,} predictions of {found.task.label}")
    return None


def _say_waiting(waiting: "Waiting", envelopes: Path) -> None:
    from laconic.deploy.transports.envelopes.mailbox import QUESTIONS, posted

    tell(f"Waiting for {' and '.join(waiting.names)} to answer `{waiting.step}`.")
    for name in waiting.names:
        for path in posted(envelopes / QUESTIONS, name):
            tell(f"  take to {name}: {path}")
    tell(f"Put the answers into {envelopes}, and give this command again.")
