"""`laconic seal`, `laconic answer` and `laconic open`: a run by envelopes, where no party is ever connected."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from laconic.cli.options import debug_option, showing_progress

if TYPE_CHECKING:
    from laconic.deploy.party_context import PartyContext
    from laconic.deploy.sealed_answers import Sealed


Command = TypeVar("Command", bound=Callable[..., object])
_FILE: Any = click.Path(path_type=Path, dir_okay=False)
_PLAN = click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN.toml")


def party_options(command: Command) -> Command:
    """The options that say who you are."""
    return mail_options(
        click.option("--party", type=_FILE, required=True, metavar="FILE", help="Your own party.toml.")(command)
    )


def mail_options(command: Command) -> Command:
    """The options of every command that reads or writes envelopes."""
    options = (
        click.option("--keys", type=click.Path(path_type=Path), metavar="FOLDER",
                     help="Your key ring. [keys, beside your party file]"),
        click.option("--ids", type=_FILE, metavar="FILE", help="The ids agreed upon, one a line. [all your rows]"),
        click.option("--predict", type=_FILE, metavar="FILE", help="Do not train: predict these ids, one a line."),
        click.option("--days", type=float, default=30, show_default=True, help="How long what is sealed may be used."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="Answer a plan without a connection, in one file.")
@_PLAN
@party_options
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="The envelope to write. [NAME.envelope]")
@click.option("--dry-run", is_flag=True, help="Only show what would leave; nothing is written and nothing spent.")
@debug_option
def seal(
    plan: Path,
    party: Path,
    keys: Path | None,
    ids: Path | None,
    predict: Path | None,
    days: float,
    output: Path | None,
    dry_run: bool,
) -> None:
    """Answer what a plan asks of you, and seal the answers in one file that only the label holder can open.

    Your own rules ([allow] in your party file) hold as they do online. Anyone can read the cover of the file, but only
    the label holder what is inside.

    \b
    Examples:
      laconic seal plan.toml --party shop.toml --dry-run           what would leave, for your data-protection officer
      laconic seal plan.toml --party shop.toml -o shop.envelope
      laconic seal plan.toml --party shop.toml --predict november.txt -o shop-november.envelope
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.party_context import read_ids_file
    from laconic.deploy.sealed_answers import seal_new, seal_plan

    place = find_place(plan, party, keys, ids, predict)
    out = None if dry_run else output or Path(f"{place.file.name}.envelope")
    with showing_progress():
        if predict is None:
            sealed = seal_plan(place, out, days=days)
        else:
            sealed = seal_new(place, read_ids_file(predict), out, days=days)
    _show(sealed, place, out)


@click.command(short_help="Answer the questions in an envelope.")
@_PLAN
@click.argument("question", type=click.Path(path_type=Path), metavar="QUESTION.envelope")
@party_options
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="The envelope to write. [NAME.envelope]")
@click.option("--dry-run", is_flag=True, help="Only show what would leave; nothing is written and nothing spent.")
@debug_option
def answer(
    plan: Path,
    question: Path,
    party: Path,
    keys: Path | None,
    ids: Path | None,
    predict: Path | None,
    days: float,
    output: Path | None,
    dry_run: bool,
) -> None:
    """Answer the questions that the label holder sent in an envelope, and seal the answers.

    \b
    Examples:
      laconic answer plan.toml shop-fit-2.envelope --party shop.toml --dry-run
      laconic answer plan.toml shop-fit-2.envelope --party shop.toml -o shop-2.envelope
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.party_context import read_ids_file
    from laconic.deploy.sealed_answers import answer_envelope, answer_new

    place = find_place(plan, party, keys, ids, predict)
    out = None if dry_run else output or Path(f"{place.file.name}.envelope")
    with showing_progress():
        if predict is None:
            sealed = answer_envelope(place, question, out, days=days)
        else:
            sealed = answer_new(place, question, read_ids_file(predict), out, days=days)
    _show(sealed, place, out)


@click.command("open", short_help="List and check the envelopes that came.")
@_PLAN
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@party_options
@debug_option
@click.pass_context
def open_envelopes(
    context: click.Context,
    plan: Path,
    folder: Path,
    party: Path,
    keys: Path | None,
    ids: Path | None,
    predict: Path | None,
    days: float,  # noqa: ARG001 (the same options everywhere)
) -> None:
    """List the envelopes in a folder, check each as training would, and say what is wrong with those it would refuse.

    Ends with code 1 if one would be refused.

    \b
    Example:
      laconic open plan.toml inbox --party bank.toml
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.coordinator import open_inbox
    from laconic.deploy.party_context import context_for_ids, read_ids_file

    place = find_place(plan, party, keys, ids, predict)
    if predict is not None:
        place = context_for_ids(place, read_ids_file(predict))
    came = open_inbox(place, folder).look()
    if not came:
        click.echo(f"no envelopes in {folder}")
    for one in came:
        if one.cover is None:
            click.echo(f"{one.path.name}: REFUSED: {one.refusal}")
            continue
        cover = one.cover
        click.echo(
            f"{one.path.name}: from {cover.sender}, {cover.rows:,} rows, {cover.bytes:,} bytes, epsilon "
            f"{cover.epsilon}; until {cover.expires:%Y-%m-%d}"
        )
        for words in cover.steps:
            click.echo(f"    {words}")
    if any(one.refusal is not None for one in came):
        context.exit(1)


def find_place(plan: Path, party: Path, keys: Path | None, ids: Path | None, predict: Path | None) -> "PartyContext":
    """Who you are, with your rows: those of now to train, or what you learnt before to predict."""
    from laconic.deploy.party_context import open_context, reopen_context
    from laconic.errors import PlanError

    if not plan.is_file():
        raise PlanError(
            f"there is no plan file {plan}; write one with: laconic plan FedOnce --files bank.toml shop.toml"
        )
    ring = keys or party.absolute().parent / "keys"
    return open_context(plan, party, ring, ids) if predict is None else reopen_context(plan, party, ring)


def _show(sealed: "Sealed", place: "PartyContext", out: Path | None) -> None:
    """What left or would leave, in the words of the steps."""
    from laconic.deploy.transports.envelopes.cover import write_cover

    if out is None:
        click.echo("Nothing was written and nothing was spent. This would leave, as your rules allow:\n")
    click.echo(write_cover(sealed.cover).decode().rstrip())
    for entry in sealed.content.ledger:
        noise = "open release: not protected" if entry.noise is None else entry.noise.caveat
        click.echo(f"\n  {entry.phase} {entry.step}, {entry.times} times, {entry.bytes:,} bytes, {entry.form}")
        click.echo(f"    gives {entry.words}")
        click.echo(f"    {noise}")
    if out is None:
        return
    hub = place.session.holder
    click.echo(f"\n{out} has {out.stat().st_size:,} bytes. Take it to {hub}.")
    if not sealed.finished:
        click.echo(f"{hub} will ask more: answer what it sends with `laconic answer`.")


@click.command(short_help="Make the keys that envelopes are signed and opened with.")
@click.argument("name", required=False)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("keys"),
    show_default=True,
    help="Your key ring: your own keys, and the public files of those you trust.",
)
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that locks the secret file.")
@click.option("--show", type=click.Path(path_type=Path), metavar="FILE", help="Show the fingerprint of a public file.")
@click.option("--trust", type=click.Path(path_type=Path), metavar="FILE", help="Add a public file to your key ring.")
@click.option("--fingerprint", help="With --trust: the forty digits that the key's owner read out to you.")
@debug_option
def keys(
    name: str | None, folder: Path, passphrase: bool, show: Path | None, trust: Path | None, fingerprint: str | None
) -> None:
    """Make keys for a party called NAME, or look after a key ring; without NAME, list whom it trusts.

    Send the file NAME.public to the others, and read its fingerprint to them over the phone. NAME.secret stays here.

    \b
    Examples:
      laconic keys bank                        make keys/bank.secret and keys/bank.public
      laconic keys --show shop.public          the fingerprint, to compare by phone
      laconic keys --trust shop.public         trust it, once the digits agree
      laconic keys                             whom this key ring trusts
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.deploy.transports.envelopes.keys import make_key, open_ring, read_public, save_key
    from laconic.deploy.transports.envelopes.keys import trust as add

    if show is not None:
        key = read_public(show)
        click.echo(f"{key.name}: {key.fingerprint}")
    elif trust is not None:
        said = fingerprint or click.prompt(f"The forty digits that {read_public(trust).name} read out")
        place = add(folder, trust, said)
        click.echo(f"{read_public(place).name} is trusted now: {place}")
    elif name is not None:
        word = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None
        secret, public = save_key(make_key(name), folder, word)
        click.echo(f"{secret} stays with you. Send {public} to the others, and read them this by phone:")
        click.echo(f"  {read_public(public).fingerprint}")
    else:
        for key in open_ring(folder).known.values():
            click.echo(f"{key.name}: {key.fingerprint}")
