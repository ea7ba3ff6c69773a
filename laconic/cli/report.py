"""`laconic report`: results as one page that opens offline."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import FILE, FOLDER, show
from laconic.errors import PlanError
from laconic.shown import counted

if TYPE_CHECKING:
    from laconic.deploy.result import Result
    from laconic.deploy.transports.envelopes.keys import KeyRing
    from laconic.report.disclosure import Disclosure


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
    from laconic.deploy.tuning import read_results

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
              help="Where to write it: a page (.html) or JSON (.json); may be repeated. [printed]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@click.option("--audit", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
              help="How attacks on this run did, as `laconic audit --save FILE` wrote it.")  # fmt: skip
@click.option("--keys", type=FOLDER, help="Your key ring: sign what is written, if RESULT says what you signed.")
def disclose(
    result: Path, party: str, outs: tuple[Path, ...], as_json: bool, audit: Path | None, keys: Path | None
) -> None:
    """List everything that left one party: why, when, to whom, what it is, columns, bytes, protection, and a digest.

    RESULT is a file that `laconic run --save` wrote, or the folder of a saved model: then everything that was released
    since training counts too. Beside a page, the same is written as JSON.

    With --keys, the party signs its record, if what the hub reports of it is what the party signed in the run.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --save run.json
      laconic disclose run.json --party shop
      laconic disclose run.json --party shop -o shop.html -o shop.json
      laconic audit run.json --save audit.json
      laconic disclose run.json --party shop -o shop.html --audit audit.json
      laconic disclose result.json --party shop -o shop.json --keys shop/keys
    """
    import msgspec

    from laconic.atomic_files import refuse_unwritable
    from laconic.deploy.statements import sign_file
    from laconic.deploy.tuning import read_results
    from laconic.report.disclosure import disclose as record_of
    from laconic.report.disclosure import render_disclosure, show_disclosure, with_audit

    odd = [out for out in outs if out.suffix not in (".html", ".json")]
    if odd:
        raise PlanError(f"cannot tell what to write to {odd[0]}; call it .html for a page or .json")
    refuse_unwritable(*outs)
    if result.is_dir():
        if keys is not None:
            raise PlanError("--keys signs what was signed in a run; a model folder holds no statement: leave it out")
        read, records = [], [_of_model(result, party)]
    else:
        read = read_results(result)
        records = [record_of(one, party) for one in read]
    if audit is not None:
        if len(records) > 1:
            raise PlanError(f"{result} holds {len(records)} runs, and an audit is of one; save that one alone")
        records = [with_audit(records[0], audit)]
    ring = None if keys is None else _own_ring(keys, read, party)
    # The same record for machines, beside every page.
    outs = tuple(dict.fromkeys([*outs, *(out.with_suffix(".json") for out in outs if out.suffix == ".html")]))
    plain = msgspec.json.format(msgspec.json.encode(records[0] if len(records) == 1 else records), indent=2).decode()
    for out in outs:
        write_page(render_disclosure(records) if out.suffix == ".html" else plain + "\n", out)
        if ring is not None:
            click.echo(f"{sign_file(out, ring.own)} holds your signature; give it away with {out}.")
    if as_json:
        click.echo(plain)
    elif not outs:
        show(*(part for one in records for part in (show_disclosure(one), "")))


def _of_model(folder: Path, party: str) -> "Disclosure":
    """What left a party for a saved model, as its part says."""
    from laconic.errors import closest
    from laconic.inference.bundle_files import read_uses
    from laconic.inference.local_transport import parts_of
    from laconic.report.disclosure import disclose_part

    parts = parts_of(folder)
    if party not in parts:
        raise PlanError(f"{folder} holds no part of {party!r}; {closest(party, list(parts), 'The parts are of')}")
    part = parts[party]
    return disclose_part(part, read_uses(part.path or folder))


@click.command(short_help="List all that a party ever gave, over runs and models.")
@click.argument("party")
@click.argument("places", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[PLACE...]")
def ledger(party: str, places: tuple[Path, ...]) -> None:
    """List all that a party ever gave, over every result and every saved model beneath PLACE; what is open comes first.

    PLACE is a result file, a model's folder, or a folder that holds several; the current one if none is named. What
    only other machines keep is not in it.

    \b
    Examples:
      laconic ledger shop
      laconic ledger shop runs churn/shop
    """
    from laconic.report.disclosure import show_given

    found = [pair for place in places or (Path(),) for pair in _disclosures(place, party)]
    if not found:
        raise PlanError(
            f"there is no result and no model of {party!r} in {', '.join(map(str, places)) or 'this folder'}"
        )
    show(
        show_given(party, found),
        f"{counted(sum(len(one.left) for _, one in found), 'kind')} of release in "
        f"{counted(len(found), 'record')} of runs and models.",
    )


def _disclosures(place: Path, party: str) -> "Iterator[tuple[Path, Disclosure]]":
    """The record of every run and saved model beneath a place in which a party took part."""
    from laconic.deploy.tuning import read_results
    from laconic.errors import DataError
    from laconic.inference.bundle import load_part
    from laconic.inference.bundle_files import HEAD, read_uses
    from laconic.report.disclosure import disclose as record_of
    from laconic.report.disclosure import disclose_part

    for head in sorted(place.rglob(HEAD)) if place.is_dir() else ():
        part = load_part(head.parent)
        if part.about.party == party:
            yield head.parent, disclose_part(part, read_uses(head.parent))
    files = [one for kind in ("*.json", "*.jsonl") for one in place.rglob(kind)] if place.is_dir() else [place]
    for file in sorted(one for one in files if not (one.parent / HEAD).is_file()):
        try:
            results = read_results(file)
        except DataError:
            continue  # Other JSON lies about in folders; only results are asked for.
        for result in results:
            if party in result.parties:
                yield file, record_of(result, party)


def _own_ring(keys: Path, results: "Sequence[Result]", party: str) -> "KeyRing":
    """A party's key ring, once the results say of it what it signed."""
    from laconic.deploy.statements import refuse_other_record
    from laconic.deploy.transports.envelopes.keys import open_ring

    ring = open_ring(keys)
    for one in results:
        refuse_other_record(one, party, ring)
    return ring
