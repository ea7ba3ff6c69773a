"""Three kinds of picture as plain SVG: bars, points in colours, and lines."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from laconic.values import Array
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


def bars(path: Path, title: str, panels: Mapping[str, Mapping[str, float]]) -> None:
    """One bar for each name, in a panel for each measure; bars below 0 are not drawn."""
    drawn, tall = [], _HIGH - 40
    for number, (words, heights) in enumerate(panels.items()):
        foot = 30 + (number + 1) * tall - _FOOT
        drawn.append(f'<text x="4" y="{foot - tall + _FOOT + 14}" font-size="11">{escape(words)}</text>')
        step, top = _WIDE / max(1, len(heights)), max(heights.values(), default=1.0) or 1.0
        for place, (name, height) in enumerate(heights.items()):
            size = max(0.0, height / top) * (tall - _FOOT - 24)
            left, middle = place * step + 2, place * step + step / 2
            box = f'x="{left:.1f}" y="{foot - size:.1f}" width="{step - 4:.1f}" height="{size:.1f}"'
            turn = f'transform="rotate(60 {middle:.1f} {foot + 10})"'
            drawn.append(f'<rect {box} fill="{_COLOURS[0]}"><title>{escape(name)}: {height:.4g}</title></rect>')
            drawn.append(f'<text x="{middle:.1f}" y="{foot + 10}" font-size="9" {turn}>{escape(name)}</text>')
    _write(path, title, drawn, high=30 + len(panels) * tall)


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


def lines(path: Path, title: str, across: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """A line for each name through its points; the axes say their ends."""
    points = [point for line in series.values() for point in line]
    (left, right), (low, high) = ((min(ends), max(ends)) for ends in zip(*points, strict=True))
    drawn = []
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        at = [
            (
                40 + (x - left) / ((right - left) or 1.0) * (_WIDE - 60),
                _HIGH - 30 - (y - low) / ((high - low) or 1.0) * (_HIGH - 70),
            )
            for x, y in line
        ]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        drawn.append(f'<polyline fill="none" stroke="{colour}" points="{way}"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in at]
        place = f'x="{_WIDE - 150}" y="{_HIGH - 100 + 13 * number}"'
        drawn.append(f'<text {place} font-size="11" fill="{colour}">{escape(name)}</text>')
    drawn += [
        f'<text x="2" y="{_HIGH - 30}" font-size="9">{low:.4g}</text>',
        f'<text x="2" y="40" font-size="9">{high:.4g}</text>',
        f'<text x="40" y="{_HIGH - 14}" font-size="9">{left:.4g}</text>',
        f'<text x="{_WIDE - 50}" y="{_HIGH - 14}" font-size="9">{right:.4g}</text>',
        f'<text x="{_WIDE / 2 - 40}" y="{_HIGH - 4}" font-size="11">{escape(across)}</text>',
    ]
    _write(path, title, drawn)


def _write(path: Path, title: str, drawn: list[str], high: int = _HIGH) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" font-family="sans-serif">'
    write_whole(
        path, "\n".join([head, f'<text x="4" y="16" font-size="13">{escape(title)}</text>', *drawn, "</svg>\n"])
    )
