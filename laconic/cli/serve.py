"""`laconic serve`: a saved model over HTTPS."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.models import WAYS, files_by_party, way_called
from laconic.cli.options import ManyFiles, debug_option, show_notes

if TYPE_CHECKING:
    from laconic.core.peers import Carrier
    from laconic.inference.bundle import Part
    from laconic.inference.predict import Model
    from laconic.inference.server.answering import Live
    from laconic.inference.server.guard import Access, Address, Limits
    from laconic.tables.table import Table

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(cls=ManyFiles, short_help="Answer prediction requests over HTTPS.")
@click.argument("folder", metavar="MODEL", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8443, show_default=True, help="Where to listen; 0 for any free one.")
@click.option("--certificate", type=_FILE, metavar="PEM", help="The server's certificate.")
@click.option("--key", type=_FILE, metavar="PEM", help="The key of the certificate.")
@click.option("--client-authority", type=_FILE, metavar="PEM", help="Let in whose certificates this authority signed.")
@click.option("--tokens", type=_FILE, metavar="FILE", help="Let in who sends one of these tokens, one a line.")
@click.option("--absent", type=click.Choice(WAYS), default="refit", show_default=True, help="If a party is not there.")
@click.option("--files", multiple=True, metavar="FILE...", help="Rows to ask about people by, a file a party.")
@click.option("--ask", multiple=True, metavar="PARTY=URL", help="A party that serves its own part; may be repeated.")
@click.option("--ask-token", type=_FILE, metavar="FILE", help="The token that those parties know the hub by.")
@click.option("--ask-authority", type=_FILE, metavar="PEM", help="The authority of those parties' certificates.")
@click.option("--deadline", default=2.0, show_default=True, help="Seconds to wait for a party.")
@click.option("--most-ids", default=1000, show_default=True, help="Ids in one request.")
@click.option("--most-bytes", default=1 << 20, show_default=True, help="Bytes of one request.")
@click.option("--requests-a-second", default=500.0, show_default=True, help="From one client, on average.")
@click.option("--ids-a-second", default=20_000.0, show_default=True, help="From one client, on average.")
@debug_option
def serve(
    folder: Path,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    client_authority: Path | None,
    tokens: Path | None,
    absent: str,
    files: tuple[str, ...],
    ask: tuple[str, ...],
    ask_token: Path | None,
    ask_authority: Path | None,
    deadline: float,
    most_ids: int,
    most_bytes: int,
    requests_a_second: float,
    ids_a_second: float,
) -> None:
    """Serve a saved model: the hub's answers requests for predictions, another party's answers the hub.

    Predictions come from stored answers; about people of whom none are stored, parties are asked if --files or --ask
    say how. Needs the extra `serve`.

    \b
    Examples:
      openssl rand -hex 32 > tokens.txt
      laconic serve churn --certificate cert.pem --key key.pem --tokens tokens.txt
      laconic serve churn --certificate cert.pem --key key.pem --client-authority partners.pem --files bank.csv shop.csv
      laconic serve churn/shop --files shop.csv --port 9443 --certificate cert.pem --key key.pem --tokens tokens.txt
      laconic serve churn/bank --files bank.csv --ask shop=https://shop.example:9443 --ask-token token.txt
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    from laconic.inference.bundle import load_part
    from laconic.inference.bundle_files import HEAD
    from laconic.inference.predict import hub_folder
    from laconic.inference.server.guard import Address, Limits

    limits = Limits(bytes=most_bytes, ids=most_ids, requests=requests_a_second, ids_a_second=ids_a_second)
    access = _access(tokens, client_authority)
    where = Address(
        host=host,
        port=port,
        certificate=None if certificate is None else str(certificate),
        key=None if key is None else str(key),
        client_authority=None if client_authority is None else str(client_authority),
    )
    part = load_part(folder if (folder / HEAD).is_file() else hub_folder(folder))
    if part.about.party != part.about.hub:
        _serve_party(part, files, access, limits, where)
        return
    from laconic.inference.predict import load_model
    from laconic.inference.server.answering import Answering
    from laconic.inference.server.app import make_app
    from laconic.inference.server.guard import serve as run

    model = load_model(folder)
    live, close = _live(model, folder, files, ask, ask_token, ask_authority, deadline)
    try:
        app = make_app(Answering(model, live), absent=way_called(absent), access=access, limits=limits)
        _announce(where, f"predicts {model.task.label}")
        run(app, where)
    finally:
        close()


def _access(tokens: Path | None, authority: Path | None) -> "Access":
    from laconic.inference.server.guard import Access, read_tokens

    digests = () if tokens is None else read_tokens(tokens.read_text(encoding="utf-8"))
    return Access(tokens=digests, certificates=authority is not None)


def _announce(where: "Address", what: str) -> None:
    kind = "http" if where.certificate is None else "https"
    click.echo(f"Listening on {kind}://{where.host}:{where.port}: {what}. Stop with Ctrl-C.", err=True)


def _serve_party(part: "Part", files: tuple[str, ...], access: "Access", limits: "Limits", where: "Address") -> None:
    from laconic.errors import DataError
    from laconic.inference.local_transport import read_files
    from laconic.inference.server.guard import serve as run
    from laconic.inference.server.party import Answerer, make_party_app

    name = part.about.party
    if len(files) != 1:
        raise DataError(f"{name} answers from its own rows: give --files with one file, not {len(files)}")
    notes: list[str] = []
    rows = read_files({name: part.about}, {name: Path(files[0])}, notes)[name]
    show_notes(notes)
    answerer = Answerer(part, rows)
    _announce(where, f"{name} answers {part.about.hub} about {rows.rows:,} people")
    run(make_party_app(answerer, access=access, limits=limits), where)


def _live(
    model: "Model",
    folder: Path,
    files: tuple[str, ...],
    ask: tuple[str, ...],
    token: Path | None,
    authority: Path | None,
    deadline: float,
) -> "tuple[Live | None, Callable[[], None]]":
    from contextlib import ExitStack

    from laconic.errors import PlanError
    from laconic.inference.local_transport import parts_of, reach_parts, read_files
    from laconic.inference.server.answering import Live

    stack = ExitStack()
    if not files:
        if ask:
            raise PlanError(f"--ask needs --files with the rows of {model.part.about.party} itself")
        return None, stack.close
    parts = parts_of(folder)
    notes: list[str] = []
    tables = read_files({one: part.about for one, part in parts.items()}, files_by_party(files, list(parts)), notes)
    show_notes(notes)
    own = _own(model, tables)
    if ask:
        model.part.note_use()
        return Live(own, _addresses(ask, token, authority), deadline), stack.close
    carrier = stack.enter_context(reach_parts(model.part, parts, tables))
    return Live(own, carrier, deadline), stack.close


def _own(model: "Model", tables: "dict[str, Table]") -> "Table":
    from laconic.errors import DataError

    name = model.part.about.party
    if name not in tables:
        raise DataError(f"{name} predicts, but there is no file with its rows; add one whose name begins with {name}")
    return tables[name]


def _addresses(ask: tuple[str, ...], token: Path | None, authority: Path | None) -> "Carrier":
    import ssl

    from laconic.errors import PlanError
    from laconic.inference.server.party import Addresses

    urls = {}
    for spelt in ask:
        name, equals, url = spelt.partition("=")
        if not equals or not url:
            raise PlanError(f"--ask needs PARTY=URL, such as shop=https://shop.example:9443, not {spelt!r}")
        urls[name] = url
    if token is None:
        raise PlanError("--ask needs --ask-token, a file with the token that the parties know the hub by")
    trusted = None if authority is None else ssl.create_default_context(cafile=str(authority))
    return Addresses(urls, token.read_text(encoding="utf-8").strip(), trusted)
