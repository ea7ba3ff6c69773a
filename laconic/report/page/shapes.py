"""Charts beyond one number, for page and notebook: ROC, predicted against true, learning curves, rebuilt columns."""

from collections.abc import Sequence
from typing import NamedTuple

from laconic.core.result import Result
from laconic.report.comparisons import Comparison, MethodRuns
from laconic.report.page.lines import Series, draw_lines
from laconic.report.words import figure, in_bytes, metric_name
from laconic.tables.quality import Quality


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
    found = [_roc(arms), _bins(arms, part.first), _learning(part.arms), *map(_rebuilt, part.arms)]
    return [shape for shape in found if shape is not None]


def _roc(arms: Sequence[tuple[str, Quality]]) -> Shape | None:
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
        series=[Series(f"{label} (area {one.area:.4f})", one.roc) for label, one in some],
        headings=("method", "negative rows above", "positive rows above"),
        rows=[(label, f"{x:.4f}", f"{y:.4f}") for label, one in some for x, y in one.roc],
    )


def _bins(arms: Sequence[tuple[str, Quality]], first: Result) -> Shape | None:
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
        series=[Series(label, [(one.predicted, one.true) for one in quality.bins]) for label, quality in some],
        headings=headings,
        rows=[row[: len(headings)] for row in rows],
    )


def _learning(arms: Sequence[MethodRuns]) -> Shape | None:
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
        series=[Series(label, [(one.rounds, one.score.value) for one in curve]) for label, curve, _ in looked],
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
            Series(f"{party}: {column.name} (R2 {column.r2:.2f})", [(one.true, one.predicted) for one in column.bins])
            for party, column in found
        ],
        headings=("party", "column", "R2", "true", "rebuilt", "rows"),
        rows=[
            (party, column.name, f"{column.r2:.2f}", figure(one.true), figure(one.predicted), f"{one.rows:,}")
            for party, column in found
            for one in column.bins
        ],
    )
