"""`laconic report`: results as one page that opens offline."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import FILE, FOLDER
from laconic.errors import PlanError

if TYPE_CHECKING:
    from laconic.core.result import Result
    from laconic.deploy.transports.envelopes.keys import KeyRing


@click.command(short_help="Make one HTML page of saved results.")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULT...")
@click.option("-o", "--out", type=FILE, default=Path("report.html"), show_default=True, help="The page to write.")
@click.option("--title", help="The page's heading. [the data's name]")
@click.option("--mlflow", "store", metavar="STORE", help="Write the results to MLflow too: an address or file:FOLDER.")
def report(results: tuple[Path, ...], out: Path, title: str | None, store: str | None) -> None:
    """Make one page of results: which method to use, what it costs, what crossed, what was given away.

    RESULT is a file that `laconic run --save` or `laconic compare` wrote. The page is one file and fetches nothing.

    \b
    Examples:
      laconic compare FedOnce SplitNN --data breast_cancer
      laconic report compare-breast_cancer.jsonl -o breast_cancer.html
      laconic report one.json other.json -o both.html --title "Two ways"
      laconic report one.json --mlflow http://localhost:5000
    """
    from laconic.atomic_files import refuse_unwritable
    from laconic.deploy.compare import read_results

    refuse_unwritable(out)
    read = [result for path in results for result in read_results(path)]
    write_report(read, out, title)
    if store is not None:
        from laconic.report.tracking import track

        click.echo(f"Wrote {len(track(read, store))} runs to MLflow at {store}.")


def write_report(results: "Sequence[Result]", out: Path, title: str | None = None) -> None:
    """Write the page of some results."""
    from laconic.report.page import render_page
    from laconic.report.reproduce import commands_for

    write_page(render_page(results, commands_for(results), title), out)


def write_page(text: str, out: Path) -> None:
    """Write a page, whole or not at all, and say where it is."""
    from laconic.atomic_files import write_whole

    write_whole(out, text.encode())
    how = " Open it in a browser; it needs no network." if out.suffix == ".html" else ""
    click.echo(f"Wrote {out} ({len(text.encode()) / 1e6:.2f} MB).{how}")


@click.command(short_help="List everything that left one party.")
@click.argument("result", type=click.Path(path_type=Path), metavar="RESULT")
@click.option("--party", required=True, metavar="NAME", help="Whose record.")
@click.option("-o", "--out", "outs", multiple=True, type=FILE, metavar="FILE",
              help="Where to write it: a page (.html) or JSON (.json); may be repeated. [JSON, printed]")  # fmt: skip
@click.option("--keys", type=FOLDER, help="Your key ring: sign what is written, if RESULT says what you signed.")
def disclose(result: Path, party: str, outs: tuple[Path, ...], keys: Path | None) -> None:
    """List everything that left one party: in which step, what it is, shape, type, bytes, epsilon, and a digest.

    With --keys, the party signs its record, if what the hub reports of it is what the party signed in the run.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --save run.json
      laconic disclose run.json --party shop
      laconic disclose run.json --party shop -o shop.html -o shop.json
      laconic disclose result.json --party shop -o shop.json --keys shop/keys
    """
    import msgspec

    from laconic.atomic_files import refuse_unwritable
    from laconic.deploy.compare import read_results
    from laconic.deploy.statements import sign_file
    from laconic.report.disclosure import disclose as record_of
    from laconic.report.disclosure import render_disclosure

    odd = [out for out in outs if out.suffix not in (".html", ".json")]
    if odd:
        raise PlanError(f"cannot tell what to write to {odd[0]}; call it .html for a page or .json")
    refuse_unwritable(*outs)
    read = read_results(result)
    records = [record_of(one, party) for one in read]
    ring = None if keys is None else _own_ring(keys, read, party)
    plain = msgspec.json.format(msgspec.json.encode(records[0] if len(records) == 1 else records), indent=2).decode()
    for out in outs:
        write_page(render_disclosure(records) if out.suffix == ".html" else plain + "\n", out)
        if ring is not None:
            click.echo(f"{sign_file(out, ring.own)} holds your signature; give it away with {out}.")
    if not outs:
        click.echo(plain)


def _own_ring(keys: Path, results: "Sequence[Result]", party: str) -> "KeyRing":
    """A party's key ring, once the results say of it what it signed."""
    from laconic.deploy.statements import refuse_other_record
    from laconic.deploy.transports.envelopes.keys import open_ring

    ring = open_ring(keys)
    for one in results:
        refuse_other_record(one, party, ring)
    return ring
