"""What became of every party's rows: used, held out, or lost, and why."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from laconic.core.result import Result


def show_rows(result: Result) -> Table | None:
    """For each party, how many rows its source has, and what became of them; None where no rows were matched."""
    if not rows_were_matched(result):
        return None
    alignment: dict[str, Any] = result.data["alignment"]
    table = Table(title="Rows", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("party", "in its source", "shared by all", "used", "lost", "why"):
        table.add_column(heading, justify="left" if heading in ("party", "why") else "right")
    for party in alignment["rows"]:
        source, shared, used, lost = rows_of(result, party)
        reasons = lost | _without_labels(result, party, used - shared)
        why = "; ".join(f"{count:,} {reason}" for reason, count in reasons.items()) or "-"
        counts = (source, shared, used, sum(lost.values()))
        table.add_row(Text(party), *(f"{count:,}" for count in counts), Text(why))
    return table


def rows_were_matched(result: Result) -> bool:
    """Whether parties found out which rows they share, and not only which columns."""
    return "shared" in (result.data.get("alignment") or {})


def rows_of(result: Result, party: str) -> tuple[int, int, int, dict[str, int]]:
    """A party's rows: in its source, shared by all, used (also to score), and lost, by reason."""
    alignment = result.data["alignment"]
    matched, shared = int(alignment["rows"][party]), int(alignment["shared"])
    left_out: dict[str, int] = (result.data.get("left_out") or {}).get(party, {})
    lost, used = dict(left_out), shared
    others = matched - shared
    learns_from_own = "own" in result.data.get("uses", ())
    if learns_from_own and _has_columns(alignment, party):
        used += others
    elif learns_from_own and others:
        lost[f"not every party has, and {party} has no columns of its own to learn from there"] = others
    elif others:
        some = int(alignment.get("some", {}).get(party, 0))
        method = result.method["type"]
        reasons = {f"only some parties have, and {method} uses rows that all share": some}
        known = "nobody else has" if "some" in alignment else "not every party has"
        reasons[f"{known}, and {method} uses rows that all share"] = others - some
        lost |= {reason: count for reason, count in reasons.items() if count}
    return matched + sum(left_out.values()), shared, used, lost


def _without_labels(result: Result, party: str, own: int) -> dict[str, int]:
    """Rows outside the overlap that were used by their columns alone though their labels are there."""
    if own == 0 or party != result.data["alignment"].get("labels", {}).get("party", result.hub):
        return {}
    return {f"used without their labels: {result.method['type']} takes labels of rows that all share": own}


def _has_columns(alignment: dict[str, Any], party: str) -> bool:
    holder = alignment.get("labels", {})
    return bool(party != holder.get("party") or holder["columns"])


def shared_rows(result: Result) -> str:
    """How many rows all share, and how they were cut."""
    alignment = result.data.get("alignment") or {}
    cuts = ", ".join(f"{name} {count:,}" for name, count in alignment.get("cuts", {}).items())
    digest = result.data.get("fingerprint", "")
    said = f"{alignment['shared']:,} shared by all parties ({cuts})"
    return f"{said}, fingerprint {digest[:8]}" if digest else said
