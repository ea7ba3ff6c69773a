"""Results as tables on a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.audit.attacks import Finding
from laconic.core.result import Price, Release, Result
from laconic.inference.bundle import Card, Expected
from laconic.report.comparisons import Comparison, comparisons_of, verdict
from laconic.report.method_runs import MethodRuns
from laconic.report.words import (
    NAMES,
    epsilon_in_words,
    figure,
    in_bytes,
    in_seconds,
    mean_spread,
    metric_name,
    protection,
    rows_used,
    shared_metrics,
    show_rows,
)


def show_price(price: Price) -> RenderableType:
    """What one person's row may have lost, and all that the figure leaves out."""
    figure = price.figure if price.epsilon is None else f"epsilon {price.figure}"
    table = Table.grid(padding=(0, 2))
    lines = [
        (
            "who",
            "; ".join((f"people known to {'all parties' if price.people == 'shared' else 'one party'}", *price.units)),
        ),
        ("each party", ", ".join(f"{party} {loss:.3g}" for party, loss in price.by_party.items()) or "-"),
        *(("noise", words) for words in price.caveats),
        *(("NOT PROVEN", words) for words in price.unproven),
        *(("OPEN", words) for words in price.open),
    ]
    if not price.secure:
        lines.append(("SEEDED", "noise came from the run's seed, which undoes it: for studies only"))
    for name, words in lines:
        table.add_row(Text(name, "yellow" if name.isupper() else ""), words)
    head = Text(f"Privacy: {figure}, delta {price.delta:g}, by {price.accountant}", "bold")
    return Group(head, table, "")


def show_findings(findings: Sequence[Finding]) -> Table:
    """Attacks, what each attacker knows, how well it did, and how well knowing nothing does."""
    table = Table(title="Attacks", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("attack", "the attacker knows", "measure"):
        table.add_column(heading)
    for heading in ("success", "baseline"):
        table.add_column(heading, justify="right")
    for one in findings:
        table.add_row(one.attack, one.knows, one.measure, f"{one.success:.3f}", f"{one.baseline:.3f}")
    return table


def show_result(result: Result) -> RenderableType:
    """One run: what it scored, what it cost, what was given away, who was absent, which rows were used."""
    parts: list[RenderableType] = [_headline(result), "", _scores(result), _costs(result), _releases(result)]
    parts += [] if result.privacy is None else [show_price(result.privacy)]
    rows = show_rows(result)
    parts += [] if rows is None else [rows]
    return Group(*parts, *_remarks(result))


def show_comparison(results: Mapping[str, Result]) -> Table:
    """Runs side by side, by what each is called: scores on held-out rows, and the cost of fitting."""
    first = next(iter(results.values()))
    metrics = shared_metrics(first.task)
    table = _table(("who learns", "method", *(metric_name(name) for name in metrics)), right=metrics)
    for heading in ("bytes", "rounds", "seconds"):
        table.add_column(heading, justify="right")
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
        table = _table(("method",), title=part.title)
        # Eight columns must fit a terminal of eighty letters.
        table.padding, table.pad_edge, table.columns[0].no_wrap = (0, 0, 0, 0), False, True
        for heading in (metric_name(part.arms[0].metric), "up", "down", "rounds", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("epsilon")
        table.add_column("released")
        for arm in part.arms:
            style = "bold" if arm is part.chosen else ""
            table.add_row(Text(arm.label), *_figures_of(arm), _given(arm, letters), style=style)
        shown += [table, _legend(letters), _seeds(part), Text.assemble(("In short: ", "bold"), verdict(part)), ""]
    return Group(*shown)


def _figures_of(arm: MethodRuns) -> tuple[str, ...]:
    crossed = (in_bytes(arm.bytes_up), in_bytes(arm.bytes_down), f"{arm.rounds:,}", in_seconds(arm.seconds))
    return (mean_spread(arm.score, arm.spread), *crossed, epsilon_in_words(arm.first))


def _letters(part: Comparison) -> dict[tuple[str, str], str]:
    """A letter for each thing that was released, by its words and what protects it."""
    things = dict.fromkeys((same[0].words, protection(same[0])) for arm in part.arms for same in arm.given)
    return {thing: _letter(number) for number, thing in enumerate(things)}


def _letter(number: int) -> str:
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def _given(arm: MethodRuns, letters: Mapping[tuple[str, str], str]) -> Text:
    """The letters of what left, open releases apart from those with noise."""
    found: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for same in arm.given:
        found[same[0].noise is None][letters[same[0].words, protection(same[0])]] = None
    said = [("open " + " ".join(found[True]), "yellow")] if found[True] else []
    said += [("noised " + " ".join(found[False]), "green")] if found[False] else []
    return Text("\n").join(Text(*one) for one in said) if said else Text("nothing", "green")


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
    table = _table([metric_name(name) for name in names], right=names, title="Score on held-out rows")
    table.add_row(
        *(Text(figure(result.metrics[name]), "bold" if name == result.score.metric else "") for name in names)
    )
    return table


def _costs(result: Result) -> Table:
    headings = ("phase", "bytes up", "bytes down", "rounds", "uploads", "downloads", "seconds")
    table = _table(headings, right=headings[1:], title="What crossed")
    phases = {"align": result.align, "fit": result.fit, "look": result.look, "final": result.final}
    for name, cost in phases.items():
        if cost.rounds or name in ("fit", "final"):
            counts = (cost.rounds, cost.uploads, cost.downloads)
            sizes = (in_bytes(cost.bytes_up), in_bytes(cost.bytes_down))
            table.add_row(name, *sizes, *(f"{count:,}" for count in counts), in_seconds(cost.seconds))
    return table


def _releases(result: Result) -> RenderableType:
    if not result.releases:
        return Text("Nothing made from rows or labels left any party.\n", "green")
    table = _table(("party", "to", "phase", "what, in the step's words", "bytes"), right=("bytes",))
    table.title = "What left each party"
    for same in _alike(result.releases):
        first = same[0]
        style = "yellow" if first.noise is None else "green"
        words = Text.assemble(first.words, "\n", (protection(first), style))
        parties = ", ".join(dict.fromkeys(one.party for one in same))
        phases = ", ".join(dict.fromkeys(one.phase for one in same))
        table.add_row(Text(parties), first.to, phases, words, in_bytes(sum(one.bytes for one in same)))
    return table


def _alike(releases: Iterable[Release]) -> list[list[Release]]:
    """Releases of the same words and protection together, whoever made them and when."""
    groups: dict[tuple[str, str, str], list[Release]] = {}
    for release in releases:
        groups.setdefault((release.to, release.words, protection(release)), []).append(release)
    return list(groups.values())


def _remarks(result: Result) -> list[RenderableType]:
    remarks: list[RenderableType] = []
    used = rows_used(result)
    if used:
        remarks.append(Text(f"Rows: {used}"))
    if several := result.data.get("at_several"):
        words = f"People at several parties: {several:,}, by their ids; what is said of one party's rows holds for each"
        remarks.append(Text(words, "yellow"))
    remarks.extend(Text(f"Read: {note}", "yellow") for note in result.data.get("notes") or ())
    missed = {absence.party: 0 for absence in result.absences}
    for absence in result.absences:
        missed[absence.party] += 1
    for party, times in missed.items():
        remarks.append(Text(f"Absent: {party} did not answer {times:,} of the questions asked of it", "yellow"))
    if result.stopped != "finished":
        remarks.append(Text(f"Fitting ended early: {result.stopped}", "yellow"))
    return remarks


def _table(headings: Sequence[str], *, right: Sequence[str] = (), title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    known = {metric_name(name) for name in right}
    for heading in headings:
        table.add_column(heading, justify="right" if heading in known else "left")
    return table


def show_card(card: Card) -> RenderableType:
    """Who must be there for which answer, what crosses, how many bytes a row, and how good it is expected to be."""
    parts: list[RenderableType] = [Text(f"{card.hub} can predict {card.label} ({card.method})", "bold")]
    parts.append(_asked(card) if card.asked else Text("Nobody is asked: it has all that it needs.", "green"))
    if card.kept:
        cost = "had from training" if card.bytes == 0 else f"asked for now, {in_bytes(card.bytes)}"
        parts.append(
            Text(f"It keeps answers about {card.rows:,} people ({cost}): these it predicts, and refits for, unasked.")
        )
    elif card.asked:
        parts.append(Text("It keeps no answers: whoever must be there must be there for every prediction.", "yellow"))
    if card.expected:
        parts.append(show_expected(card))
    return Group(*parts)


def show_expected(card: Card) -> Table:
    """The score on validation rows, for each pattern of presence and each way to make up for the absent."""
    ways = list(dict.fromkeys(one.answer for one in card.expected))
    first = card.expected[0]
    title = f"Expected {metric_name(first.metric)}, on {first.rows:,} validation rows"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(f"who is there beside {card.hub}")
    for way in ways:
        table.add_column("everybody" if way == "all" else way, justify="right")
    for present in dict.fromkeys(one.present for one in card.expected):
        cells = {one.answer: _value(one) for one in card.expected if one.present == present}
        table.add_row(Text(", ".join(present) or "nobody"), *(cells.get(way, "") for way in ways))
    return table


def _asked(card: Card) -> Table:
    table = Table(
        title="What it asks for each prediction", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for heading in ("party", "must be there", "what crosses, in the step's words"):
        table.add_column(heading)
    for heading in ("bytes a row up", "down", "fixed"):
        table.add_column(heading, justify="right")
    for one in card.asked:
        words = "; ".join(f"{way}: {said}" for way, said in (("up", one.gives), ("down", one.takes)) if said)
        sizes = (f"{one.bytes_up:.1f}", f"{one.bytes_down:.1f}", f"{one.bytes_fixed:.0f}")
        table.add_row(Text(one.party), "yes" if one.needed else "no", Text(words or "nothing made from rows"), *sizes)
    return table


def _value(one: Expected) -> str:
    return "no answer" if one.value is None else figure(one.value)
