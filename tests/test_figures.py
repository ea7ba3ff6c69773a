"""Every figure in README, guide and cards is one that a study saved."""

import pytest

from laconic.methods import methods
from studies.cards import documents, refresh, unsourced

ROOT = documents()[0].parent
PAGES = [path.relative_to(ROOT).as_posix() for path in documents()]


@pytest.mark.parametrize("page", PAGES)
def test_the_figures_of_a_page_are_those_of_the_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert refresh(text) == text, f"figures in {page} are not what the results say; run: python -m studies.cards"


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_says_its_source(page):
    found = list(unsourced((ROOT / page).read_text(encoding="utf-8")))
    assert not found, f"{page} has figures without a source (line, number); see CONTRIBUTING.md"


def test_every_method_has_a_card_that_says_what_crosses_what_leaks_and_what_prints_its_figures():
    cards = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "methods").glob("*.md"))]
    for method in methods().values():
        name = method.__name__.casefold()
        mine = [
            card for card in cards if name in card.partition("\n")[0].casefold() or f"**{name}**" in card.casefold()
        ]
        assert mine, f"{method.__name__} has no card in docs/methods"
    for card in cards:
        for words in ("what crosses", "what leaks", "python -m "):
            assert words in card.casefold(), f"the card {card.partition(chr(10))[0]!r} lacks {words!r}"
