"""Pages made from real runs, opened in a real browser. Screenshots go to build/screenshots, to be looked at."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from laconic.cli import main
from tests.needs import BROWSER, chromium

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHOTS = Path(os.environ.get("LACONIC_SCREENSHOTS", Path(__file__).parent.parent.parent / "build" / "screenshots"))
METHODS = ("FedOnce", "SplitNN", "Rap", "FedBCD", "VimAdmm")
FEW = ("SplitNN.trainer.epochs=6", "FedBCD.trainer.epochs=6", "VimAdmm.epochs=4", "FedOnce.trainer.epochs=30")

pytestmark = [pytest.mark.slow, chromium]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page of five methods and a disclosure record, as the commands make them."""
    folder = tmp_path_factory.mktemp("pages")
    words = ["compare", *METHODS, "--data", "breast_cancer", "--seeds", "2", "--look-every", "3"]
    words += [word for setting in FEW for word in ("--set", setting)]
    kept = str(folder / "runs.jsonl")
    made = CliRunner().invoke(main, [*words, "--save", kept, "--report", str(folder / "page.html")])
    assert made.exit_code == 0, made.output
    made = CliRunner().invoke(main, ["disclose", kept, "--party", "shop", "-o", str(folder / "shop.html")])
    assert made.exit_code == 0, made.output
    return folder


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, folder):
    """Open a page; afterwards nothing may have been fetched and nothing logged."""
    contexts, complaints, fetched, visited = [], [], [], set()

    def go(name="page.html", width=1280, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on("request", lambda request: fetched.append(request.url))
        visited.add((folder / name).as_uri())
        page.goto((folder / name).as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
    assert set(fetched) <= visited


def shoot(page, name, *, whole=True):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)


def column(page, place):
    cells = page.locator(f".main-table tbody tr > :nth-child({place})")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")


def test_the_page_of_five_methods_is_small_and_quick(visit, folder):
    assert (folder / "page.html").stat().st_size < 1_500_000
    page = visit()
    session = page.context.new_cdp_session(page)
    # Processor time of the page's own thread, which a busy machine does not lengthen.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    page.wait_for_function("performance.getEntriesByName('laconic-drawn').length")
    spent = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    assert spent["TaskDuration"] < 1.0
    page.close()


def test_the_first_screen_says_what_to_use_and_what_it_costs(visit):
    page = visit()
    chosen = page.locator(".card.chosen")
    box = chosen.bounding_box()
    assert box["y"] + box["height"] < 900
    assert (
        chosen.locator(".card-title")
        .inner_text()
        .endswith(("use this", "best trade, but gives labels away", "not worth it here"))
    )
    assert "round" in chosen.locator(".card-cost").inner_text()
    assert page.locator(".verdict li").first.bounding_box()["y"] < 900
    shoot(page, "first-screen", whole=False)


def test_charts_are_drawn_with_every_method_and_the_frontier(visit):
    page = visit()
    for kind in ("bytes", "rounds"):
        chart = page.locator(f'.chart[data-chart="{kind}"] svg.wide')
        assert chart.locator("circle.dot").count() == len(METHODS)
        labels = chart.locator("text.label").all_text_contents()
        assert set(METHODS) <= set(labels)
        assert chart.locator("path.look").count() > 0
    assert page.locator('.chart[data-chart="bytes"] svg.wide .frontier').count() == 1
    assert page.locator('.chart[data-chart="importance"] svg.wide rect.bar').count() >= 3
    assert page.locator(".flow-chart svg.wide path.flow").count() >= 2
    assert all(text for text in page.locator(".chart svg").evaluate_all("all => all.map(one => one.ariaLabel)"))
    assert page.locator("table.points tbody tr").count() > len(METHODS)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_label_of_an_axis_touches_another_or_leaves_its_chart(visit, width):
    page = visit(width=width)
    touching = page.locator('.chart[data-chart="bytes"] svg, .chart[data-chart="rounds"] svg').evaluate_all(
        """charts => charts.filter((chart) => chart.getClientRects().length).flatMap((chart) => {
            const whole = chart.getBoundingClientRect();
            const boxes = [...chart.querySelectorAll("text")].map((one) => [one, one.getBoundingClientRect()]);
            const out = boxes.filter(([, b]) => b.left < whole.left - 2 || b.right > whole.right + 2);
            const ticks = boxes.filter(([one]) => one.classList.contains("tick"));
            const over = ticks.flatMap(([one, a], at) => ticks.slice(at + 1).filter(([, b]) =>
                a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
                .map(() => one.textContent));
            return [...out.map(([one]) => one.textContent), ...over];
        })"""
    )
    assert touching == []


def test_pointing_at_a_dot_or_reaching_it_by_keyboard_tells_its_figures(visit):
    page = visit()
    dot = page.locator('.chart[data-chart="bytes"] svg.wide .dot').first
    dot.scroll_into_view_if_needed()
    dot.hover()
    tip = page.wait_for_selector("#tip:not([hidden])")
    assert any(method in tip.text_content() for method in METHODS)
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page.locator('.chart[data-chart="rounds"] svg.wide .dot').nth(1).focus()
    assert "round" in page.locator("#tip").inner_text()


def test_charts_are_there_without_javascript(visit):
    page = visit(java_script_enabled=False)
    assert page.locator('.chart[data-chart="bytes"] svg.wide').is_visible()


def test_the_table_sorts_both_ways_by_mouse_and_by_keyboard(visit):
    page = visit()
    numbers = sorted(column(page, 3), key=float)
    heading = page.locator(".main-table thead th").nth(2)
    heading.locator("button").click()
    assert column(page, 3) == numbers
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert column(page, 3) == numbers[::-1]
    page.locator(".main-table thead th").first.locator("button").click()
    assert column(page, 1) == sorted(column(page, 1), key=str.lower)


def test_both_themes_have_contrast_and_the_button_changes_them(visit):
    grounds = {}
    for scheme in ("light", "dark"):
        page = visit(scheme=scheme)
        for selector in ("body", ".note", ".card.chosen .card-title", ".chip.warn", ".open"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shoot(page, scheme)
    assert grounds["light"] != grounds["dark"]
    button = page.locator("#theme")
    button.click()
    assert button.inner_text() == "theme: light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == grounds["light"]


def test_a_phone_shows_all_of_it_without_sideways_scrolling(visit):
    page = visit(width=390, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    first = page.locator(".card").evaluate_all(
        "cards => cards.map(card => [card.getBoundingClientRect().y, card.className])"
    )
    assert min(first)[1] == "card chosen"
    assert page.locator(".chart svg.narrow").first.bounding_box()["width"] <= 390
    chosen = page.locator(".main-table tr.chosen, .main-table tbody tr").first
    for words in ("rounds", "bytes up", "bytes down"):
        cell = chosen.locator(f'td[data-label="{words}"]')
        box = cell.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    shoot(page, "phone")


def test_on_paper_everything_is_open(visit):
    page = visit()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("#theme").is_visible()
    shoot(page, "print")
    page.pdf(path=SHOTS / "print.pdf", format="A4")


def test_every_control_has_a_name_and_headings_are_in_order(visit):
    page = visit()
    names = page.locator("button, a, summary").evaluate_all("all => all.map(one => one.textContent.trim())")
    assert all(names)
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels.count(1) == 1
    assert levels[0] == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"


def test_links_to_the_ledger_open_it(visit):
    page = visit()
    page.locator(".main-table tr:not(.chosen) a.chips").first.click()
    page.wait_for_function("location.hash && document.querySelector(location.hash).open")
    assert page.locator("details[open] :visible").count() > 0


def test_the_disclosure_record_opens_too(visit):
    page = visit("shop.html")
    assert page.locator("h1").inner_text() == "What left shop"
    assert page.locator("table.sortable tbody tr").count() >= 5
    page.locator("table.sortable thead th button").first.click()
    shoot(page, "disclosure")


def contrast(page, selector):
    """The contrast of an element's text with what is behind it, as accessibility guidelines count it."""
    # One call finds and measures: a live page changes its elements every second.
    return page.evaluate(
        """selector => {
            const element = document.querySelector(selector);
            const read = (text) => text.match(/[\\d.]+/g).map(Number);
            const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
                .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
                .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
            let behind = element;
            while (behind && read(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
            const ground = read(getComputedStyle(behind ?? document.body).backgroundColor);
            const [a, b] = [light(read(getComputedStyle(element).color)), light(ground)].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
        }""",
        selector,
    )
