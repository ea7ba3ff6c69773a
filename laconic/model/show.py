"""A model's card as tables on a terminal."""

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laconic.model.card import Card, Expected
from laconic.report.words import figure, in_bytes, metric_name


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
