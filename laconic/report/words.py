"""Figures of a result as short texts, the same in every report."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.table import Table

from laconic.deploy.result import Release, Result
from laconic.plan.text import value_text
from laconic.shown import NAMES as NAMES  # noqa: PLC0414 (for reports)
from laconic.shown import figure as figure  # noqa: PLC0414 (for reports)
from laconic.shown import in_bytes as in_bytes  # noqa: PLC0414 (for reports)
from laconic.shown import metric_name as metric_name  # noqa: PLC0414 (for reports)

BETTER_WITHOUT = "the model does clearly better without"


def make_table(headings: Sequence[str], *, right: Sequence[str] = (), title: str | None = None) -> Table:
    """An empty table in the one style of all reports; `right` names the headings of numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    return table


def rows_were_matched(result: Result) -> bool:
    """Whether parties found out which rows they share, and not only which columns."""
    return "shared" in (result.data.get("alignment") or {})


def rows_of(result: Result, party: str) -> tuple[int, int, int, dict[str, int]]:
    """A party's rows: in its source, shared by all, used (also to score), and lost, by reason."""
    alignment = result.data["alignment"]
    matched, shared = int(alignment["rows"][party]), int(alignment["shared"])
    left_out: dict[str, int] = (result.data.get("left_out") or {}).get(party, {})
    lost, used = dict(left_out), shared
    others = matched - shared
    barred = int(alignment.get("barred", {}).get(party, 0))
    if barred:
        lost["are as late as rows held out, or in a group that is"] = barred
        others -= barred
    learns_from_own = "own" in result.data.get("uses", ())
    holder = alignment.get("labels", {})
    if learns_from_own and (party != holder.get("party") or holder["columns"]):
        used += others
    elif learns_from_own and others:
        lost[f"not every party has, and {party} has no columns of its own to learn from there"] = others
    elif others:
        also = int(result.data.get("outside", {}).get(party, 0))
        used, others = used + also, others - also
        some = min(others, max(0, int(alignment.get("some", {}).get(party, 0)) - also))
        # Where rows outside the overlap were learnt from, those that were not are late, or lack a label at the hub.
        learns = f"{result.hub} does not learn from" if result.data.get("outside") else BETTER_WITHOUT
        uses = learns if "outside" in result.data else f"{result.method['type']} uses rows that all share"
        reasons = {f"only some parties have, and {uses}": some}
        known = "nobody else has" if "some" in alignment else "not every party has"
        reasons[f"{known}, and {uses}"] = others - some
        lost |= {reason: count for reason, count in reasons.items() if count}
    return matched + sum(left_out.values()), shared, used, lost


def in_seconds(seconds: float) -> str:
    """A duration with as many digits as anyone wants to read."""
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def protection(release: Release) -> str:
    """In words, what protects a release: nothing, cryptography, or a noise and what that noise does not cover."""
    if release.noise is None:
        return "open release: nothing protects it" if release.label == "open" else release.covered
    return f"{release.noise.mechanism} noise of scale {release.noise.scale:g}; {release.covered}"


def release_form(result: Result, release: Release) -> str:
    """Types and shapes of a release; ids cross as one text, and what matters is how many there are."""
    if release.step == "show_ids" and rows_were_matched(result):
        return f"text of {rows_of(result, release.party)[0]:,} ids"
    return release.form


def said_date(when: str) -> str:
    """A time as records keep it, as people write it.

    >>> said_date("2026-05-02T13:08:35+00:00")
    '2 May 2026, 13:08 UTC'
    """
    found = datetime.fromisoformat(when).astimezone(UTC)
    return f"{found.day} {found:%B %Y, %H:%M} UTC"


def leakage_line(result: Result, releases: Sequence[Release]) -> str:
    """How well columns can be rebuilt from some releases, where that was measured; nothing where it was not."""
    steps = {(one.party, one.step) for one in releases if one.label == "open"}
    found = [one for one in result.leakage if (one.party, one.step) in steps]
    if not found:
        return ""
    each = ", ".join(f"{one.party} {one.mean:.2f} (best column {one.best:.2f})" for one in found)
    return f"columns rebuilt from it by someone who knows {found[0].known:,} of {found[0].rows:,} rows, R2: {each}"


def one_line(result: Result) -> str:
    """A run in one line: method, seed, score, and what fitting cost."""
    cost = f"{in_bytes(result.fit.bytes)}, {in_rounds(result.fit.rounds)}, {in_seconds(result.fit.seconds)}"
    return f"{result.method['type']}, seed {result.seed}: {scored(result.score.metric, result.score.value)}, {cost}"


def scored(metric: str, value: float, spread: float | None = None) -> str:
    """A headline figure by name, with its spread over seeds if there is one."""
    return f"{metric_name(metric)} {mean_spread(value, spread)}"


def mean_spread(value: float, spread: float | None) -> str:
    """A mean with its standard deviation, if there is one."""
    return figure(value) if spread is None else f"{figure(value)} ± {figure(spread)}"


def in_rounds(count: int) -> str:
    """How often the hub waited."""
    return f"{count:,} round{'' if count == 1 else 's'}"


def epsilon_in_words(result: Result) -> str:
    """The epsilon of a run, and how many open releases it does not cover."""
    paid = result.privacy
    if paid is None and not result.releases:
        return "-"
    if paid is None or paid.epsilon is None:
        return "no bound"
    left = f"{len(paid.open)} open, not covered; " if paid.open else ""
    return f"{left}{paid.epsilon:.3g} at delta {paid.delta:g}"


def contribution_lines(result: Result) -> list[tuple[str, bool]]:
    """What the hub found in what parties sent, a line per party with a problem, and whether it is one."""
    odd = [one for one in result.contributions if one.problems]
    lines = [
        (f"{one.party}: {'; '.join(one.problems)}. " + (_LEFT_OUT if one.left_out else _COUNTS), True) for one in odd
    ]
    sound = [one for one in result.contributions if not one.problems]
    named = ", ".join(one.party if one.worth is None else f"{one.party} (adds {one.worth:.3f})" for one in sound)
    return lines + ([(f"nothing odd in what was sent by {named}", False)] if sound else [])


def tried_line(result: Result) -> str:
    """What the hub's model was chosen from, and how each did on training rows held out; nothing if none was chosen."""
    if not result.tried:
        return ""
    used = [one for one in result.tried if one.share > 0]
    taken = used[-1]
    parts = [f"{one.share:.0%} {one.model}" for one in used[:-1]]
    others = [f"{one.model}: {figure(one.score)}" for one in result.tried if one is not taken]
    made = f" ({'; '.join(parts)})" if parts else ""
    score = f"{metric_name(taken.metric)} {figure(taken.score)} on training rows held out"
    return f"{taken.model}{made}. Its {score}. Tried besides: {'; '.join(others)}"


def tuning_line(result: Result) -> str:
    """What was used of the allowance for finding settings, what was chosen, and whether the arm was capped."""
    found = result.tuning
    if found is None:
        return "not tuned"
    used = f"{found.trials} of {found.of:,} settings, {in_seconds(found.seconds)}, {in_bytes(found.bytes)} sent"
    chosen = " ".join(f"{key}={value_text(value)}" for key, value in found.chosen.items())
    capped = f"; capped: {found.capped}" if found.capped else ""
    return f"{used}; " + (f"chose {chosen}" if chosen else "kept its settings") + capped


_LEFT_OUT = "The model was learnt without it"
_COUNTS = "It counts all the same; method.check.leave_out = true learns without it"


def rows_used(result: Result) -> str:
    """How many rows were learnt from and scored on, as far as the data's facts say."""
    if rows_were_matched(result):
        alignment, digest = result.data["alignment"], result.data.get("fingerprint", "")
        said = f"{alignment['shared']:,} shared by all parties ({_counts(alignment.get('cuts', {}))})"
        return f"{said}, fingerprint {digest[:8]}" if digest else said
    used = _counts(result.data.get("rows"))
    own = _counts({party: count for party, count in dict(result.data.get("own") or {}).items() if count})
    return "; ".join(part for part in (used, f"rows of one party only: {own}" if own else "") if part)


def _counts(facts: Any) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in facts.items()) if isinstance(facts, dict) else ""
