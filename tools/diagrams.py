"""Diagrams as SVG: the two kinds of Mermaid text that our pages use, drawn here, so that no script is fetched.

A chain (`flowchart TD`, `a --> b --> c`) becomes boxes above each other, and a `sequenceDiagram` becomes lifelines with
arrows. Colours are those of the text around, so that both themes of the site can be read.
"""

import re
from html import escape
from itertools import pairwise
from textwrap import wrap

_FONT = 'font-family="system-ui, sans-serif" font-size="13"'


def draw(text: str) -> str:
    r"""The diagram that a Mermaid text describes.

    >>> draw("flowchart TD\n  a --> b").count("<rect")
    2
    """
    kind, *lines = [line.strip() for line in text.strip().splitlines()]
    if kind.startswith("flowchart"):
        return _chain([name.strip() for name in " ".join(lines).split("-->")])
    if kind == "sequenceDiagram":
        return _sequence(lines)
    raise ValueError(f"a diagram of kind {kind!r} cannot be drawn; use flowchart TD or sequenceDiagram")


def _svg(width: float, height: float, label: str, body: str) -> str:
    return (
        f'<svg class="diagram" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" {_FONT} fill="currentColor">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>{body}</svg>'
    )


def _box(x: float, y: float, width: float, height: float, words: str) -> str:
    lines = wrap(words, 16) or [words]
    top = y + height / 2 + 5 - 8 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{x + width / 2:g}" y="{top + 16 * place:g}" text-anchor="middle">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    frame = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="none" stroke="currentColor"/>'
    )
    return frame + texts


def _arrow(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="currentColor"{dash} marker-end="url(#tip)"/>'


def _chain(names: list[str]) -> str:
    """Boxes from left to right, five to a line, with an arrow from each to the next."""
    wide, high, gap, most = 108, 34, 34, 5
    body, places = "", []
    for place, name in enumerate(names):
        row, column = divmod(place, most)
        places.append((1 + column * (wide + gap), 1 + row * (high + gap)))
        body += _box(*places[-1], wide, high, name)
    for (x, y), (next_x, next_y) in pairwise(places):
        if y == next_y:
            body += _arrow(x + wide, y + high / 2, next_x - 1, y + high / 2)
        else:
            middle = y + high + gap / 2
            body += f'<path d="M{x + wide / 2:g} {y + high:g}V{middle:g}H{next_x + wide / 2:g}V{next_y - 1:g}" '
            body += 'fill="none" stroke="currentColor" marker-end="url(#tip)"/>'
    across = min(len(names), most)
    height = places[-1][1] + high + 1
    return _svg(across * (wide + gap) - gap + 2, height, "Imports: " + ", then ".join(names), body)


def _sequence(lines: list[str]) -> str:
    names: dict[str, str] = {}
    steps: list[tuple[str, bool, str, str]] = []
    for line in lines:
        if found := re.fullmatch(r"participant (\w+)(?: as (.+))?", line):
            names[found[1]] = found[2] or found[1]
        elif found := re.fullmatch(r"(\w+)(--?)>>(\w+): (.+)", line):
            steps.append((found[1], found[2] == "--", found[3], found[4]))
    apart, high = 156, 40
    at = {name: 70 + apart * place for place, name in enumerate(names)}
    bottom = 60 + 38 * len(steps)
    body = "".join(_box(x - 66, 1, 132, high, names[name]) for name, x in at.items())
    body += "".join(f'<path d="M{x} {high + 1}V{bottom}" stroke="currentColor" opacity="0.4"/>' for x in at.values())
    for place, (one, dashed, other, words) in enumerate(steps):
        y = 76 + 38 * place
        body += _arrow(at[one], y, at[other], y, dashed=dashed)
        body += f'<text x="{(at[one] + at[other]) / 2:g}" y="{y - 6}" text-anchor="middle">{escape(words)}</text>'
    said = "; ".join(f"{names[one]} to {names[other]}: {words}" for one, _, other, words in steps)
    return _svg(140 + apart * (len(names) - 1), bottom + 2, said, body)
