import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from laconic import read_results
from laconic.cli import main
from tests.inference.test_fit import frames

QUICK = ("--set", "FedOnce.trainer.epochs=2", "--set", "Solo.trainer.epochs=2", "--set", "Centralised.trainer.epochs=2")


def call(*words):
    return CliRunner().invoke(main, words)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    words = ("compare", "FedOnce", "--data", "breast_cancer", "--seeds", "2", *QUICK)
    path, page = folder / "runs.jsonl", folder / "page.html"
    return call(*words, "--save", str(path), "--report", str(page)), path, page


def test_compare_prints_one_table_and_what_to_use(kept):
    outcome, _, _ = kept
    assert outcome.exit_code == 0, outcome.output
    for words in ("breast_cancer, 3 parties", "Solo", "FedOnce", "Centralised", "±", "epsilon", "open a", "In short:"):
        assert words in outcome.stdout
    assert "a few numbers for each row" in outcome.stdout


def test_what_parties_lay_open_is_said_before_anything_is_scored(kept):
    outcome, _, _ = kept
    assert 0 <= outcome.output.index("lays up to 8 columns of its table open") < outcome.output.index("1 of 6")
    halves = call(
        "run",
        "FedOnce",
        "--data",
        "breast_cancer",
        "--set",
        "method.trainer.epochs=2",
        "--set",
        "method.precision=float16",
    )
    assert "lays up to 16 columns" in halves.stderr
    assert "columns of its table open" not in call("run", "Solo", "--data", "breast_cancer").stderr


def test_progress_is_told_run_by_run(kept):
    outcome, _, _ = kept
    assert "6 of 6: Centralised, seed 1: AUC" in outcome.stderr


def test_results_are_kept_with_the_yardsticks(kept):
    _, path, page = kept
    assert len(path.read_text().splitlines()) == 6
    assert {one.method["type"] for one in read_results(path)} == {"Solo", "FedOnce", "Centralised"}
    assert page.read_text().startswith("<!doctype html>")


def test_report_makes_a_page_of_kept_results(kept, tmp_path):
    _, path, _ = kept
    outcome = call("report", str(path), "-o", str(tmp_path / "page.html"), "--title", "Two ways")
    assert outcome.exit_code == 0
    assert "Wrote" in outcome.stdout
    assert "<h1>Two ways</h1>" in (tmp_path / "page.html").read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_disclose_prints_json_or_writes_what_the_names_say(kept, tmp_path):
    _, path, _ = kept
    printed = json.loads(call("disclose", str(path), "--party", "shop", "--json").stdout)
    assert [one["method"] for one in printed[:3]] == ["Solo", "FedOnce", "Centralised"]
    assert printed[1]["left"][0]["digest"]
    files = tmp_path / "shop.html", tmp_path / "shop.json"
    assert call("disclose", str(path), "--party", "shop", "-o", str(files[0]), "-o", str(files[1])).exit_code == 0
    assert "What left shop" in files[0].read_text()
    assert json.loads(files[1].read_text()) == printed


def test_tuned_arms_print_one_allowance_and_what_each_chose(tmp_path):
    words = ("compare", "Solo", "FedOnce", "--no-yardsticks", "--data", "breast_cancer", "--seeds", "1", "--tune")
    save = (*QUICK[:4], "--trials", "2", "--seconds", "30", "--save", str(tmp_path / "runs.jsonl"))
    outcome = call(*words, *save)
    assert outcome.exit_code == 0, outcome.output
    printed = " ".join(outcome.stdout.split())
    assert "Allowed to each arm with each seed: 2 trials and 30 processor seconds." in printed
    assert "Solo, seed 0" in printed
    assert "2 of 24 settings" in printed
    assert "UNEQUAL" not in printed
    again = call(*words, *save)
    assert "2 of 2 runs are in" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "gone.json"), "there is no result file gone.json"),
        (("disclose", "KEPT", "--party", "shopp"), "the parties are bank, shop, insurer"),
        (("disclose", "KEPT", "--party", "shop", "-o", "shop.txt"), "call it .html for a page or .json"),
        (("report", "KEPT", "-o", "gone/page.html"), "there is no folder gone"),
        (("compare", "FedOnc", "--data", "digits"), "did you mean FedOnce"),
        (("compare", "FedOnce", "FedKt", "--data", "digits"), "cannot share a split"),
        (("compare", "FedOnce", "--data", "digits", "--set", "Rap.precision=float16"), "is not compared"),
        (("compare", "FedOnce", "--data", "digits", "--trials", "3"), "--trials is for --tune"),
        (("compare", "FedOnce", "--data", "digits", "--tune", "--seconds", "0"), "seconds must be above 0"),
        (("compare", "FedOnce", "--data", "digits", "--save", "gone/runs.jsonl"), "there is no folder gone"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(kept, words, said):
    outcome = call(*(str(kept[1]) if word == "KEPT" else word for word in words))
    assert outcome.exit_code == 2
    assert said in outcome.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path):
    path = tmp_path / "runs.jsonl"
    words = ["compare", "FedOnce", "--data", "breast_cancer", *QUICK, "--save", str(path)]
    command = [sys.executable, "-m", "laconic", *words, "--seeds", "30"]
    going = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    give_up = time.monotonic() + 120
    while (not path.exists() or path.read_text().count("\n") < 2) and time.monotonic() < give_up:
        time.sleep(0.05)
    going.send_signal(signal.SIGINT)
    said = going.communicate(timeout=60)[1]
    assert going.returncode == 130
    done = len(read_results(path))
    assert f"Stopped. {path} keeps {done} runs, and the same command goes on from there." in said
    assert 2 <= done < 90
    again = call(*words, "--seeds", "1")
    assert f"{min(done, 3)} of 3 runs are in {path} already" in again.stderr
    assert "1 of 3:" not in again.stderr
    assert len(read_results(path)) == max(done, 3)


@pytest.mark.slow
def test_a_comparison_of_own_files_says_what_leaks_and_who_matters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in frames(300).items():
        frame.to_csv(f"{name}.csv", index=False)
    words = ("--files", "bank.csv", "shop.csv", "--id", "customer", "--label", "churned", "--seeds", "1", "--leakage")
    outcome = call("compare", "FedOnce", *words, *QUICK, "--save", "runs.jsonl", "--report", "page.html")
    assert outcome.exit_code == 0, outcome.output
    (found,) = [one for one in read_results(tmp_path / "runs.jsonl") if one.method["type"] == "FedOnce"]
    assert found.importance is not None
    (leak,) = found.leakage
    page = (tmp_path / "page.html").read_text()
    # The dot of the method has the colour of what its party lays open, and the key says what colours mean.
    assert f"var(--c6) {100 * leak.mean:.0f}%, var(--good)" in page
    assert "green for nothing, red for everything" in page
    matters = page[page.index("How much each party matters") :]
    assert "bank" in matters and "shop" in matters and "length of its head" in matters
