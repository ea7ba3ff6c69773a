"""`laconic audit`: attack a run that was saved."""

from pathlib import Path

import click

from laconic.cli.group import debug_option


@click.command(short_help="Attack a saved run: what could a curious party find out?")
@click.argument("result", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="RESULT.json")
@click.option("--known", default=100, show_default=True, help="Rows of another party that an attacker knows in full.")
@click.option(
    "--shadows",
    default=0,
    show_default=True,
    help="Models an attacker trains to tell who took part; as many more runs.",
)
@debug_option
def audit(result: Path, known: int, shadows: int) -> None:
    """Run a saved result again from its record and attack it: who took part, what were columns, who has which label.

    \b
    Examples:
      laconic run FedOnce --data breast_cancer --save run.json
      laconic audit run.json --known 50
    """  # noqa: D301 (click keeps the lines below a backspace as they are)
    import msgspec
    from rich.console import Console

    from laconic.align.exact import ExactMatch
    from laconic.auditing import audit as attack
    from laconic.core.errors import PlanError
    from laconic.core.result import Result
    from laconic.methods import AnyMethod
    from laconic.plan import DataPlan, federation_of
    from laconic.report.privacy import show_findings, show_price

    record = Result.from_json(result.read_bytes())
    if "plan" not in record.data:
        raise PlanError(f"{result} does not say where its rows came from; save it with: laconic run ... --save FILE")
    data = msgspec.convert(record.data["plan"], DataPlan)
    method = msgspec.convert(record.method, AnyMethod)
    if method.kind != "vertical":
        raise PlanError(f"{type(method).__name__} is a horizontal method; this audit attacks vertical runs")
    findings = attack(
        method,
        federation_of(data, record.seed),
        seed=record.seed,
        known=known,
        shadows=shadows,
        align=ExactMatch(test=data.test, valid=data.valid),
    )
    Console().print(show_findings(findings))
    if record.privacy is not None:
        Console().print(show_price(record.privacy))
