"""Charts on two plain axes as SVG: curves, and dots against a diagonal. Drawn for desktop and phone as in `charts`."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from laconic.report.page.charts import both_sizes, even_ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 26.0, 46.0


class Series(NamedTuple):
    """Points of one colour, with a name for the key; joined by a line, or as dots."""

    label: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


def draw_lines(series: Sequence[Series], across: str, up: str, alt: str, *, diagonal: bool = False) -> str:
    """Curves or dots of some series; empty if none has a point.

    Args:
        across, up: what the axes are.
        alt: what it shows, in a sentence for those who cannot see it.
        diagonal: draw where both are equal, on axes of the same range.
    """
    some = [one for one in series if one.points]
    return both_sizes(lambda width: _chart(some, across, up, width, diagonal=diagonal), alt) if some else ""


class _Plane(NamedTuple):
    width: float
    height: float
    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.low_x) / (self.high_x - self.low_x) * (self.width - _LEFT - _RIGHT)
        down = (y - self.low_y) / (self.high_y - self.low_y) * (self.height - _TOP - _BOTTOM)
        return _LEFT + across, self.height - _BOTTOM - down


def _chart(series: Sequence[Series], across: str, up: str, width: float, *, diagonal: bool) -> tuple[float, str]:
    xs = _range([x for one in series for x, _ in one.points])
    ys = _range([y for one in series for _, y in one.points])
    if diagonal:
        xs = ys = (min(xs[0], ys[0]), max(xs[1], ys[1]))
    plane = _Plane(width, max(300, min(380, width * 0.7)), *xs, *ys)
    body = _axes(plane, across, up)
    if diagonal:
        (x, y), (end, top) = plane.at(xs[0], xs[0]), plane.at(xs[1], xs[1])
        body += f'<path class="rule" d="M{x:.1f} {y:.1f}L{end:.1f} {top:.1f}"/>'
    for place, one in enumerate(series):
        body += _drawn(plane, one, f"var(--c{place % 8})")
    named = [one for one in series if one.label]
    return plane.height + 18 * len(named), body + _key(plane, series)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or abs(high) or 1.0
    return (low, high) if (low, high) == (0.0, 1.0) else (low - room, high + room)


def _axes(plane: _Plane, across: str, up: str) -> str:
    body, foot = "", plane.height - _BOTTOM
    for value in even_ticks(plane.low_x, plane.high_x, 5):
        x, _ = plane.at(value, plane.low_y)
        body += f'<path class="grid" d="M{x:.1f} {_TOP}V{foot}"/>'
        body += f'<text class="tick" x="{x:.1f}" y="{plane.height - 26}" text-anchor="middle">{value:,.6g}</text>'
    for value in even_ticks(plane.low_y, plane.high_y):
        _, y = plane.at(plane.low_x, value)
        body += f'<path class="grid" d="M{_LEFT} {y:.1f}H{plane.width - _RIGHT}"/>'
        body += f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>'
    middle = (_LEFT + plane.width - _RIGHT) / 2
    body += f'<text x="{middle:g}" y="{plane.height - 6:g}" text-anchor="middle">{escape(across)}</text>'
    return body + f'<text x="2" y="14">{escape(up)}</text>'


def _drawn(plane: _Plane, one: Series, colour: str) -> str:
    places = [plane.at(x, y) for x, y in one.points]
    if one.dots:
        return "".join(
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill: {colour}"/>' for x, y in places
        )
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    ends = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill: {colour}"/>' for x, y in places[-1:])
    return f'<path class="line" d="M{path}" style="stroke: {colour}"/>{ends}'


def _key(plane: _Plane, series: Sequence[Series]) -> str:
    body, y = "", plane.height + 8
    for place, one in enumerate(series):
        if one.label:
            body += f'<rect x="{_LEFT}" y="{y - 9:g}" width="12" height="10" style="fill: var(--c{place % 8})"/>'
            body += f'<text x="{_LEFT + 18:g}" y="{y:g}">{escape(one.label)}</text>'
            y += 18
    return body
