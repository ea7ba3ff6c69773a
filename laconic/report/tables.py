"""Results as tables on a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.audit.attacks import Finding
from laconic.audit.leakage import Width
from laconic.deploy.result import Result, code_digest
from laconic.inference.bundle import Card
from laconic.methods.registry import methods
from laconic.privacy.accounting import Price
from laconic.report.comparisons import Comparison, MethodRuns, comparisons_of, costs_of, same_releases, sentences
from laconic.report.words import (
    BETTER_WITHOUT,
    NAMES,
    contribution_lines,
    epsilon_in_words,
    figure,
    in_bytes,
    in_seconds,
    leakage_line,
    make_table,
    mean_spread,
    metric_name,
    protection,
    rows_of,
    rows_used,
    rows_were_matched,
    tried_line,
    tuning_line,
)


def show_price(price: Price) -> RenderableType:
    """What one person's row may have lost, and all that the figure leaves out."""
    figure = price.figure if price.epsilon is None else f"epsilon {price.figure}"
    bare, table = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
    for words in price.open:
        bare.add_row(Text("OPEN", "yellow"), words)
    first: list[RenderableType] = [Text("Not covered by any epsilon, and open to whoever receives it:", "bold"), bare]
    known = f"people known to {'all parties' if price.people == 'shared' else 'one party'}"
    lines = [
        ("who", "; ".join((known, *price.units))),
        ("each party", ", ".join(f"{party} {loss:.3g}" for party, loss in price.by_party.items()) or "-"),
        *(("noise", words) for words in price.caveats),
        *(("NOT PROVEN", words) for words in price.unproven),
    ]
    if not price.secure:
        lines.append(("SEEDED", "noise came from the run's seed, which undoes it: for studies only"))
    for name, words in lines:
        table.add_row(Text(name, "yellow" if name.isupper() else ""), words)
    head = Text(f"Privacy: {figure}, delta {price.delta:g}, by {price.accountant}", "bold")
    return Group(*(first if price.open else []), head, table, "")


def show_findings(findings: Sequence[Finding]) -> Table:
    """Attacks, what each attacker knows, how well it did, and how well knowing nothing does."""
    numbers = ("success", "baseline")
    table = make_table(("attack", "the attacker knows", "measure", *numbers), right=numbers, title="Attacks")
    for one in findings:
        table.add_row(one.attack, one.knows, one.measure, f"{one.success:.3f}", f"{one.baseline:.3f}")
    return table


def show_widths(widths: Sequence[Width]) -> Table:
    """What each width is worth, costs and gives away."""
    metric = metric_name(widths[0].score.metric)
    numbers = ("numbers per row", "bytes per row", metric, "columns rebuilt (R2)")
    title = "Widths: score on validation rows, and the mean R2 by which someone who knows some rows rebuilds columns"
    table = make_table(("width", *numbers), right=numbers, title=title)
    for one in widths:
        counts = sorted(set(one.numbers.values()))
        shown = "" if not counts else f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        rebuilt = f"{one.mean_rebuilt:.2f}" if one.rebuilt else ""
        table.add_row(one.words, shown, f"{one.row_bytes}", f"{one.score.value:.4g}", rebuilt)
    return table


def show_result(result: Result) -> RenderableType:
    """One run: what it scored, what it cost, what was given away, who was absent, which rows were used."""
    parts: list[RenderableType] = [_headline(result), "", _scores(result)]
    parts += [_scores_by_party(result)] if result.by_party else []
    parts += [_costs(result), _releases(result)]
    parts += [] if result.privacy is None else [show_price(result.privacy)]
    rows = show_rows(result)
    parts += [] if rows is None else [rows]
    return Group(*parts, *_remarks(result))


_SHOWN = {"regression": ("rmse", "r2"), "survival": ("concordance", "brier")} | dict.fromkeys(
    ("binary", "multiclass"), ("accuracy", "auc")
)


def show_comparison(results: Mapping[str, Result]) -> Table:
    """Runs side by side, by what each is called: scores on held-out rows, and the cost of fitting."""
    first = next(iter(results.values()))
    metrics = _SHOWN[first.task.kind]
    metrics = ("deviance", "rmse") if first.task.counts is True else metrics
    numbers = (*map(metric_name, metrics), "bytes", "rounds", "seconds")
    table = make_table(("who learns", "method", *numbers), right=numbers)
    for name, result in results.items():
        scores = [figure(result.metrics[metric]) if metric in result.metrics else "-" for metric in metrics]
        cost = (in_bytes(result.fit.bytes), f"{result.fit.rounds:,}", in_seconds(result.fit.seconds))
        table.add_row(Text(name), str(result.method["type"]), *scores, *cost)
    return table


def show_arms(results: Sequence[Result]) -> RenderableType:
    """Methods side by side, over their seeds: score with spread, what crossed, epsilon, and what was released."""
    shown: list[RenderableType] = []
    for part in comparisons_of(results):
        letters = _letters(part)
        table = make_table(("method",), title=part.title)
        # Eight columns must fit a terminal of eighty letters.
        table.padding, table.pad_edge, table.columns[0].no_wrap = (0, 0, 0, 0), False, True
        for heading in (metric_name(part.arms[0].metric), "up", "down", "rounds", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("epsilon")
        table.add_column("released")
        for arm in part.arms:
            score = mean_spread(arm.score, arm.spread)
            fit = arm.fit
            crossed = (in_bytes(fit.bytes_up), in_bytes(fit.bytes_down), f"{fit.rounds:,}", in_seconds(fit.seconds))
            given = (epsilon_in_words(arm.first), _given(arm, letters))
            table.add_row(
                Text(arm.label + _mark(arm)), score, *crossed, *given, style="bold" if arm is part.recommended else ""
            )
        verdict = Text.assemble(("In short: ", "bold"), " ".join(sentences(part)))
        shown += [table, _legend(letters), _seeds(part), *_tuning(part), verdict, ""]
    return Group(*shown)


def _mark(arm: MethodRuns) -> str:
    """A star if an arm was run by code that has changed since, as far as its record says."""
    kind = methods().get(arm.kind)
    made_by = {result.versions.get("code") for result in arm.results} - {None}
    return "" if kind is None or made_by <= {code_digest(kind)} else "*"


def _tuning(part: Comparison) -> list[RenderableType]:
    """What every arm was allowed for finding its settings, what it used, and what it chose."""
    shown: list[RenderableType] = []
    if any(_mark(arm) for arm in part.arms):
        shown.append(Text("* by older code than is installed now; remove the file to run it again", "yellow"))
    allowed = {arm.allowed for arm in part.arms}
    if len(allowed) > 1:
        shown.append(Text("UNEQUAL: the arms were not allowed the same tuning; run them together", "yellow"))
    if not any(allowed):
        return shown
    words = [f"{trials} trials and {seconds:g} processor seconds" for trials, seconds in filter(None, allowed)]
    head = Text(f"\nTuned on validation rows. Allowed to each arm with each seed: {'; '.join(words)}.", "bold")
    table = Table.grid(padding=(0, 2))
    for arm in part.arms:
        for one in arm.results:
            table.add_row(Text(f" {arm.label}, seed {one.seed}"), Text(tuning_line(one)))
    return [*shown, head, table, ""]


def _letters(part: Comparison) -> dict[tuple[str, str], str]:
    """A letter for each thing that was released, by its words and what protects it."""
    things = dict.fromkeys((same[0].words, protection(same[0])) for arm in part.arms for same in arm.given)
    return {thing: _letter(number) for number, thing in enumerate(things)}


def _letter(number: int) -> str:
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def _given(arm: MethodRuns, letters: Mapping[tuple[str, str], str]) -> Text:
    """The letters of what left, open releases apart from those with noise."""
    said = []
    for word, style in (("open", "yellow"), ("noised", "green"), ("cryptographic", "green")):
        some = [same[0] for same in arm.given if same[0].label == word]
        named = dict.fromkeys(letters[one.words, protection(one)] for one in some)
        said += [Text(f"{word} {' '.join(named)}", style)] if named else []
    return Text("\n").join(said) if said else Text("nothing", "green")


def _legend(letters: Mapping[tuple[str, str], str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for (words, protected), letter in letters.items():
        table.add_row(Text(f" {letter}", "bold"), Text(f"{words} ({protected})"))
    return table


def _seeds(part: Comparison) -> Text:
    seeds = sorted({result.seed for arm in part.arms for result in arm.results})
    spread = "; ± is the standard deviation over seeds" if len(seeds) > 1 else ""
    return Text(f"\nSeeds {', '.join(map(str, seeds))}{spread}. Bytes, rounds and seconds are of fitting.", "dim")


def _headline(result: Result) -> Text:
    score = f"{metric_name(result.score.metric)} {figure(result.score.value)}"
    peers = ", ".join(name for name in result.parties if name != result.hub) or "nobody"
    return Text.assemble(
        (f"{result.method['type']} on {result.data.get('name', 'data')}: {score}", "bold"),
        f"\n{result.hub} predicts {result.task.label} and can ask {peers}; seed {result.seed}",
    )


def _scores(result: Result) -> Table:
    names = [name for name in NAMES if name in result.metrics]
    headings = [metric_name(name) for name in names]
    table = make_table(headings, right=headings, title="Score on held-out rows")
    table.add_row(
        *(Text(figure(result.metrics[name]), "bold" if name == result.score.metric else "") for name in names)
    )
    return table


def _scores_by_party(result: Result) -> Table:
    names = [name for name in NAMES if name in result.metrics]
    headings = [metric_name(name) for name in names]
    table = make_table(("party", *headings), right=headings, title="Each party alone")
    for party, values in result.by_party.items():
        table.add_row(Text(party), *(figure(values[name]) for name in names))
    return table


def _costs(result: Result) -> Table:
    headings = ("phase", "bytes up", "bytes down", "rounds", "uploads", "downloads", "seconds")
    table = make_table(headings, right=headings[1:], title="What crossed")
    for name, cost in costs_of(result).items():
        if cost.rounds or name in ("fit", "final"):
            counts = (cost.rounds, cost.uploads, cost.downloads)
            sizes = (in_bytes(cost.bytes_up), in_bytes(cost.bytes_down))
            table.add_row(name, *sizes, *(f"{count:,}" for count in counts), in_seconds(cost.seconds))
    return table


def _releases(result: Result) -> RenderableType:
    if not result.releases:
        return Text("Nothing made from rows or labels left any party.\n", "green")
    headings = ("party", "to", "phase", "what, in the step's words", "bytes")
    table = make_table(headings, right=("bytes",), title="What left each party")
    for same in same_releases(result.releases):
        first = same[0]
        style = "yellow" if first.label == "open" else "green"
        rebuilt = leakage_line(result, same)
        words = Text.assemble(first.words, "\n", (protection(first), style), f"\n{rebuilt}" if rebuilt else "")
        parties = ", ".join(dict.fromkeys(one.party for one in same))
        phases = ", ".join(dict.fromkeys(one.phase for one in same))
        table.add_row(Text(parties), first.to, phases, words, in_bytes(sum(one.bytes for one in same)))
    return table


def show_rows(result: Result) -> Table | None:
    """For each party, how many rows its source has, and what became of them; None where no rows were matched."""
    if not rows_were_matched(result):
        return None
    alignment: dict[str, Any] = result.data["alignment"]
    numbers = ("in its source", "shared by all", "used", "lost")
    table = make_table(("party", *numbers, "why"), right=numbers, title="Rows")
    for party in alignment["rows"]:
        source, shared, used, lost = rows_of(result, party)
        reasons = lost | _without_labels(result, party, used - shared)
        why = "; ".join(f"{count:,} {reason}" for reason, count in reasons.items()) or "-"
        counts = (source, shared, used, sum(lost.values()))
        table.add_row(Text(party), *(f"{count:,}" for count in counts), Text(why))
    return table


def _without_labels(result: Result, party: str, own: int) -> dict[str, int]:
    """Rows outside the overlap that were used by their columns alone though their labels are there."""
    holder = result.data["alignment"].get("labels", {}).get("party", result.hub)
    if own == 0 or party != holder or party in result.data.get("outside", {}):
        return {}
    shared_only = f"{result.method['type']} takes labels of rows that all share"
    return {f"used without their labels: {BETTER_WITHOUT if 'outside' in result.data else shared_only}": own}


def _remarks(result: Result) -> list[RenderableType]:
    remarks: list[RenderableType] = []
    used = rows_used(result)
    if used:
        remarks.append(Text(f"Rows: {used}"))
    if several := result.data.get("at_several"):
        words = f"Shared ids: {several:,} people are at more than one party; what is said of rows holds at each"
        remarks.append(Text(words, "yellow"))
    remarks.extend(Text(f"Read: {note}", "yellow") for note in result.data.get("notes") or ())
    for party, times in Counter(absence.party for absence in result.absences).items():
        remarks.append(Text(f"Absent: {party} did not answer {times:,} of the questions asked of it", "yellow"))
    remarks.extend(Text(f"Checked: {words}", "yellow" if odd else "") for words, odd in contribution_lines(result))
    if chosen := tried_line(result):
        remarks.append(Text(f"Model: {chosen}"))
    if result.stopped != "finished":
        remarks.append(Text(f"Fitting ended early: {result.stopped}", "yellow"))
    return remarks


def show_card(card: Card) -> RenderableType:
    """Who must be there for which answer, what crosses, how many bytes per row, and the expected score."""
    parts: list[RenderableType] = [Text(f"{card.hub} can predict {card.label} ({card.method})", "bold")]
    parts.append(_asked(card) if card.asked else Text("Nobody is asked: it has all that it needs.", "green"))
    if card.kept:
        cost = "had from training" if card.bytes == 0 else f"asked for now, {in_bytes(card.bytes)}"
        words = f"It keeps answers about {card.rows:,} people ({cost}): it predicts them, and refits, without asking."
        parts.append(Text(words))
    elif card.asked:
        parts.append(Text("It keeps no answers: whoever must be there must be there for every prediction.", "yellow"))
    if card.expected:
        parts.append(show_expected(card))
    return Group(*parts)


def show_expected(card: Card) -> Table:
    """The score on validation rows, for each pattern of presence and each way to make up for the absent.

    The best way's own column is chosen by some rows and scored on others, so that it may lie below the way's.
    """
    # To give no answer is always possible, and has no score.
    ways = [way for way in dict.fromkeys(one.answer for one in card.expected) if way != "abstain"]
    first = card.expected[0]
    title = f"Expected {metric_name(first.metric)}, on {first.rows:,} validation rows"
    numbers = ["everybody" if way == "all" else way for way in ways]
    table = make_table([f"there beside {card.hub}", *numbers], right=numbers, title=title)
    for present in dict.fromkeys(one.present for one in card.expected):
        some = [one for one in card.expected if one.present == present]
        cells = {one.answer: "no answer" if one.value is None else figure(one.value) for one in some}
        table.add_row(Text(", ".join(present) or "nobody"), *(cells.get(way, "") for way in ways))
    return table


def _asked(card: Card) -> Table:
    numbers = ("bytes/row up", "down", "fixed")
    headings = ("party", "must be there", "what crosses, in the step's words", *numbers)
    table = make_table(headings, right=numbers, title="What it asks for each prediction")
    for one in card.asked:
        words = "; ".join(f"{way}: {said}" for way, said in (("up", one.gives), ("down", one.takes)) if said)
        sizes = (f"{one.bytes_up:.1f}", f"{one.bytes_down:.1f}", f"{one.bytes_fixed:.0f}")
        table.add_row(Text(one.party), "yes" if one.needed else "no", Text(words or "nothing made from rows"), *sizes)
    return table
