"""`laconic disclose`: everything that left one party, for its data-protection officer."""

from pathlib import Path

import click

from laconic.cli.group import debug_option
from laconic.cli.report import write_page
from laconic.core.errors import PlanError


@click.command(short_help="List everything that left one party.")
@click.argument("result", type=click.Path(path_type=Path), metavar="RESULT")
@click.option("--party", required=True, metavar="NAME", help="Whose record.")
@click.option(
    "-o",
    "--out",
    "outs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it: a page (.html) or JSON (.json); may be repeated. [JSON, printed]",
)
@debug_option
def disclose(result: Path, party: str, outs: tuple[Path, ...]) -> None:
    """List everything that left one party: in which step, what it is, shape, type, bytes, epsilon, and a digest.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --save run.json
      laconic disclose run.json --party shop
      laconic disclose run.json --party shop -o shop.html -o shop.json
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    import msgspec

    from laconic.core.writing import refuse_unwritable
    from laconic.report.disclosure import disclose as record_of
    from laconic.report.disclosure import render_disclosure
    from laconic.saved import read_results

    odd = [out for out in outs if out.suffix not in (".html", ".json")]
    if odd:
        raise PlanError(f"cannot tell what to write to {odd[0]}; call it .html for a page or .json")
    refuse_unwritable(*outs)
    records = [record_of(one, party) for one in read_results(result)]
    plain = msgspec.json.format(msgspec.json.encode(records[0] if len(records) == 1 else records), indent=2).decode()
    for out in outs:
        write_page(render_disclosure(records) if out.suffix == ".html" else plain + "\n", out)
    if not outs:
        click.echo(plain)
