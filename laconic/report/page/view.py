"""What a page shows, as plain values: worked out here, so that the template only lays it out."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from textwrap import shorten
from threading import Event, Thread
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from laconic.deploy.result import PartyTraffic, Result
from laconic.deploy.watch import RunState
from laconic.errors import LaconicError
from laconic.report.comparisons import (
    Comparison,
    MethodRuns,
    comparisons_of,
    flatten,
    members,
    price_of,
    role_of,
    sentences,
    settings_key,
)
from laconic.report.page.charts import Series, colours_of, draw_bars, draw_flow, draw_lines, draw_scatter, shapes_of
from laconic.report.words import (
    contribution_lines,
    epsilon_in_words,
    figure,
    in_bytes,
    in_rounds,
    in_seconds,
    leakage_line,
    mean_spread,
    metric_name,
    protection,
    release_form,
    rows_used,
    tried_line,
    tuning_line,
)

if TYPE_CHECKING:
    from jinja2 import Environment


MEASURES = {
    "heads": "length of its head",
    "noise": "score lost with noise on its cells",
    "shapley": "Shapley value on training rows",
}
"""How party importance is measured, in words."""

_ROOM = 0.12
"""Room above and below the scores of a chart, as a share of their range."""


def charts_of(part: Comparison) -> dict[str, Any]:
    """All charts of one federation."""
    alone, pooled = part.alone, part.pooled
    points = [_point(part, arm) for arm in part.arms if not arm.is_alone]
    return {
        "metric": metric_name(part.arms[0].metric),
        "range": _range([*(point[end] for point in points for end in ("low", "high")), *(a.score for a in part.arms)]),
        "lower": part.arms[0].sign < 0,
        "alone": None if alone is None else {"label": f"{part.holder} alone", "score": alone.score},
        "pooled": None if pooled is None else {"label": "pooled", "score": pooled.score},
        "points": points,
        "curves": [point for arm in part.arms for point in _curve(arm)],
        "frontier": [_point(part, arm) for arm in part.frontier if arm.bytes > 0],
        "importance": [bar | {"colour": colours_of(part)[arm.label]} for arm in part.arms for bar in _bars(arm)],
    }


def _range(scores: list[float]) -> tuple[float, float]:
    """Where the axis of scores begins and ends: at the final scores with some room, however low looks began."""
    low, high = min(scores), max(scores)
    room = _ROOM * (high - low or abs(high) or 1.0)
    return low - room, high + room


def _point(part: Comparison, arm: MethodRuns) -> dict[str, Any]:
    spread = arm.spread or 0.0
    score = mean_spread(arm.score, arm.spread)
    leak = max((one.mean for one in arm.first.leakage), default=None)
    rebuilt = "" if leak is None else f"\ncolumns rebuilt from it: R2 {leak:.2f}"
    return {
        "label": arm.label,
        "colour": colours_of(part)[arm.label],
        "score": arm.score,
        "low": arm.score - spread,
        "high": arm.score + spread,
        "bytes": arm.bytes,
        "rounds": arm.fit.rounds,
        "role": "chosen" if arm is part.chosen else "pooled" if arm.is_pooled else "other",
        "leak": leak,
        "tip": f"{arm.label}\n{score}\n{in_bytes(arm.bytes)}, {in_rounds(arm.fit.rounds)}{rebuilt}",
    }


def _curve(arm: MethodRuns) -> list[dict[str, Any]]:
    """Looks part way, of the first seed."""
    return [
        {"label": arm.label, "bytes": look.bytes, "rounds": look.rounds, "score": look.score.value}
        for look in arm.first.curve
        if look.rounds > 0 and look.bytes > 0
    ]


def _bars(arm: MethodRuns) -> list[dict[str, Any]]:
    found = next((result.importance for result in arm.results if result.importance), None) or {}
    bars = [(MEASURES.get(name, name), *bar) for name, by_party in found.items() for bar in by_party.items()]
    return [
        {"label": arm.label, "measure": measure, "party": party, "value": value, "text": figure(value)}
        for measure, party, value in bars
    ]


View = dict[str, Any]
_SHORT = 110


def _part(part: Comparison, number: int, commands: Mapping[str, str]) -> View:
    first = part.first
    return {
        "id": f"part{number}",
        "title": part.title,
        "who": _who(part),
        "rows": rows_used(first),
        "notes": list(first.data.get("notes") or ()),
        "verdict": sentences(part),
        "cards": _cards(part),
        "metric": metric_name(part.arms[0].metric),
        "lower": part.arms[0].sign < 0,
        "several_seeds": any(len(arm.results) > 1 for arm in part.arms),
        "arms": [_arm(part, arm, at, commands) for at, arm in enumerate(part.arms)],
        "charts": _drawn(part),
        "shapes": [shape._asdict() | {"svg": Markup(shape.svg())} for shape in shapes_of(part)],  # noqa: S704
        "command": commands.get(part.title, ""),
    }


def _who(part: Comparison) -> str:
    if part.is_horizontal:
        return f"Parties have other rows of the same columns: {', '.join(members(part.first))}. A server asks them."
    others = [name for name in members(part.first) if name != part.holder]
    asked = ", ".join(others) or "nobody"
    return f"{part.holder} holds the labels ({part.first.task.label}); the others are {asked}."


def _cards(part: Comparison) -> list[View]:
    """The three figures to look at first: alone, the method to use, and pooled."""
    chosen = part.chosen
    found = []
    if part.alone is not None:
        found.append(_card(f"{part.holder} alone", part.alone, "sends nothing to learn", "alone"))
    if chosen is not None:
        found.append(_card(f"{chosen.label}: {role_of(part, chosen)}", chosen, price_of(chosen), "chosen"))
    if part.pooled is not None:
        pooled = part.what_is_pooled
        found.append(
            _card(f"all {pooled} pooled", part.pooled, f"{in_bytes(part.pooled.bytes)} of raw {pooled}", "pooled")
        )
    return found


def _card(title: str, arm: MethodRuns, cost: str, role: str) -> View:
    spread = "" if arm.spread is None else f"± {figure(arm.spread)}"
    given = _gives(arm) if role == "chosen" else ""
    return {"title": title, "score": figure(arm.score), "spread": spread, "cost": cost, "role": role, "gives": given}


def _gives(arm: MethodRuns) -> str:
    """In a line, what an arm gives away, most bytes first."""
    if not arm.given:
        return "gives nothing away"
    most = max(arm.given, key=lambda same: sum(one.bytes for one in same))[0]
    more = f", and {len(arm.given) - 1} more" if len(arm.given) > 1 else ""
    guard = {"open": "unprotected", "noised": "with noise"}.get(most.label, most.label)
    # On the first screen the beginning is enough; the ledger below has all of it.
    return f"gives away, {guard}: {shorten(most.words, _SHORT, placeholder=' ...')}{more}"


def _arm(part: Comparison, arm: MethodRuns, number: int, commands: Mapping[str, str]) -> View:
    result = arm.first
    settings = {key: value for key, value in flatten(result.method).items() if key != "type"}
    return {
        "label": arm.label,
        "kind": arm.kind,
        "fit": arm.fit,
        "number": number,
        "is_chosen": arm is part.chosen,
        "advice": role_of(part, arm),
        "is_yardstick": not arm.is_federated,
        "score": mean_spread(arm.score, arm.spread),
        "score_value": arm.score,
        "epsilon": epsilon_in_words(result),
        "epsilon_value": _sortable_epsilon(result),
        "released": _released(arm),
        "wire": _wire(result),
        "flow": _flow(result, arm.label),
        "price": _price(result),
        "settings": {key: "not set" if value is None else str(value) for key, value in settings.items()},
        "seeds": ", ".join(str(one.seed) for one in arm.results),
        "metrics": {metric_name(name): figure(value) for name, value in result.metrics.items()},
        "absent": sorted({absence.party for absence in result.absences}),
        "odd": [words for words, is_odd in contribution_lines(result) if is_odd],
        "tried": tried_line(result),
        "tuned": [f"seed {one.seed}: {tuning_line(one)}" for one in arm.results if one.tuning is not None],
        "allowed": "" if arm.allowed is None else "{} trials and {:g} processor seconds".format(*arm.allowed),
        "stopped": "" if result.stopped == "finished" else result.stopped,
        "command": commands.get(settings_key(result), ""),
    }


def _sortable_epsilon(result: Result) -> float:
    if not result.releases:
        return 0.0
    return result.privacy.epsilon if result.privacy is not None and result.privacy.epsilon is not None else 1e308


def _released(arm: MethodRuns) -> list[View]:
    return [
        {
            "words": same[0].words,
            "label": same[0].label,
            "who": ", ".join(dict.fromkeys(one.party for one in same)),
            "to": same[0].to,
            "phases": ", ".join(dict.fromkeys(one.phase for one in same)),
            "form": release_form(arm.first, same[-1]),
            "times": sum(one.times for one in same),
            "bytes": sum(one.bytes for one in same),
            "protection": "; ".join(filter(None, (protection(same[0]), leakage_line(arm.first, same)))),
        }
        for same in arm.given
    ]


def _wire(result: Result) -> list[View]:
    """Who sent what to whom: a line for each phase, step, party and direction in which bytes crossed."""
    words = {(one.phase, one.step, one.party): one.words for one in result.releases}
    asked = {(one.phase, one.step): one.words for one in result.releases if one.party == result.hub}
    lines = [line for one in result.wire for line in _both_ways(one, result.hub, words, asked)]
    most = max((line["bytes"] for line in lines), default=1)
    return [line | {"share": round(100 * line["bytes"] / most, 2)} for line in lines]


def _both_ways(
    one: PartyTraffic, hub: str, words: Mapping[tuple[str, str, str], str], asked: Mapping[tuple[str, str], str]
) -> list[View]:
    question = asked.get((one.phase, one.step), "the question itself: nothing made from rows")
    answer = words.get((one.phase, one.step, one.party), "a sign that it is done: nothing made from rows")
    shared = {"phase": one.phase, "step": one.step, "times": one.times}
    down = {"sender": hub, "receiver": one.party, "words": question, "bytes": one.bytes_down}
    up = {"sender": one.party, "receiver": hub, "words": answer, "bytes": one.bytes_up}
    return [shared | down, shared | up]


def _price(result: Result) -> View | None:
    paid = result.privacy
    if paid is None:
        return None
    one_party = "people known to one party: the greatest loss counts"
    return msgspec.structs.asdict(paid) | {
        "figure": paid.figure,
        "delta": f"{paid.delta:g}",
        "units": "; ".join(paid.units),
        "people": "people known to all parties: their losses add" if paid.people == "shared" else one_party,
        "by_party": {party: f"{loss:.3g}" for party, loss in paid.by_party.items()},
    }


def _drawn(part: Comparison) -> dict[str, Markup]:
    """The charts as SVG; nothing for who matters where that is not known."""
    data, alt = charts_of(part), _alternative_texts(part)
    drawn = {
        "bytes": draw_scatter(data, "bytes", "bytes sent while fitting", alt["bytes"]),
        "rounds": draw_scatter(data, "rounds", "rounds of fitting", alt["rounds"]),
        "importance": draw_bars(data["importance"], alt["importance"]) if data["importance"] else "",
    }
    # Drawn by our own functions, which escape every name.
    return {name: Markup(svg) for name, svg in drawn.items()}  # noqa: S704


def _flow(result: Result, label: str) -> Markup:
    """Who sent how much to whom."""
    lines = _wire(result)
    words = "; ".join(
        f"{line['sender']} to {line['receiver']} {in_bytes(line['bytes'])} ({line['step']})" for line in lines
    )
    return Markup(draw_flow(lines, result.hub, f"Bytes of {label}: {words}"))  # noqa: S704


def _alternative_texts(part: Comparison) -> dict[str, str]:
    """What the charts show, in sentences for those who cannot see them."""
    metric = metric_name(part.arms[0].metric)
    by_bytes = "; ".join(f"{arm.label} {figure(arm.score)} for {in_bytes(arm.bytes)}" for arm in part.arms)
    by_rounds = "; ".join(f"{arm.label} {figure(arm.score)} in {in_rounds(arm.fit.rounds)}" for arm in part.arms)
    best = ", ".join(arm.label for arm in part.frontier)
    return {
        "bytes": f"{metric} against bytes of fitting, on a logarithmic axis: {by_bytes}. On the frontier: {best}.",
        "rounds": f"{metric} against rounds of fitting: {by_rounds}.",
        "importance": "How much each party matters; the numbers are in the table below the chart.",
    }


_HERE = "laconic.report.page"


def render_page(results: Sequence[Result], commands: Mapping[str, str] | None = None, title: str | None = None) -> str:
    """The page of some results, of one method or several, on one federation or several.

    Args:
        commands: how to run them again, as `laconic.report.reproduce.commands_for` gives them.
        title: of the page; by default the data's name.
    """
    if not results:
        raise ValueError("there are no results to report")
    parts = comparisons_of(results)
    versions = [arm.first.versions for part in parts for arm in part.arms]
    view = {
        "title": title or "; ".join(part.title for part in parts),
        "parts": [_part(part, number, commands or {}) for number, part in enumerate(parts)],
        "versions": {name: version for one in versions for name, version in one.items() if name != "code"},
        "charts_data": [charts_of(part) for part in parts],
    }
    return fill("page.html", view)


def fill(template: str, view: Mapping[str, Any]) -> str:
    """A template with its values; everything that is not markup of our own is escaped."""
    shared = {"style": read_text("style.css"), "script": read_text("page.js")}
    return _environment().get_template(template).render(**shared, **view)


def read_text(name: str) -> str:
    """A file that comes with the package."""
    return files(_HERE).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(loader=PackageLoader(_HERE, ""), autoescape=True, undefined=StrictUndefined)
    found.trim_blocks = found.lstrip_blocks = True
    found.filters |= {"in_bytes": in_bytes, "in_seconds": in_seconds}
    return found


_LOOPBACK = "127.0.0.1"
_LINGERS = 3.0
_PHASES = {"align": "matching rows", "fit": "fitting", "look": "looking part way", "final": "scoring held-out rows"}
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@contextmanager
def serve_live(state: Callable[[], RunState]) -> Iterator[str]:
    """Serve the page of a run within this block; gives its address.

    A browser that is looking when the block ends gets the last state first, within a few seconds.

    Args:
        state: how the run stands, asked for at every request.
    """
    server = _Server(state)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield server.address
        server.linger()
    except LaconicError:
        server.linger()
        raise
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: Callable[[], RunState]) -> None:
        super().__init__((_LOOPBACK, 0), _Handler)
        self.state, self.secret = state, secrets.token_urlsafe(16)
        self.seen, self.saw_end = 0.0, Event()
        self.hosts = {f"{name}:{self.server_port}" for name in (_LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/{self.secret}/"

    def linger(self) -> None:
        """Let a browser that has asked in the last seconds see how it ended."""
        if self.seen and monotonic() - self.seen < _LINGERS:
            self.saw_end.wait(_LINGERS)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "laconic", ""
    timeout = 10

    def do_GET(self) -> None:
        """The page, or its inner part as it is now."""
        parts = self.path.split("?")[0].split("/")
        known = len(parts) == 3 and secrets.compare_digest(parts[1].encode(), self.server.secret.encode())
        if self.headers.get("Host") not in self.server.hosts or not known or parts[2] not in ("", "now"):
            self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")
            return
        now = self.server.state()
        self.server.seen = monotonic()
        self._answer(HTTPStatus.OK, fill("now.html" if parts[2] else "live.html", _view(now)), "text/html")
        if _ended(now):
            self.server.saw_end.set()

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Type": f"{kind}; charset=utf-8"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: the terminal belongs to the command."""


def _ended(now: RunState) -> bool:
    return now.state not in ("running", "waiting for parties")


def _view(now: RunState) -> dict[str, Any]:
    last = now.scores[-1] if now.scores else None
    phase = _PHASES.get(now.phase, "getting ready")
    passed = max(0.0, (now.changed if _ended(now) else time()) - (now.began or time()))
    return {
        "title": now.title,
        "state": phase if now.state == "running" else now.state,
        "ended": _ended(now),
        "seconds": in_seconds(passed),
        "score": "" if last is None else figure(last.value),
        "metric": "" if last is None else metric_name(last.metric),
        "is_final": last is not None and last.final,
        "bytes": in_bytes(sum(now.bytes.values())),
        "rounds": f"{sum(now.rounds.values()):,}",
        "progress": [(what, done, of) for what, (done, of) in now.progress.items()],
        "phases": [(name, _PHASES[name], now.rounds.get(name, 0), now.bytes.get(name, 0)) for name in _PHASES],
        "parties": now.parties,
        "scores": now.scores,
        "chart": _chart(now),
        "live_script": read_text("live.js"),
    }


def _chart(now: RunState) -> Markup:
    """Scores part way by bytes; nothing before there are two."""
    if len(now.scores) < 2:
        return Markup("")
    metric = metric_name(now.scores[-1].metric)
    points = [(one.bytes / 1000, one.value) for one in now.scores]
    words = "; ".join(f"{figure(one.value)} after {in_bytes(one.bytes)}" for one in now.scores)
    # Drawn by our own functions, which escape every name.
    return Markup(draw_lines([Series("", points)], "kB of fitting", metric, f"{metric}: {words}"))  # noqa: S704
