"""Prices and attacks as tables: no epsilon without what it leaves out."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.audit.finding import Finding
from laconic.core.result import Price


def show_price(price: Price) -> RenderableType:
    """What one person's row may have lost, and all that the figure leaves out."""
    figure = price.figure if price.epsilon is None else f"epsilon {price.figure}"
    table = Table.grid(padding=(0, 2))
    lines = [
        (
            "who",
            "; ".join((f"people known to {'all parties' if price.people == 'shared' else 'one party'}", *price.units)),
        ),
        ("each party", ", ".join(f"{party} {loss:.3g}" for party, loss in price.by_party.items()) or "-"),
        *(("noise", words) for words in price.caveats),
        *(("NOT PROVEN", words) for words in price.unproven),
        *(("OPEN", words) for words in price.open),
    ]
    if not price.secure:
        lines.append(("SEEDED", "noise came from the run's seed, which undoes it: for studies only"))
    for name, words in lines:
        table.add_row(Text(name, "yellow" if name.isupper() else ""), words)
    head = Text(f"Privacy: {figure}, delta {price.delta:g}, by {price.accountant}", "bold")
    return Group(head, table, "")


def show_findings(findings: Sequence[Finding]) -> Table:
    """Attacks, what each attacker knows, how well it did, and how well knowing nothing does."""
    table = Table(title="Attacks", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("attack", "the attacker knows", "measure"):
        table.add_column(heading)
    for heading in ("success", "chance"):
        table.add_column(heading, justify="right")
    for one in findings:
        table.add_row(one.attack, one.knows, one.measure, f"{one.success:.3f}", f"{one.chance:.3f}")
    return table
