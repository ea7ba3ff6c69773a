"""`laconic provision`, `join`, `status`, `stop`: parties on different machines; `host` is in a file of its own."""

from pathlib import Path
from typing import Any

import click

from laconic.cli.group import debug_option

_FOLDER: Any = click.Path(path_type=Path, file_okay=False)
_FILE: Any = click.Path(path_type=Path, dir_okay=False)


def tell(words: str) -> None:
    """Say something on standard error."""
    click.echo(words, err=True)


@click.command(short_help="Make a site for every party of a circle.")
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
    from laconic.core.errors import PlanError
    from laconic.online.circle import read_circle
    from laconic.online.provisioning import provision as make

    if plan is not None and not plan.is_file():
        raise PlanError(f"there is no plan file {plan}; write one with: laconic plan FedOnce --data breast_cancer")
    for site in make(read_circle(parties), output, plan):
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
    from laconic.online.operating import join as be_party
    from laconic.online.site import open_site
    from laconic.plan.allowances import read_allowances

    opened = open_site(site)
    read_allowances(opened.party_file.allow, opened.party_file.path)
    if plan is not None:
        from laconic.plan import read_plan

        text = plan.read_text(encoding="utf-8")
        read_plan(text)
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
    from laconic.online.operating import show_status
    from laconic.online.site import open_site

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
    from laconic.online.site import open_site
    from laconic.runtime import flare_system

    opened = open_site(site)
    click.echo(f"{opened.name}: {'stopped' if flare_system.stop(opened.kit) else 'was not running'}")
