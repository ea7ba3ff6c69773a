"""The charts of a page as SVG, drawn here: no library is in the page, and charts are there without JavaScript too.

Each chart is drawn for a desktop and for a phone, and the style sheet shows the one that fits. Colours are the page's
own variables, so that themes and paper work. Dots can be reached by keyboard; `page.js` shows their words beside them.
First one number per method; then curves and dots on two plain axes; then ROC, predicted against true, learning curves
and rebuilt columns, which the page and the notebook share.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from textwrap import wrap
from typing import Any, NamedTuple

from laconic.deploy.result import Result
from laconic.report.comparisons import Comparison, MethodRuns
from laconic.report.words import figure, in_bytes, metric_name
from laconic.tables.task import Quality

_SIZES = {"wide": 540, "narrow": 350}
_LETTER = 7.2
"""About how wide a letter of a label is."""

Point = Mapping[str, Any]


class _Frame(NamedTuple):
    """Where values are in a chart: across on a logarithmic axis, down on a plain one."""

    width: float
    height: float
    low_x: float
    high_x: float
    low_y: float
    high_y: float
    left: float = 58
    right: float = 14
    top: float = 26
    bottom: float = 46

    def x(self, value: float) -> float:
        share = (log10(value) - log10(self.low_x)) / (log10(self.high_x) - log10(self.low_x))
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        share = (value - self.low_y) / (self.high_y - self.low_y)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)


def draw_scatter(chart: Mapping[str, Any], key: str, heading: str, alt: str) -> str:
    """Score against bytes or rounds: a dot per method, its spread, looks part way, yardsticks and the frontier."""
    points = [point for point in chart["points"] if point[key] > 0]
    if not points:
        return "<p>Nothing crossed, so there is nothing to draw.</p>"
    return both_sizes(lambda size: _scatter(chart, points, key, heading, size), alt)


def both_sizes(draw: Callable[[float], tuple[float, str]], alt: str) -> str:
    """A chart for a desktop and one for a phone; `draw` gives height and body for a width."""
    found = []
    for name, width in _SIZES.items():
        height, body = draw(width)
        found.append(
            f'<svg class="{name}" xmlns="http://www.w3.org/2000/svg" role="group" aria-label="{escape(alt)}" '
            f'viewBox="0 0 {width} {height:g}" font-size="13" fill="currentColor">{body}</svg>'
        )
    return "".join(found)


def _scatter(
    chart: Mapping[str, Any], points: Sequence[Point], key: str, heading: str, width: float
) -> tuple[float, str]:
    curves = [one for one in chart["curves"] if one[key] > 0]
    across = [one[key] for one in (*points, *curves)]
    frame = _Frame(width, max(300, min(380, width * 0.7)), min(across) / 1.7, max(across) * 1.7, *chart["range"])
    say: Callable[[float], str] = (lambda count: in_bytes(round(count))) if key == "bytes" else _counted
    lower = "lower" if chart["lower"] else "higher"
    body = _axes(frame, say, heading, f"{chart['metric']} ({lower} is better)")
    body += "".join(
        _rule(frame, line) for line in (chart["alone"], chart["pooled"] if key != "bytes" else None) if line
    )
    if key == "bytes" and chart["frontier"]:
        body += _frontier(frame, chart["frontier"])
    colours = {point["label"]: f"var(--c{point['colour']})" for point in chart["points"]}
    body += "".join(_curve(frame, [c for c in curves if c["label"] == label], key, colours[label]) for label in colours)
    leaks = key == "bytes" and any(point["leak"] is not None for point in points)
    body += "".join(
        _dot(frame, point, key, leak_colour(point["leak"]) if leaks else colours[point["label"]]) for point in points
    )
    return frame.height, body + _labels(frame, points, key, colours)


def leak_colour(leak: float | None) -> str:
    """From green to red by the share of columns that can be rebuilt; grey where that was not measured."""
    if leak is None:
        return "var(--soft)"
    return f"color-mix(in srgb, var(--c6) {100 * min(max(leak, 0.0), 1.0):.0f}%, var(--good))"


def _counted(number: float) -> str:
    return f"{round(number):,}"


def _axes(frame: _Frame, say: Callable[[float], str], heading: str, metric: str) -> str:
    body, last = "", -1e9
    for value in log_ticks(frame.low_x, frame.high_x):
        x, words = frame.x(value), say(value)
        body += f'<path class="grid" d="M{x:.1f} {frame.top}V{frame.height - frame.bottom}"/>'
        # A label that would touch the one before is left out; its line stays.
        if x - last > _LETTER * len(words) + 8:
            body += (
                f'<text class="tick" x="{x:.1f}" y="{frame.height - 26}" text-anchor="middle">{escape(words)}</text>'
            )
            last = x
    for value in even_ticks(frame.low_y, frame.high_y):
        y = frame.y(value)
        body += f'<path class="grid" d="M{frame.left} {y:.1f}H{frame.width - frame.right}"/>'
        body += f'<text class="tick" x="{frame.left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    middle = (frame.left + frame.width - frame.right) / 2
    body += f'<text x="{middle:g}" y="{frame.height - 6:g}" text-anchor="middle">{escape(heading)}</text>'
    return body + f'<text x="2" y="14">{escape(metric)}</text>'


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within a range, with 2 and 5 times these where there are fewer than three.

    >>> log_ticks(0.5, 300)
    [1, 10, 100]
    >>> log_ticks(0.6, 3)
    [1, 2]
    """
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        found = [factor * 10**power for power in powers for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            break
    return found


def even_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within a range, evenly apart and at most so many.

    >>> even_ticks(0.83, 0.99)
    [0.85, 0.9, 0.95]
    """
    step = 10.0 ** floor(log10((high - low) / most))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    return [round(place * step, 12) for place in range(ceil(low / step), floor(high / step) + 1)]


def _rule(frame: _Frame, line: Mapping[str, Any]) -> str:
    y, end = frame.y(line["score"]), frame.width - frame.right
    place = f'x="{end}" y="{y + 15:.1f}" text-anchor="end" font-style="italic"'
    words = f'<text class="halo" {place}>{escape(line["label"])}</text>'
    return f'<path class="rule" d="M{frame.left} {y:.1f}H{end}"/>{words}'


def _frontier(frame: _Frame, steps: Sequence[Point]) -> str:
    path = f"M{frame.x(steps[0]['bytes']):.1f} {frame.y(steps[0]['score']):.1f}"
    for one in steps[1:]:
        path += f"H{frame.x(one['bytes']):.1f}V{frame.y(one['score']):.1f}"
    return f'<path class="frontier" d="{path}H{frame.width - frame.right}"/>'


def _curve(frame: _Frame, looks: Sequence[Point], key: str, colour: str) -> str:
    """Looks part way; what began below the axis is drawn on its edge."""
    places = [(frame.x(one[key]), min(frame.y(one["score"]), frame.height - frame.bottom)) for one in looks]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path class="look" d="M{path}" style="stroke: {colour}"/>' if len(places) > 1 else ""


def _dot(frame: _Frame, point: Point, key: str, colour: str) -> str:
    x, y = frame.x(point[key]), frame.y(point["score"])
    low, high = frame.y(point["low"]), frame.y(point["high"])
    spread = f'<path class="spread" d="M{x:.1f} {low:.1f}V{high:.1f}" style="stroke: {colour}"/>'
    words, size = escape(point["tip"], quote=True), 9 if point["role"] == "chosen" else 6
    shared = f'class="dot" tabindex="0" role="img" aria-label="{words}" data-tip="{words}" style="fill: {colour}"'
    if point["role"] == "pooled":
        return f'{spread}<rect {shared} x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"/>'
    return f'{spread}<circle {shared} cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'


def _labels(frame: _Frame, points: Sequence[Point], key: str, colours: Mapping[str, str]) -> str:
    """Labels beside their dots, moved up until none covers another."""
    placed: list[tuple[float, float, float]] = []
    body = ""
    for point in sorted(points, key=lambda one: -frame.y(one["score"])):
        words, x, y = brief(point["label"]), frame.x(point[key]), frame.y(point["score"])
        wide = _LETTER * len(words) + 14
        right = x + wide < frame.width - frame.right
        left = x if right else x - wide
        while any(abs(other - y) < 16 and left < end and start < left + wide for start, end, other in placed):
            y -= 3
        placed.append((left, left + wide, y))
        anchor = "start" if right else "end"
        at = f'x="{x + 12 if right else x - 12:.1f}" y="{max(y, 30) + 4:.1f}" text-anchor="{anchor}"'
        bold = ' font-weight="700"' if point["role"] == "chosen" else ""
        body += f'<text class="halo label" {at}{bold} style="fill: {colours[point["label"]]}">{escape(words)}</text>'
    return body


def brief(label: str) -> str:
    """A label of at most 24 letters."""
    return label if len(label) <= 24 else f"{label[:22]}…"


def draw_bars(bars: Sequence[Point], alt: str) -> str:
    """How much each party matters: bars, a block for each measure and method."""
    return both_sizes(lambda width: _bars(bars, width), alt)


def _bars(bars: Sequence[Point], width: float) -> tuple[float, str]:
    y, body, start = 0.0, "", 110
    for measure in dict.fromkeys(bar["measure"] for bar in bars):
        some = [bar for bar in bars if bar["measure"] == measure]
        most, least = max(*(bar["value"] for bar in some), 0), min(*(bar["value"] for bar in some), 0)
        unit = (width - start - 70) / ((most - least) or 1)
        zero, y = start - least * unit, y + 26
        body += f'<text x="0" y="{y - 8:g}" font-weight="600">{escape(measure)}</text>'
        for label in dict.fromkeys(bar["label"] for bar in some):
            body += f'<text class="tick" x="0" y="{y + 12:g}">{escape(label)}</text>'
            y += 18
            for bar in (one for one in some if one["label"] == label):
                long = bar["value"] * unit
                place = f'x="{zero + min(long, 0):.1f}" y="{y:g}" width="{abs(long):.1f}" height="14"'
                colour = f"var(--c{bar['colour']})"
                body += f'<rect class="bar" {place} style="fill: {colour}"/>'
                body += f'<text x="{start - 8}" y="{y + 12:g}" text-anchor="end">{escape(brief(bar["party"]))}</text>'
                body += f'<text x="{zero + max(long, 0) + 6:.1f}" y="{y + 12:g}">{escape(bar["text"])}</text>'
                y += 20
        y += 8
    return y + 4, body


def draw_flow(lines: Sequence[Mapping[str, Any]], hub: str, alt: str) -> str:
    """Who sent how much to whom: the hub on the right, every other party on the left, lines as thick as bytes."""
    parties = list(dict.fromkeys(name for line in lines for name in (line["sender"], line["receiver"]) if name != hub))
    up = {name: sum(line["bytes"] for line in lines if line["sender"] == name) for name in parties}
    down = {name: sum(line["bytes"] for line in lines if line["receiver"] == name) for name in parties}
    return both_sizes(lambda width: _flow(parties, up, down, hub, width), alt) if parties else ""


def _flow(
    parties: Sequence[str], up: Mapping[str, int], down: Mapping[str, int], hub: str, width: float
) -> tuple[float, str]:
    most, high = max(*up.values(), *down.values(), 1), 64.0
    total, start, end = high * len(parties), 104.0, width - 104.0
    body = f'<rect class="node" x="{end:g}" y="4" width="100" height="{total - 8:g}" rx="6"/>'
    body += f'<text x="{end + 50:g}" y="{total / 2 + 5:g}" text-anchor="middle">{escape(brief(hub)[:13])}</text>'
    for place, name in enumerate(parties):
        top = place * high
        body += f'<rect class="node" x="4" y="{top + 4:g}" width="100" height="{high - 8:g}" rx="6"/>'
        body += f'<text x="54" y="{top + high / 2 + 5:g}" text-anchor="middle">{escape(brief(name)[:13])}</text>'
        for count, y, colour, arrow in (
            (up[name], top + 20, 0, "to the hub"),
            (down[name], top + 44, 1, "from the hub"),
        ):
            thick = max(1.0, 18 * count / most)
            line = f'd="M{start:g} {y:g}H{end:g}" stroke-width="{thick:.1f}" style="stroke: var(--c{colour})"'
            body += f'<path class="flow" {line}/>'
            words = f"{in_bytes(count)} {arrow}"
            body += f'<text class="halo" x="{width / 2:g}" y="{y + 4:g}" text-anchor="middle">{words}</text>'
    return total + 4, body


_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 26.0, 46.0


class Series(NamedTuple):
    """Points of one of the eight colours, with a name for the key; joined by a line, or as dots."""

    label: str
    points: Sequence[tuple[float, float]]
    dots: bool = False
    colour: int = 0


def colours_of(part: Comparison) -> dict[str, int]:
    """The colour of each method, the same in all charts; the last is of the label holder alone."""
    others = [arm.label for arm in part.arms if not arm.is_alone]
    found = {label: place % _GREY for place, label in enumerate(others)}
    return found | {arm.label: _GREY for arm in part.arms if arm.is_alone}


_GREY = 7


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
    body = _plane_axes(plane, across, up)
    if diagonal:
        (x, y), (end, top) = plane.at(xs[0], xs[0]), plane.at(xs[1], xs[1])
        body += f'<path class="rule" d="M{x:.1f} {y:.1f}L{end:.1f} {top:.1f}"/>'
    for one in series:
        body += _drawn(plane, one, f"var(--c{one.colour})")
    foot, key = _key(plane, series)
    return foot, body + key


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or abs(high) or 1.0
    return (low, high) if (low, high) == (0.0, 1.0) else (low - room, high + room)


def _plane_axes(plane: _Plane, across: str, up: str) -> str:
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


def _key(plane: _Plane, series: Sequence[Series]) -> tuple[float, str]:
    """What each colour is, below the chart, and where that ends; long names take several lines."""
    body, foot = "", plane.height
    for one in series:
        for number, words in enumerate(wrap(one.label, int((plane.width - _LEFT - 18) / _LETTER))):
            foot += 18
            if number == 0:
                body += (
                    f'<rect x="{_LEFT}" y="{foot - 9:g}" width="12" height="10" style="fill: var(--c{one.colour})"/>'
                )
            body += f'<text x="{_LEFT + 18:g}" y="{foot:g}">{escape(words)}</text>'
    return foot + 6, body


class Shape(NamedTuple):
    """One chart, and the table behind it.

    Attributes:
        key: a short name.
        title, note: what it shows, and how to read it.
        across, up: what the axes are.
        diagonal: whether both axes are of the same kind, so that equal values lie on a line.
        series: what is drawn.
        headings, rows: the numbers of all series.
    """

    key: str
    title: str
    note: str
    across: str
    up: str
    diagonal: bool
    series: list[Series]
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def svg(self) -> str:
        """The chart as SVG."""
        words = "; ".join(f"{one.label}: {len(one.points)} points" for one in self.series)
        alt = f"{self.up} against {self.across}. {words}. The numbers are in the table below the chart."
        return draw_lines(self.series, self.across, self.up, alt, diagonal=self.diagonal)


def shapes_of(part: Comparison) -> list[Shape]:
    """Every such chart that the results of a federation have numbers for."""
    arms = [(arm.label, arm.first.quality) for arm in part.arms if arm.first.quality is not None]
    colours = colours_of(part)
    found = [_roc(arms, colours), _bins(arms, part.first, colours), _learning(part.arms, colours)]
    return [shape for shape in (*found, *map(_rebuilt, part.arms)) if shape is not None]


def _roc(arms: Sequence[tuple[str, Quality]], colours: Mapping[str, int]) -> Shape | None:
    some = [(label, one) for label, one in arms if one.roc]
    if not some:
        return None
    return Shape(
        key="roc",
        title="ROC",
        note="Which share of the other rows must be taken along to find a share of those sought. Up and to the left is "
        "better; on the line it is guessing.",
        across="share of the negative rows above the threshold",
        up="share of the positive rows above it",
        diagonal=True,
        series=[Series(f"{label} (area {one.area:.4f})", one.roc, colour=colours[label]) for label, one in some],
        headings=("method", "negative rows above", "positive rows above"),
        rows=[(label, f"{x:.4f}", f"{y:.4f}") for label, one in some for x, y in one.roc],
    )


def _bins(arms: Sequence[tuple[str, Quality]], first: Result, colours: Mapping[str, int]) -> Shape | None:
    some = [(label, one) for label, one in arms if one.bins]
    if not some:
        return None
    numbers = first.task.kind == "regression"
    seen = {"binary": f"P({(*first.task.classes, '', '')[1]})", "multiclass": "probability of the class named"}
    headings = ("method", "predicted", "true", "rows", *(("four fifths between",) if numbers else ()))
    rows = [
        (label, figure(one.predicted), figure(one.true), f"{one.rows:,}", f"{figure(one.low)} to {figure(one.high)}")
        for label, quality in some
        for one in quality.bins
    ]
    return Shape(
        key="bins",
        title="Predicted against true" if numbers else "Calibration",
        note="Each point is a bin of rows with about the same prediction, ten rows at least: no single row is shown. "
        "On the line, what is predicted is what is true.",
        across=f"predicted {first.task.label}" if numbers else f"predicted: {seen[first.task.kind]}",
        up=f"mean {first.task.label}" if numbers else "share of rows where that is true",
        diagonal=True,
        series=[
            Series(label, [(one.predicted, one.true) for one in quality.bins], colour=colours[label])
            for label, quality in some
        ],
        headings=headings,
        rows=[row[: len(headings)] for row in rows],
    )


def _learning(arms: Sequence[MethodRuns], colours: Mapping[str, int]) -> Shape | None:
    looked = [(arm.label, arm.first.curve, metric_name(arm.metric)) for arm in arms if len(arm.first.curve) > 1]
    if not looked:
        return None
    return Shape(
        key="learning",
        title="Learning curves",
        note="The score on held-out rows by the rounds of fitting so far, of the first seed.",
        across="rounds of fitting",
        up=looked[0][2],
        diagonal=False,
        series=[
            Series(label, [(one.rounds, one.score.value) for one in curve], colour=colours[label])
            for label, curve, _ in looked
        ],
        headings=("method", "rounds", "bytes", looked[0][2]),
        rows=[
            (label, f"{one.rounds:,}", in_bytes(one.bytes), figure(one.score.value))
            for label, curve, _ in looked
            for one in curve
        ],
    )


def _rebuilt(arm: MethodRuns) -> Shape | None:
    found = [(one.party, column) for one in arm.first.leakage for column in one.columns]
    if not found:
        return None
    return Shape(
        key="rebuilt",
        title=f"Columns before and after reconstruction: {arm.label}",
        note="What someone who knows one row in a hundred makes of the columns that come out best, from what was sent "
        "in the open. Each point is a bin of ten rows at least. On the line a column is laid bare; level is a guess.",
        across="true cells, as the party's models see them",
        up="cells as rebuilt",
        diagonal=True,
        series=[
            Series(
                f"{party}: {column.name} (R2 {column.r2:.2f})",
                [(one.true, one.predicted) for one in column.bins],
                colour=place % 8,
            )
            for place, (party, column) in enumerate(found)
        ],
        headings=("party", "column", "R2", "true", "rebuilt", "rows"),
        rows=[
            (party, column.name, f"{column.r2:.2f}", figure(one.true), figure(one.predicted), f"{one.rows:,}")
            for party, column in found
            for one in column.bins
        ],
    )
