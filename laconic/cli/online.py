"""`laconic request`, `provision`, `accept`, `join`, `host`, `status`, `stop`: parties on different machines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.envelopes import Mail, mail_options
from laconic.cli.options import (
    FILE,
    FOLDER,
    hand_over,
    refuse_no_plan,
    result_options,
    say_address,
    watch_option,
    watch_run,
)
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.deploy.party_context import PartyContext
    from laconic.deploy.result import Result
    from laconic.deploy.transports.envelopes.keys import KeyRing, PublicKey
    from laconic.errors import Waiting


def tell(words: str) -> None:
    """Say something on standard error."""
    click.echo(words, err=True)


@click.command(short_help="Make a party's own keys, and a request to take part.")
@click.argument("name")
@click.option("-o", "--output", type=FOLDER, help="The party's site. [NAME]")
def request(name: str, output: Path | None) -> None:
    """Make the keys of a party called NAME in a folder of its own, and a request to send to the hub.

    The private keys stay there. Read the fingerprint to the hub by phone. Given again, the keys stay as they are.

    \b
    Examples:
      laconic request shop
      laconic request shop -o /srv/shop
    """
    from laconic.deploy.transports.flare.operating import make_request

    path, key = make_request(name, output or Path(name))
    click.echo(f"Send {path} to the hub, and read this to it by phone:")
    click.echo(f"  {key.fingerprint}")


@click.command(short_help="Take the hub's reply to a request into a site.")
@click.argument("site", type=FOLDER)
@click.argument("reply", type=FOLDER)
@click.option("--fingerprint", help="The forty digits that the hub read out to you; asked for if not given.")
def accept(site: Path, reply: Path, fingerprint: str | None) -> None:
    """Take certificates, plan and the hub's public key from its REPLY into a party's SITE, once the digits agree.

    \b
    Example:
      laconic accept shop shop.reply
    """
    from laconic.deploy.transports.flare.operating import accept_reply

    name = accept_reply(site, reply, lambda key: fingerprint or _ask_digits(key))
    click.echo(f"{name} is ready: fill in {site / 'party.toml'}, then give `laconic join {site}`")


def _ask_digits(key: "PublicKey") -> str:
    return str(click.prompt(f"The forty digits that {key.name} read out", err=True))


@click.command(short_help="Make the hub's site, and a reply to every party's request.")
@click.argument("parties", type=FILE, metavar="PARTIES.toml")
@click.option("-o", "--output", type=FOLDER, default=Path("sites"), show_default=True, help="Where the sites go.")
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="Put this plan at every site.")
@click.option("--requests", type=FOLDER, help="The parties' requests: each party has made its own private keys.")
@click.option("--fingerprint", multiple=True, help="With --requests: forty digits that a party read out.")
def provision(
    parties: Path, output: Path, plan: Path | None, requests: Path | None, fingerprint: tuple[str, ...]
) -> None:
    """Make a site for the hub, and certificates for every party that sent a request.

    Send each party its own reply, and read the hub's fingerprint to it by phone.

    Without --requests, everyone's private keys are made here, and a site for everyone. This is for trials: the hub, and
    whoever sees the sites on their way, can then speak in every party's name.

    Sites are locked down: they run only the code that they have installed, open no shell, and take no code from others.

    \b
    Examples:
      laconic provision parties.toml --plan plan.toml --requests requests
      laconic provision parties.toml --plan plan.toml            for a trial
    """
    from laconic.deploy.party_files import open_site, read_consortium
    from laconic.deploy.transports.flare.operating import provision as make

    if plan is not None:
        refuse_no_plan(plan)
    given = [digits.replace(" ", "") for digits in fingerprint]

    def read_out(key: "PublicKey") -> str:
        return key.fingerprint if key.fingerprint.replace(" ", "") in given else _ask_digits(key)

    consortium = read_consortium(parties)
    hub, *others = made = make(consortium, output, plan, requests, read_out)
    for site in made:
        click.echo(site)
    if requests is None:
        tell(
            f"The private keys of {' and '.join(consortium.parties)} were made on this machine, which can now speak in "
            "their names: for trials only. Otherwise let each party make its own with `laconic request NAME`."
        )
    else:
        tell(f"Send {' and '.join(str(one) for one in others)} to their parties, and read them this by phone:")
        tell(f"  {open_site(hub).ring.own.public.fingerprint}")


@click.command(short_help="Be a party, from its site.")
@click.argument("site", type=FOLDER)
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="Agree to this plan: put it among the site's plans.")
def join(site: Path, plan: Path | None) -> None:
    """Start a party: it answers the hub's questions as its party.toml allows, until stopped.

    It connects to the hub, and opens no port of its own that others could reach.

    \b
    Examples:
      laconic join sites/shop
      laconic join sites/shop --plan plan.toml
    """
    from laconic.deploy.party_files import open_site
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
    from laconic.deploy.party_files import open_site
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
    from laconic.deploy.party_files import open_site
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
@watch_option
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
    watched: bool,
) -> None:
    """Run a plan as the party that asks; a run that was cut off goes on from its journal.

    Online (--site), parties that have joined are asked. By mail (--envelopes, --party), answers come from envelopes. If
    some are missing, questions are written to the folder `questions` within the folder of envelopes, and the command
    ends with code 3. Take them to the parties, put their answers into the folder, and give the same command again.

    A result that is saved is signed with the hub's key, in a file beside it. It holds what each party signed of its own
    ledger; `laconic verify` compares.

    \b
    Examples:
      laconic host plan.toml --site sites/bank
      laconic host plan.toml --site sites/bank --deadline 600 --save result.json
      laconic host plan.toml --site sites/bank --watch
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
        from laconic.deploy.party_files import open_site
        from laconic.deploy.transports.flare.operating import host as host_run

        opened = open_site(site)
        with _follow_site(watched, plan.stem, opened.consortium.parties) as begun:
            result = host_run(opened, plan, tell, wait=wait, deadline=deadline, afresh=afresh, begun=begun)
        hand_over(result, as_json, save)
        _sign(save, opened.ring)
        return
    own = mail.context(plan, party or Path())
    try:
        found = _host_by_mail(own, mail, envelopes or Path(), without, output, watched=watched)
    except Waiting as waiting:
        _say_waiting(waiting, envelopes or Path())
        context.exit(_WAITING)
    if found is not None:
        hand_over(found, as_json, save)
        _sign(save, own.ring)


@contextmanager
def _follow_site(watched: bool, title: str, parties: Sequence[str]) -> "Iterator[Callable[[Path], None]]":
    """A live page of a run in the engine's process, by the file that it writes; call what it gives with the folder."""
    from laconic.deploy.watch import STATE, read_state
    from laconic.report.page.view import serve_live

    found: list[Path] = []
    if not watched:
        yield found.append
        return
    with serve_live(lambda: read_state([*found, Path()][0] / STATE, title, parties)) as address:
        say_address(address)
        yield found.append


def _sign(save: Path | None, ring: "KeyRing") -> None:
    """Sign a result that was saved, as the hub's."""
    from laconic.deploy.statements import sign_file

    if save is not None:
        sign_file(save, ring.own)


def _host_by_mail(
    own: "PartyContext", mail: Mail, envelopes: Path, without: tuple[str, ...], output: Path | None, *, watched: bool
) -> "Result | None":
    """Train from envelopes; or predict from them, which gives a file and no result."""
    from laconic.deploy.coordinator import host as train
    from laconic.deploy.coordinator import predict as score

    ids = mail.new_ids()
    if ids is None:
        title = f"{type(own.session.method).__name__}, by envelope"
        with watch_run(watched, title, own.session.peers) as listener:
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
