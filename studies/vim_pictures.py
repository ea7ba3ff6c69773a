"""Two kinds of picture as plain SVG: bars, and points in colours."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

from laconic.core.values import Array
from studies.harness import write_whole

_COLOURS = (
    "#4c78a8",
    "#f58518",
    "#e45756",
    "#72b7b2",
    "#54a24b",
    "#eeca3b",
    "#b279a2",
    "#ff9da6",
    "#9d755d",
    "#79706e",
)
_WIDE, _HIGH, _FOOT = 480, 300, 60


def bars(path: Path, title: str, heights: Mapping[str, float]) -> None:
    """One bar for each name."""
    step, top = _WIDE / max(1, len(heights)), max(heights.values(), default=1.0) or 1.0
    drawn = []
    for place, (name, height) in enumerate(heights.items()):
        tall = max(0.0, height) / top * (_HIGH - _FOOT - 30)
        left, low, middle = place * step + 2, _HIGH - _FOOT, place * step + step / 2
        box = f'x="{left:.1f}" y="{low - tall:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"'
        turn = f'transform="rotate(60 {middle:.1f} {low + 12})"'
        drawn.append(f'<rect {box} fill="{_COLOURS[0]}"/>')
        drawn.append(f'<text x="{middle:.1f}" y="{low + 12}" font-size="9" {turn}>{escape(name)}</text>')
    _write(path, title, drawn)


def scatter(path: Path, title: str, points: Array, labels: Array) -> None:
    """One point for each row, in the colour of its label."""
    low, high = points.min(axis=0), points.max(axis=0)
    shares = (points - low) / (high - low)
    drawn = [
        f'<circle cx="{10 + share[0] * (_WIDE - 20):.0f}" cy="{30 + share[1] * (_HIGH - 40):.0f}" r="2" '
        f'fill="{_COLOURS[int(label) % len(_COLOURS)]}"/>'
        for share, label in zip(shares, labels, strict=True)
    ]
    _write(path, title, drawn)


def _write(path: Path, title: str, drawn: list[str]) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif">'
    write_whole(
        path, "\n".join([head, f'<text x="4" y="16" font-size="13">{escape(title)}</text>', *drawn, "</svg>\n"])
    )
