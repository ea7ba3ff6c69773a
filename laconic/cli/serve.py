"""`laconic serve`: a saved model over HTTPS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.models import absent_option, files_by_party, read_new_files, way_called
from laconic.cli.options import ManyFiles, model_argument
from laconic.errors import DataError, PlanError

if TYPE_CHECKING:
    from laconic.core.peers import Carrier
    from laconic.deploy.party_files import PartyFile
    from laconic.inference.bundle import Part
    from laconic.inference.predict import Model
    from laconic.inference.server.app import Live
    from laconic.inference.server.guard import Access, Address, Limits
    from laconic.tables.table import Table

_FILE = click.Path(exists=True, dir_okay=False)


@click.command(cls=ManyFiles, short_help="Answer prediction requests over HTTPS.")
@model_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8443, show_default=True, help="Where to listen; 0 for any free one.")
@click.option("--certificate", type=_FILE, metavar="PEM", help="The server's certificate.")
@click.option("--key", type=_FILE, metavar="PEM", help="The key of the certificate.")
@click.option("--client-authority", type=_FILE, metavar="PEM", help="Let in clients whose certificate it signed.")
@click.option("--tokens", type=_FILE, metavar="FILE", help="Let in clients with one of these tokens, one per line.")
@absent_option
@click.option("--files", multiple=True, metavar="FILE...", help="Rows to ask parties about, one file per party.")
@click.option("--party", "party_file", type=_FILE, metavar="TOML", help="Of a party's part: its rules, and its rows.")
@click.option("--no-rules", is_flag=True, help="Serve a party's part without its rules; for trials.")
@click.option("--ask", multiple=True, metavar="PARTY=URL", help="A party that serves its own part; may be repeated.")
@click.option("--ask-token", type=_FILE, metavar="FILE", help="The token that those parties know the hub by.")
@click.option("--ask-authority", type=_FILE, metavar="PEM", help="The authority of those parties' certificates.")
@click.option("--deadline", default=2.0, show_default=True, help="Seconds to wait for a party.")
@click.option("--most-ids", default=1000, show_default=True, help="Ids in one request.")
@click.option("--most-bytes", default=1 << 20, show_default=True, help="Bytes of one request.")
@click.option("--requests-a-second", default=500.0, show_default=True, help="From one client, on average.")
@click.option("--ids-a-second", default=20_000.0, show_default=True, help="From one client, on average.")
def serve(
    folder: Path,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
    client_authority: str | None,
    tokens: str | None,
    absent: str,
    files: tuple[str, ...],
    party_file: str | None,
    no_rules: bool,
    ask: tuple[str, ...],
    ask_token: str | None,
    ask_authority: str | None,
    deadline: float,
    most_ids: int,
    most_bytes: int,
    requests_a_second: float,
    ids_a_second: float,
) -> None:
    """Serve a saved model: the hub's part answers requests for predictions, another party's part answers the hub.

    Predictions come from stored answers. About people without stored answers, parties are asked if --files or --ask
    say how. A party's part is served by the rules of its party file. Needs the extra `serve`.

    \b
    Examples:
      openssl rand -hex 32 > tokens.txt
      laconic serve churn --certificate cert.pem --key key.pem --tokens tokens.txt
      laconic serve churn --certificate cert.pem --key key.pem --client-authority partners.pem --files bank.csv shop.csv
      laconic serve churn/shop --party shop.toml --port 9443 --certificate cert.pem --key key.pem --tokens tokens.txt
      laconic serve churn/bank --files bank.csv --ask shop=https://shop.example:9443 --ask-token token.txt
    """
    from laconic.inference.bundle import load_part
    from laconic.inference.predict import hub_folder, load_model
    from laconic.inference.server.app import Answering, make_app
    from laconic.inference.server.guard import Access, Address, Limits, read_tokens
    from laconic.inference.server.guard import serve as run

    limits = Limits(bytes=most_bytes, ids=most_ids, requests=requests_a_second, ids_a_second=ids_a_second)
    digests = () if tokens is None else read_tokens(_read_secret(tokens))
    access = Access(tokens=digests, certificates=client_authority is not None)
    where = Address(host=host, port=port, certificate=certificate, key=key, client_authority=client_authority)
    part = load_part(hub_folder(folder))
    if part.about.party != part.about.hub:
        _serve_party(part, files, _own_rules(part, party_file, no_rules=no_rules), access, limits, where)
        return
    if party_file is not None or no_rules:
        raise PlanError(
            f"--party and --no-rules are for another party's part; {part.about.party} predicts, and gives no answers"
        )
    if ask and not files:
        raise PlanError(f"--ask needs --files with the rows of {part.about.party} itself")
    model = load_model(folder)
    with _live(model, folder, files, _addresses(ask, ask_token, ask_authority), deadline) as live:
        app = make_app(Answering(model, live), absent=way_called(absent), access=access, limits=limits)
        _announce(where, f"predicts {model.task.label}")
        run(app, where)


def _read_secret(file: str) -> str:
    """The text of a file that should be its owner's only; warns if it is not."""
    path = Path(file)
    if path.stat().st_mode & 0o077:
        click.echo(f"Note: others can read {path}, which lets in whoever knows it; run: chmod 600 {path}", err=True)
    return path.read_text(encoding="utf-8")


def _announce(where: "Address", what: str) -> None:
    kind = "http" if where.certificate is None else "https"
    click.echo(f"Listening on {kind}://{where.host}:{where.port}: {what}. Stop with Ctrl-C.", err=True)


def _own_rules(part: "Part", path: str | None, *, no_rules: bool) -> "PartyFile | None":
    """The party's own file; None if it is to be served without rules, in so many words."""
    from laconic.deploy.party_files import read_party

    name = part.about.party
    if no_rules == (path is not None):
        raise PlanError(
            f"the part of {name} is served by {name}'s own rules: name its party file, --party {name}.toml, as "
            "docs/serving.md shows; or, for a trial, --no-rules, and then clients get answers whatever they cost"
        )
    if path is not None:
        return read_party(path)
    click.echo(
        f"Without rules: whoever has a token gets any number of fresh answers about {name}'s people, noise can be "
        f"averaged away, and nothing is written to {name}'s account. For trials only.",
        err=True,
    )
    return None


def _serve_party(
    part: "Part", files: tuple[str, ...], file: "PartyFile | None", access: "Access", limits: "Limits", where: "Address"
) -> None:
    from laconic.inference.server.guard import serve as run
    from laconic.inference.server.party import Answerer, make_party_app

    name = part.about.party
    if len(files) > 1 or (not files and file is None):
        raise DataError(f"{name} answers from its own rows: give --files with one file, not {len(files)}")
    if files or file is None:
        rows = read_new_files({name: part}, {name: Path(files[0])})[name]
    else:
        rows = _own_rows(part, file)
    answerer = Answerer(part, rows, file)
    _announce(where, f"{name} answers {part.about.hub} about {rows.rows:,} people")
    run(make_party_app(answerer, access=access, limits=limits), where)


def _own_rows(part: "Part", file: "PartyFile") -> "Table":
    """The rows that a party's own file names, prepared as those of training."""
    from laconic.cli.options import show_notes
    from laconic.data.readers.source_table import read_own
    from laconic.tables.columns import Recipe

    about = part.about
    read = read_own(about.party, file.own_data, recipe=about.recipe or Recipe(columns=about.columns), task=about.task)
    show_notes(list(read.notes))
    return read.table


@contextmanager
def _live(
    model: "Model", folder: Path, files: tuple[str, ...], addresses: "Carrier | None", deadline: float
) -> "Iterator[Live | None]":
    """The parties to ask while the server runs: at their addresses, or here by their files; None without files."""
    from laconic.inference.local_transport import parts_of, reach_parts
    from laconic.inference.server.app import Live

    name = model.part.about.party
    if not files:
        yield None
        return
    parts = parts_of(folder)
    tables = read_new_files(parts, files_by_party(files, list(parts)))
    if name not in tables:
        raise DataError(f"{name} predicts, but there is no file with its rows; add one whose name begins with {name}")
    if addresses is not None:
        model.part.note_use()
        yield Live(tables[name], addresses, deadline)
        return
    with reach_parts(model.part, parts, tables) as carrier:
        yield Live(tables[name], carrier, deadline)


def _addresses(ask: tuple[str, ...], token: str | None, authority: str | None) -> "Carrier | None":
    import ssl

    from laconic.inference.server.party import Addresses

    if not ask:
        return None
    urls = {}
    for spelt in ask:
        name, equals, url = spelt.partition("=")
        if not equals or not url:
            raise PlanError(f"--ask needs PARTY=URL, such as shop=https://shop.example:9443, not {spelt!r}")
        urls[name] = url
    if token is None:
        raise PlanError("--ask needs --ask-token, a file with the token that the parties know the hub by")
    trusted = None if authority is None else ssl.create_default_context(cafile=authority)
    return Addresses(urls, _read_secret(token).strip(), trusted)
