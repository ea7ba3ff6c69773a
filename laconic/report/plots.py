"""The charts of a report as matplotlib figures, for notebooks: drawn from the same points as the page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from laconic.deploy.result import Result
from laconic.errors import MissingExtra
from laconic.report.comparisons import comparisons_of
from laconic.report.page.charts import log_ticks, shapes_of
from laconic.report.page.view import charts_of
from laconic.report.words import in_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0b6b63", "#b4480f", "#3f5bd0", "#97369b", "#7a6a00", "#0077a8", "#b3243f", "#4d4d4d")


def plot_bytes(results: Sequence[Result]) -> "Figure":
    """Score against bytes sent while fitting, on a logarithmic axis, with the frontier; one panel per federation."""
    return _panels(results, _draw_bytes)


def plot_rounds(results: Sequence[Result]) -> "Figure":
    """Score against rounds of fitting, on a logarithmic axis, with looks part way as lines."""
    return _panels(results, _draw_rounds)


def plot_importance(results: Sequence[Result]) -> "Figure":
    """How much each party matters, a panel for each measure."""
    bars = [bar for part in comparisons_of(results) for bar in charts_of(part)["importance"]]
    if not bars:
        raise ValueError("no result says how much each party matters; get them from compare(), or execute(weigh=True)")
    measures = list(dict.fromkeys(bar["measure"] for bar in bars))
    figure, axes = _figure(len(measures))
    for axis, measure in zip(axes, measures, strict=True):
        some = [bar for bar in bars if bar["measure"] == measure]
        names = [f"{bar['label']}: {bar['party']}" for bar in some]
        labels = list(dict.fromkeys(bar["label"] for bar in bars))
        axis.barh(names, [bar["value"] for bar in some], color=[_colour(labels.index(bar["label"])) for bar in some])
        axis.invert_yaxis()
        axis.set_title(measure)
    return figure


def plot_roc(results: Sequence[Result]) -> "Figure":
    """ROC curves of methods that predict one of two classes, on held-out rows; one panel per federation."""
    return _plot_shapes(results, "roc", "no result has a ROC curve: it needs two classes, among the rows scored on")


def plot_predictions(results: Sequence[Result]) -> "Figure":
    """Predicted against true, in bins of rows: calibration of probabilities, or numbers."""
    return _plot_shapes(results, "bins", "no result has bins of predictions: too few rows were scored on")


def plot_learning(results: Sequence[Result]) -> "Figure":
    """The score on held-out rows by rounds, where looks were taken part way."""
    return _plot_shapes(results, "learning", "no run was looked at part way; use look_every, or --look-every")


def plot_rebuilt(results: Sequence[Result]) -> "Figure":
    """Columns before and after someone rebuilt them from what was sent, a panel for each method."""
    return _plot_shapes(results, "rebuilt", "leakage was not measured; use compare(leakage=True), or --leakage")


def _plot_shapes(results: Sequence[Result], key: str, otherwise: str) -> "Figure":
    shapes = [shape for part in comparisons_of(results) for shape in shapes_of(part) if shape.key == key]
    if not shapes:
        raise ValueError(otherwise)
    figure, axes = _figure(len(shapes))
    for axis, shape in zip(axes, shapes, strict=True):
        for place, one in enumerate(shape.series):
            xs, ys = zip(*one.points, strict=True)
            axis.plot(xs, ys, color=_colour(place), marker="" if key == "roc" else "o", label=one.label)
        if shape.diagonal:
            axis.axline((0, 0), slope=1, color="0.5", linestyle="--", linewidth=1, zorder=0)
        axis.set(title=shape.title, xlabel=shape.across, ylabel=shape.up)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return figure


def plot_wire(result: Result) -> "Figure":
    """Bytes of one run by party and step, up and down."""
    figure, (axis,) = _figure(1)
    names = [f"{one.party}, {one.phase}: {one.step}" for one in result.wire]
    up, down = [one.bytes_up for one in result.wire], [one.bytes_down for one in result.wire]
    axis.barh(names, up, color=_colour(0), label=f"up: {in_bytes(sum(up))}")
    axis.barh(names, down, left=up, color=_colour(1), label=f"down: {in_bytes(sum(down))}")
    axis.invert_yaxis()
    axis.xaxis.set_major_formatter(_in_bytes)
    axis.locator_params(axis="x", nbins=5)
    axis.set_title(f"What crossed: {result.method['type']}, seed {result.seed}")
    if names:
        axis.legend()
    return figure


def _panels(results: Sequence[Result], draw: Any) -> "Figure":
    parts = comparisons_of(results)
    if not parts:
        raise ValueError("there are no results to plot")
    figure, axes = _figure(len(parts))
    for axis, part in zip(axes, parts, strict=True):
        chart = charts_of(part)
        draw(axis, chart)
        axis.set_title(part.title)
        axis.set_ylabel(f"{chart['metric']} ({'lower' if chart['lower'] else 'higher'} is better)")
        axis.grid(alpha=0.25)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def _draw_bytes(axis: "Axes", chart: dict[str, Any]) -> None:
    _draw_points(axis, chart, "bytes")
    frontier = chart["frontier"]
    if frontier:
        end = axis.get_xlim()[1]
        steps = [*frontier, {"bytes": end, "score": frontier[-1]["score"]}]
        xs, ys = [one["bytes"] for one in steps], [one["score"] for one in steps]
        axis.step(xs, ys, where="post", color="0.35", linewidth=1.2, zorder=1, label="frontier")
        axis.set_xlim(right=end)
    axis.xaxis.set_major_formatter(_in_bytes)
    axis.set_xlabel("bytes sent while fitting")


def _draw_rounds(axis: "Axes", chart: dict[str, Any]) -> None:
    _draw_points(axis, chart, "rounds")
    axis.xaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
    axis.set_xlabel("rounds of fitting")


def _draw_points(axis: "Axes", chart: dict[str, Any], key: str) -> None:
    axis.set_xscale("log")
    points = [point for point in chart["points"] if point[key] > 0]
    leaks = key == "bytes" and any(point["leak"] is not None for point in points)
    for place, point in enumerate(points):
        colour = leak_shade(point["leak"]) if leaks else _colour(place)
        reach = point["high"] - point["score"]
        named = {"label": point["label"], "marker": "s" if point["role"] == "pooled" else "o"}
        axis.errorbar(point[key], point["score"], yerr=reach or None, color=colour, linestyle="", zorder=3, **named)
        curve = [one for one in chart["curves"] if one["label"] == point["label"]]
        axis.plot([one[key] for one in curve], [one["score"] for one in curve], color=colour, linewidth=1, alpha=0.7)
    for line in (chart["alone"], chart["pooled"]):
        if line is not None:
            axis.axhline(line["score"], color="0.5", linestyle="--", linewidth=1, zorder=0)
            axis.annotate(
                line["label"], (0.99, line["score"]), xycoords=("axes fraction", "data"), ha="right", va="top"
            )
    across = [one[key] for one in (*points, *chart["curves"]) if one[key] > 0]
    if across:
        # Room on both sides, also where all methods take one round.
        axis.set_xlim(min(across) / 1.7, max(across) * 1.7)
        axis.set_xticks(log_ticks(min(across) / 1.7, max(across) * 1.7))
        axis.minorticks_off()
    axis.set_ylim(*chart["range"])


def leak_shade(leak: float | None) -> str:
    """From green to red by the share of columns that can be rebuilt; grey where that was not measured."""
    if leak is None:
        return "#888888"
    share = min(max(leak, 0.0), 1.0)
    ends = zip((0x1C, 0x6B, 0x2F), (0xB3, 0x24, 0x3F), strict=True)
    return "#" + "".join(f"{round(low + share * (high - low)):02x}" for low, high in ends)


def _figure(panels: int) -> "tuple[Figure, Sequence[Axes]]":
    """A figure that no window manager knows of: notebooks show it, scripts save it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtra("matplotlib", "plots") from problem

    figure = Figure(figsize=(6.4 * panels, 4.4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)
    return figure, list(axes[0])


def _in_bytes(count: float, _: object) -> str:
    return in_bytes(round(count))


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]
