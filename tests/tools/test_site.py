"""The documentation as `make docs` builds it, opened in a real browser: phone and desktop, light and dark."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading

import pytest

from tests.needs import BROWSER, chromium
from tests.report.test_browser import FLAGS, SHOTS
from tools.diagrams import draw
from tools.lock import HOME

PAGES = (
    "index.html", "guide.html", "architecture.html", "comparison.html", "methods/fedonce.html", "api/vertical.html",
    "api/packages/core.html", "changelog.html",
)  # fmt: skip
PHONE, DESKTOP = 390, 1280

# Every piece of text that can be seen, with the contrast that accessibility guidelines count; large text may have less.
POOR = """() => {
  const parse = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const over = (top, under) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * alpha + under[i] * (1 - alpha));
  };
  const light = (colour) => {
    const part = colour.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, top) => (top.length ? over(top, under) : under), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector(".md-container"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement, style = getComputedStyle(element);
    const seen = element.checkVisibility({opacityProperty: true, visibilityProperty: true});
    if (!seen || !node.textContent.trim()) continue;
    if (element.closest("svg") || !element.getClientRects().length) continue;
    let fade = 1;
    for (let one = element; one; one = one.parentElement) fade *= Number(getComputedStyle(one).opacity);
    if (fade === 0) continue;
    const under = behind(element), text = parse(style.color);
    text[3] = (text.length > 3 ? text[3] : 1) * fade;
    const [dark, bright] = [light(over(text, under)), light(under)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (bright + 0.05) / (dark + 0.05);
    const said = [node.textContent.trim().slice(0, 40), element.className, ratio.toFixed(2)];
    if (ratio < (large ? 3 : 4.5)) found.push(said);
  }
  return found;
}"""


def test_diagrams_are_drawn_here_and_say_in_words_what_they_show():
    text = (HOME / "docs/architecture.md").read_text()
    drawn = [draw(one) for one in re.findall(r"```mermaid\n(.*?)```", text, flags=re.S)]
    assert len(drawn) == 2
    assert drawn[0].count("<rect") == 15
    assert "ask(step, payload)" in drawn[1]
    assert all("aria-label" in one and "http://www.w3.org/2000/svg" in one for one in drawn)
    with pytest.raises(ValueError, match="pie"):
        draw("pie\n a")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    made = subprocess.run(words, cwd=HOME, env=env, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    return folder


@pytest.mark.slow
def test_no_page_names_a_script_a_style_or_a_picture_from_elsewhere(built):
    for page in built.rglob("*.html"):
        text = page.read_text()
        outside = re.findall(r'<(?:script|link|img|iframe|source)[^>]+(?:src|href|srcset)="?(?:https?:)?//[^">]+', text)
        assert not outside, page
    addresses = re.findall(r"https?://[^\s\"')]+", (HOME / "docs/images/demo.svg").read_text())
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}


@pytest.fixture(scope="module")
def address(built):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, address):
    """Open a page; afterwards nothing may have been fetched from elsewhere and nothing logged."""
    contexts, complaints, fetched = [], [], []

    def go(name, width=DESKTOP, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(f"{address}/{name}", wait_until="networkidle")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in fetched if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.slow
@chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_can_be_read_on_every_screen_in_both_themes(visit, width, scheme):
    SHOTS.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        page = visit(name, width, scheme)
        assert page.evaluate(POOR) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than the screen"
        page.screenshot(path=SHOTS / f"site-{name.replace('/', '-')}-{width}-{scheme}.png")


@pytest.mark.slow
@chromium
def test_text_that_is_too_pale_is_found(visit):
    page = visit("glossary.html")
    assert page.evaluate(POOR) == []
    page.add_style_tag(content=".md-typeset p { color: #999 }")
    assert len(page.evaluate(POOR)) > 10


@pytest.mark.slow
@chromium
def test_a_keyboard_is_enough(visit):
    page = visit("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        seen = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none" or page.evaluate("document.activeElement === document.body")
    assert {"Tutorials", "API", "glossary"} <= set(reached)
    page.keyboard.press("/")
    page.keyboard.type("envelope")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item").count() >= 1
