"""`laconic keys`: make keys, show them, and trust those of others."""

from pathlib import Path

import click

from laconic.cli.group import debug_option


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
    from laconic.envelope.keyring import open_ring
    from laconic.envelope.keyring import trust as add
    from laconic.envelope.keys import make_key, read_public, save_key

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
