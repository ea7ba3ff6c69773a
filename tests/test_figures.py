"""Every figure in README, guide and cards is one that a study saved."""

import pytest

from studies.cards import documents, refresh, unsourced

BY_HAND = {
    "docs/methods/fedkt.md",
}
"""Documents that still have figures typed by hand. None may be added."""

ROOT = documents()[0].parent
PAGES = [path.relative_to(ROOT).as_posix() for path in documents()]


@pytest.mark.parametrize("page", PAGES)
def test_the_figures_of_a_page_are_those_of_the_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert refresh(text) == text, f"figures in {page} are not what the results say; run: python -m studies.cards"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in BY_HAND])
def test_every_figure_of_a_page_says_its_source(page):
    found = list(unsourced((ROOT / page).read_text(encoding="utf-8")))
    assert not found, f"{page} has figures without a source (line, number); see CONTRIBUTING.md"
