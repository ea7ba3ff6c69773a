"""`laconic seal`, `answer`, `open` and `keys`: a run by envelopes; `sign` and `verify`: records that can be checked."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from laconic.cli.options import FILE, FOLDER, refuse_no_plan, showing_progress

if TYPE_CHECKING:
    from laconic.deploy.party_context import PartyContext
    from laconic.deploy.sealed_answers import Sealed


_PLAN = click.argument("plan", type=click.Path(path_type=Path), metavar="PLAN.toml")
_OUTPUT = click.option("-o", "--output", type=FILE, metavar="FILE", help="The envelope to write. [NAME.envelope]")
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Only show what would leave; nothing is written and nothing spent."
)
party_option = click.option("--party", type=FILE, required=True, metavar="FILE", help="Your own party.toml.")


class Mail(NamedTuple):
    """What every command that reads or writes envelopes is given."""

    keys: Path | None
    ids: Path | None
    predict: Path | None
    days: float

    def context(self, plan: Path, party: Path) -> "PartyContext":
        """Who you are, with your rows: those of now to train, or what you learnt before to predict."""
        from laconic.deploy.party_context import open_context, reopen_context

        refuse_no_plan(plan)
        ring = self.keys or party.absolute().parent / "keys"
        return open_context(plan, party, ring, self.ids) if self.predict is None else reopen_context(plan, party, ring)

    def new_ids(self) -> list[str] | None:
        """The ids to predict; None to train."""
        from laconic.deploy.party_context import read_ids_file

        return None if self.predict is None else read_ids_file(self.predict)


def mail_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options of every command that reads or writes envelopes, handed over as one `Mail`."""

    @wraps(command)
    def collected(
        *, keys: Path | None, ids: Path | None, predict: Path | None, days: float, **others: object
    ) -> object:
        return command(mail=Mail(keys, ids, predict, days), **others)

    options = (
        click.option("--keys", type=click.Path(path_type=Path), metavar="FOLDER",
                     help="Your key ring. [keys, beside your party file]"),
        click.option("--ids", type=FILE, metavar="FILE", help="The ids agreed upon, one per line. [all your rows]"),
        click.option("--predict", type=FILE, metavar="FILE", help="Do not train: predict these ids, one per line."),
        click.option("--days", type=float, default=30, show_default=True, help="How long what is sealed may be used."),
    )  # fmt: skip
    found: Callable[..., object] = collected
    for option in reversed(options):
        found = option(found)
    return found


@click.command(short_help="Answer a plan without a connection, in one file.")
@_PLAN
@party_option
@mail_options
@_OUTPUT
@_DRY_RUN
def seal(plan: Path, party: Path, mail: Mail, output: Path | None, dry_run: bool) -> None:
    """Answer what a plan asks of you, and seal the answers in one file that only the label holder can open.

    Your own rules ([allow] in your party file) hold as they do online. Anyone can read the cover of the file, but only
    the label holder can read what is inside.

    \b
    Examples:
      laconic seal plan.toml --party shop.toml --dry-run           what would leave, for your data-protection officer
      laconic seal plan.toml --party shop.toml -o shop.envelope
      laconic seal plan.toml --party shop.toml --predict november.txt -o shop-november.envelope
    """
    from laconic.deploy.sealed_answers import seal_new, seal_plan

    own, ids = mail.context(plan, party), mail.new_ids()
    out = None if dry_run else output or Path(f"{own.file.name}.envelope")
    with showing_progress():
        sealed = seal_plan(own, out, days=mail.days) if ids is None else seal_new(own, ids, out, days=mail.days)
    _show(sealed, own, out)


@click.command(short_help="Answer the questions in an envelope.")
@_PLAN
@click.argument("question", type=click.Path(path_type=Path), metavar="QUESTION.envelope")
@party_option
@mail_options
@_OUTPUT
@_DRY_RUN
def answer(plan: Path, question: Path, party: Path, mail: Mail, output: Path | None, dry_run: bool) -> None:
    """Answer the questions that the label holder sent in an envelope, and seal the answers.

    \b
    Examples:
      laconic answer plan.toml shop-fit-2.envelope --party shop.toml --dry-run
      laconic answer plan.toml shop-fit-2.envelope --party shop.toml -o shop-2.envelope
    """
    from laconic.deploy.sealed_answers import answer_envelope, answer_new

    own, ids = mail.context(plan, party), mail.new_ids()
    out = None if dry_run else output or Path(f"{own.file.name}.envelope")
    with showing_progress():
        if ids is None:
            sealed = answer_envelope(own, question, out, days=mail.days)
        else:
            sealed = answer_new(own, question, ids, out, days=mail.days)
    _show(sealed, own, out)


@click.command("open", short_help="List and check the envelopes that came.")
@_PLAN
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@party_option
@mail_options
@click.pass_context
def open_envelopes(context: click.Context, plan: Path, folder: Path, party: Path, mail: Mail) -> None:
    """List the envelopes in a folder, check each as training would, and say what is wrong with those it would refuse.

    Ends with code 1 if one would be refused.

    \b
    Example:
      laconic open plan.toml inbox --party bank.toml
    """
    from laconic.deploy.coordinator import open_inbox
    from laconic.deploy.party_context import context_for_ids

    own, ids = mail.context(plan, party), mail.new_ids()
    came = open_inbox(own if ids is None else context_for_ids(own, ids), folder).look()
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


def _show(sealed: "Sealed", own: "PartyContext", out: Path | None) -> None:
    """What left or would leave, in the words of the steps."""
    from laconic.deploy.one_run import cover_words
    from laconic.deploy.transports.envelopes.keys import write_cover

    if out is None:
        click.echo("Nothing was written and nothing was spent. This would leave, as your rules allow:\n")
    click.echo(write_cover(sealed.cover).decode().rstrip())
    for entry in sealed.content.ledger:
        click.echo(f"\n  {entry.phase} {entry.step}, {entry.times} times, {entry.bytes:,} bytes, {entry.form}")
        click.echo(f"    gives {entry.words}\n    {cover_words(entry)}")
    if out is None:
        return
    hub = own.session.host
    click.echo(f"\n{out} has {out.stat().st_size:,} bytes. Take it to {hub}.")
    if not sealed.finished:
        click.echo(f"{hub} will ask more: answer what it sends with `laconic answer`.")


@click.command(short_help="Make the keys that envelopes are signed and opened with.")
@click.argument("name", required=False)
@click.option("--folder", type=FOLDER, default=Path("keys"), show_default=True,
              help="Your key ring: your own keys, and the public files of those you trust.")  # fmt: skip
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that locks the secret file.")
@click.option("--show", type=click.Path(path_type=Path), metavar="FILE", help="Show the fingerprint of a public file.")
@click.option("--trust", type=click.Path(path_type=Path), metavar="FILE", help="Add a public file to your key ring.")
@click.option("--fingerprint", help="With --trust: the forty digits that the key's owner read out to you.")
@click.option("--revoke", metavar="NAME", help="Trust a party's key no more, online and by envelope.")
def keys(
    name: str | None,
    folder: Path,
    passphrase: bool,
    show: Path | None,
    trust: Path | None,
    fingerprint: str | None,
    revoke: str | None,
) -> None:
    """Make keys for a party called NAME, or look after a key ring; without NAME, list whom it trusts.

    Send the file NAME.public to the others, and read its fingerprint to them over the phone. NAME.secret stays here.

    \b
    Examples:
      laconic keys bank                        make keys/bank.secret and keys/bank.public
      laconic keys --show shop.public          the fingerprint, to compare by phone
      laconic keys --trust shop.public         trust it, once the digits agree
      laconic keys                             whom this key ring trusts
      laconic keys --revoke shop               trust the shop's key no more
    """
    from laconic.deploy.transports.envelopes.keys import make_key, open_ring, read_public, save_key
    from laconic.deploy.transports.envelopes.keys import revoke as take_out
    from laconic.deploy.transports.envelopes.keys import trust as add

    if revoke is not None:
        click.echo(f"the key of {revoke} is trusted no more: {take_out(folder, revoke)}")
    elif show is not None:
        key = read_public(show)
        click.echo(f"{key.name}: {key.fingerprint}")
    elif trust is not None:
        said = fingerprint or click.prompt(f"The forty digits that {read_public(trust).name} read out")
        added = add(folder, trust, said)
        click.echo(f"{read_public(added).name} is trusted now: {added}")
    elif name is not None:
        word = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None
        secret, public = save_key(make_key(name), folder, word)
        click.echo(f"{secret} stays with you. Send {public} to the others, and read them this by phone:")
        click.echo(f"  {read_public(public).fingerprint}")
    else:
        for key in open_ring(folder).known.values():
            click.echo(f"{key.name}: {key.fingerprint}")


_KEYS = click.option("--keys", type=FOLDER, default=Path("keys"), show_default=True, help="Your key ring.")
_RECORD = click.argument("path", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_RECORD_OR_MODEL = click.argument("path", metavar="FILE|MODEL", type=click.Path(path_type=Path, exists=True))
_UNCONFIRMED = 1


@click.command(short_help="Sign a result or a disclosure record.")
@_RECORD
@_KEYS
def sign(path: Path, keys: Path) -> None:
    """Write your signature of a file beside it, so that others can see that it is yours and unchanged.

    \b
    Examples:
      laconic disclose run.json --party shop -o shop.json
      laconic sign shop.json --keys keys
    """
    from laconic.deploy.statements import sign_file
    from laconic.deploy.transports.envelopes.keys import open_ring

    click.echo(f"{sign_file(path, open_ring(keys).own)} holds the signature; give it away with {path}.")


@click.command(short_help="Check signatures, and what a hub reports against what parties signed.")
@_RECORD_OR_MODEL
@_KEYS
@click.option("--party", "parties", multiple=True, metavar="NAME", help="Look at this party only. [all who were asked]")
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="The plan that they must have signed for. [any]")
@click.pass_context
def verify(context: click.Context, path: Path, keys: Path, parties: tuple[str, ...], plan: Path | None) -> None:
    """Check a file's signature, and, for a result, that what it says of each party is what that party signed.

    Of a model that came home, check that it is as the server signed it.

    Ends with code 0 only if all that was checked is confirmed by a key in your key ring.

    \b
    Examples:
      laconic verify result.json --keys keys
      laconic verify result.json --party shop --plan plan.toml --keys shop/keys
      laconic verify shop.json --keys keys
      laconic verify model/north --keys north/keys
    """
    from laconic.deploy.statements import check_file, check_result
    from laconic.deploy.transports.envelopes.keys import open_ring
    from laconic.deploy.tuning import read_results
    from laconic.errors import LaconicError
    from laconic.plan.text import plan_fingerprint, read_plan_file

    ring = open_ring(keys)
    if path.is_dir():
        from laconic.inference.save import check_home

        one = check_home(path, ring)
        click.echo(f"{one.whose}: {one.state}: {one.words}")
        context.exit(0 if one.state == "confirmed" else _UNCONFIRMED)
    found = [check_file(path, ring)]
    agreed = None if plan is None else plan_fingerprint(read_plan_file(plan))
    try:
        results = read_results(path)
    except LaconicError:
        results = []  # Another record, such as a disclosure, stands by its own signature.
    for result in results:
        found += check_result(result, ring, plan=agreed, parties=parties)
    for one in found:
        click.echo(f"{one.whose}: {one.state}: {one.words}")
    if any(one.state != "confirmed" for one in found):
        context.exit(_UNCONFIRMED)
