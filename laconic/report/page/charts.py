"""The points that charts draw, as plain values: the page and the Python plots draw the same."""

from typing import Any

from laconic.report.arms import Arm
from laconic.report.parts import Part
from laconic.report.words import figure, in_bytes, in_rounds, mean_spread, metric_name

MEASURES = {
    "heads": "length of its head",
    "noise": "score lost with noise on its cells",
    "shapley": "Shapley value on training rows",
}
"""How party importance is measured, in words."""

_ROOM = 0.12
"""Room above and below the scores of a chart, as a share of what lies between them."""


def charts_of(part: Part) -> dict[str, Any]:
    """All charts of one federation."""
    alone, pooled = part.alone, part.pooled
    frontier = [arm for arm in part.frontier if arm.bytes > 0]
    points = [_point(part, arm) for arm in part.arms if not arm.is_alone]
    return {
        "metric": metric_name(part.arms[0].metric),
        "range": _range([*(point[end] for point in points for end in ("low", "high")), *(a.score for a in part.arms)]),
        "lower": part.arms[0].sign < 0,
        "alone": None if alone is None else {"label": f"{part.holder} alone", "score": alone.score},
        "pooled": None if pooled is None else {"label": "pooled", "score": pooled.score},
        "points": points,
        "curves": [point for arm in part.arms for point in _curve(arm)],
        "frontier": [{"bytes": arm.bytes, "score": arm.score, "label": arm.label} for arm in frontier],
        "importance": [bar for arm in part.arms for bar in _bars(arm)],
    }


def _range(scores: list[float]) -> tuple[float, float]:
    """Where the axis of scores begins and ends: at the final scores with some room, however low looks began."""
    low, high = min(scores), max(scores)
    room = _ROOM * (high - low or abs(high) or 1.0)
    return low - room, high + room


def _point(part: Part, arm: Arm) -> dict[str, Any]:
    spread = arm.spread or 0.0
    told = f"{mean_spread(arm.score, arm.spread)}\n{in_bytes(arm.bytes)}, {in_rounds(arm.rounds)}"
    return {
        "label": arm.label,
        "score": arm.score,
        "low": arm.score - spread,
        "high": arm.score + spread,
        "bytes": arm.bytes,
        "rounds": arm.rounds,
        "role": "chosen" if arm is part.chosen else "pooled" if arm.is_pooled else "other",
        "told": f"{arm.label}\n{told}",
    }


def _curve(arm: Arm) -> list[dict[str, Any]]:
    """Looks part way, of the first seed."""
    return [
        {"label": arm.label, "bytes": look.bytes, "rounds": look.rounds, "score": look.score.value}
        for look in arm.first.curve
        if look.rounds > 0 and look.bytes > 0
    ]


def _bars(arm: Arm) -> list[dict[str, Any]]:
    found = next((result.importance for result in arm.results if result.importance), None) or {}
    return [
        {
            "label": arm.label,
            "measure": MEASURES.get(measure, measure),
            "party": party,
            "value": value,
            "text": figure(value),
        }
        for measure, by_party in found.items()
        for party, value in by_party.items()
    ]
