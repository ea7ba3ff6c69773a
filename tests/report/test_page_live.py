"""The live page of a run: what it shows, and that it can only be read, on this machine, by whoever has its address."""

import http.client
import os
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from laconic import SplitNN
from laconic.cli import main
from laconic.deploy import Consortium, HubAddress, RunState, Watch, open_site, provision
from laconic.plan import change_plan, draft, write_plan
from laconic.report.page.view import serve_live
from tests.deploy.sites import ALL, agree, free_port
from tests.needs import BROWSER, chromium
from tests.report.test_browser import FLAGS, SHOTS, contrast


def get(address, path=None, method="GET", **headers):
    parts = urlsplit(address)
    line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
    line.request(method, parts.path if path is None else path, headers=headers)
    reply = line.getresponse()
    return reply.status, reply.read().decode()


def test_the_page_is_on_loopback_and_can_only_be_read():
    watch = Watch("FedOnce <b>on</b> small", ["shop"])
    with serve_live(watch.state) as address:
        assert urlsplit(address).hostname == "127.0.0.1"
        status, page = get(address)
        assert status == 200 and "FedOnce &lt;b&gt;on&lt;/b&gt; small" in page and "not asked yet" in page
        assert get(address, "/")[0] == get(address, "/now")[0] == get(address, "/x/now")[0] == 404
        assert get(address, urlsplit(address).path + "state.json")[0] == 404
        assert get(address, Host="stranger.example")[0] == 404
        for method in ("POST", "PUT", "DELETE", "HEAD"):
            assert get(address, method=method)[0] == 501
        watch.asked("fit", 1, "send_columns", ["shop"])
        assert "asked" in get(address, urlsplit(address).path + "now")[1]
        server = urlsplit(address).port
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", server, timeout=2).connect()


def test_no_other_address_of_this_machine_reaches_the_page():
    with serve_live(RunState) as address:
        line = http.client.HTTPConnection("127.0.0.2", urlsplit(address).port, timeout=2)
        with pytest.raises(OSError, match="refused"):
            line.connect()


def test_run_says_where_the_page_is():
    words = ["run", "Linear", "--data", "breast_cancer", "--parties", "2", "--watch"]
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr.startswith("Watch at http://127.0.0.1:")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


def follow(browser, words, cwd, width=1280):
    """Start a command, open the page that it names, and give both, with all that the page complained about."""
    environment = os.environ | {"COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "laconic", *map(str, words)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    address = next(line.split()[-1] for line in process.stderr if line.startswith("Watch at"))
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints, fetched = [], []
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(address)
    return process, page, complaints, fetched, address


@pytest.mark.slow
@chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_sees_a_run_go_on_and_end(browser, tmp_path, width):
    words = ["run", "SplitNN", "--data", "breast_cancer", "--parties", "3", "--look-every", "40", "--watch"]
    words += ["--set", "method.trainer.epochs=200", "--set", "method.trainer.patience=200"]
    process, page, complaints, fetched, address = follow(browser, words, tmp_path, width)
    page.wait_for_selector(".parties tbody tr:nth-child(2)", timeout=60_000)
    page.wait_for_selector("#now .chart", timeout=60_000)
    half_way = page.locator(".card strong").nth(1).inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in ("#state", ".card-title", ".chip", "footer p"):
        assert contrast(page, selector) >= 4.5, selector
    page.wait_for_selector("#state[data-ended=yes]", timeout=120_000)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"live-{width}.png", full_page=True)
    assert page.locator("#state").inner_text().startswith("finished")
    assert page.locator(".card strong").nth(1).inner_text() != half_way
    assert "AUC" in page.locator(".card.chosen").inner_text()
    process.communicate(timeout=60)
    assert process.returncode == 0 and complaints == []
    assert {url for url in fetched if not url.startswith("data:")} <= {address, f"{address}now"}
    page.close()


@pytest.mark.slow
@chromium
def test_a_browser_sees_a_run_between_sites_go_on_and_end(browser, tmp_path):
    names, hub = ("site1", "site2"), HubAddress(name="hub", address="localhost", port=free_port())
    provision(Consortium(project="trial", hub=hub, parties=names), tmp_path)
    for name in ("hub", *names):
        (tmp_path / name / "party.toml").write_text(f'name = "{name}"\n{ALL}')
    sites = {name: open_site(tmp_path / name) for name in ("hub", *names)}
    plan = change_plan(draft(SplitNN), [("data.name", "breast_cancer"), ("data.parties", 3), ("look_every", 20)])
    agree(sites, sites["hub"], plan, "agreed")
    (tmp_path / "plan.toml").write_text(write_plan(plan))
    joined = [
        subprocess.Popen([sys.executable, "-m", "laconic", "join", str(site.folder)], stderr=subprocess.DEVNULL)
        for site in sites.values()
        if not site.is_hub
    ]
    try:
        words = ["host", tmp_path / "plan.toml", "--site", tmp_path / "hub", "--watch"]
        process, page, complaints, _, _ = follow(browser, words, tmp_path)
        assert "waiting for parties" in page.locator("#state").inner_text()
        page.wait_for_selector(".parties tbody tr:nth-child(2) code", timeout=120_000)
        page.wait_for_selector("#state[data-ended=yes]", timeout=240_000)
        assert page.locator("#state").inner_text().startswith("finished")
        process.communicate(timeout=60)
        assert process.returncode == 0 and complaints == []
    finally:
        for one in joined:
            one.terminate()
        for one in joined:
            one.wait(30)
