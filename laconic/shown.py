"""How things look at a prompt and in a notebook: short texts, and small tables as HTML that needs nothing else."""

from collections.abc import Iterable, Sequence
from html import escape

NAMES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "ks": "KS",
    "log_loss": "log-loss",
    "f1": "F1",
    "rmse": "RMSE",
    "deviance": "Poisson deviance",
    "mae": "MAE",
    "r2": "R2",
    "rmse_scaled": "RMSE / range",
    "concordance": "concordance",
    "brier": "Brier",
}
"""How metrics are called in reports, in the order they are shown."""

_MANY = 60
"""Lines of a table that a notebook shows; of longer ones, how many more there are."""


def metric_name(name: str) -> str:
    """How a metric is called in reports."""
    return NAMES.get(name, name)


def in_bytes(count: int) -> str:
    """A number of bytes in the largest unit that keeps three digits before the point at most."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def figure(value: float) -> str:
    """A metric with four significant decimals, thousands apart."""
    return f"{value:,.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural where that is due.

    Example:
        >>> counted(1, "round"), counted(1452, "round")
        ('1 round', '1,452 rounds')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], below: str = "") -> str:
    """A table as HTML in the notebook's own style; all texts are escaped.

    Example:
        >>> html_table("Parties", ["party"], [["A & B"]])
        '<b>Parties</b><table><tr><th>party</th></tr><tr><td>A &amp; B</td></tr></table>'
    """
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells[:_MANY])
    left = f"{len(cells) - _MANY:,} more lines" if len(cells) > _MANY else ""
    after = "".join(f"<p>{escape(one)}</p>" for one in (left, below) if one)
    return f"<b>{escape(title)}</b><table><tr>{head}</tr>{lines}</table>{after}"
