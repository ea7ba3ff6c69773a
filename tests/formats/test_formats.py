"""What Laconic 0.1.0 wrote before files and classes were renamed can still be read, and means what it meant.

`make.py` says how each file came about; none of them is ever written anew.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from laconic import price, read_plan, read_results, write_plan
from laconic.cli import main
from laconic.deploy import Journal, PartyFolder, ledgers_of
from tests.formats.make import PLANS

KEPT = Path(__file__).parent / "kept"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A copy that a test may change, in which commands are given."""
    shutil.copytree(KEPT, tmp_path / "kept")
    for secret in (tmp_path / "kept").rglob("*.secret"):
        secret.chmod(0o600)  # A checkout lets others read every file.
    monkeypatch.chdir(tmp_path / "kept")
    return tmp_path / "kept"


def laconic(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("name", PLANS)
def test_a_saved_model_predicts_what_it_did(name, kept):
    files = ["bank.csv", "shop.csv"] if PLANS[name][1] == "columns" else ["north.csv"]
    laconic("predict", f"{name}.model", "--files", *files, "--out", "now.csv")
    now, before = (pandas.read_csv(file, keep_default_na=False) for file in ("now.csv", KEPT / f"{name}.scores.csv"))
    assert list(now) == list(before)
    numbers = list(before.select_dtypes("number"))
    # Another processor may round matrix products otherwise.
    assert np.allclose(now[numbers], before[numbers], atol=1e-4)
    assert now.drop(columns=numbers).equals(before.drop(columns=numbers))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_and_written_and_read_again(name):
    plan = read_plan((KEPT / f"{name}.toml").read_text())
    assert type(plan.method).__name__ == PLANS[name][0]
    assert read_plan(write_plan(plan)) == plan


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_then_gives_the_result_of_then(name, kept):
    # Votes are cut at the classes' shares now where a plan says nothing: docs/decisions/0063.
    as_then = ("--set", "method.count.type=Majority") if name == "fedkt" else ()
    laconic("run", f"{name}.toml", "--save", "now.json", "--model", "now.model", *as_then)
    (now,), (before,) = (read_results(Path(file)) for file in ("now.json", f"{name}.result.json"))
    if name != "oneshot":  # Its k-means is another one now, on a few dozen rows: docs/decisions/0028.
        assert now.score.value == pytest.approx(before.score.value, abs=1e-4)
    assert (now.align.bytes, now.fit.bytes, now.fit.rounds) == (before.align.bytes, before.fit.bytes, before.fit.rounds)
    # Models of parties with other rows did not come home then.
    steps = [one.step for one in now.releases if one.step != "take_model"]
    assert steps == [one.step for one in before.releases]


@pytest.mark.parametrize("name", [*PLANS, "journalled"])
def test_a_result_is_read_shown_and_priced(name, kept):
    (result,) = read_results(Path(f"{name}.result.json"))
    assert result.method["type"] == json.loads(Path(f"{name}.result.json").read_text())["method"]["type"]
    price(ledgers_of(result), 1e-5, "shared")
    laconic("report", f"{name}.result.json", "-o", "page.html")
    assert Path("page.html").stat().st_size > 1000


def test_a_sealed_envelope_is_opened_and_its_answers_used(kept, monkeypatch):
    # Envelopes are for one version of the package on both sides; here it is their form that counts.
    monkeypatch.setattr("laconic.deploy.transports.envelopes.sealing.__version__", "0.1.0")
    monkeypatch.chdir(kept / "envelope-bank")
    laconic("host", "plan.toml", "--envelopes", "inbox", "--party", "bank.toml", "--save", "result.json")
    (result,) = read_results(Path("result.json"))
    assert result.parties == ("bank", "shop")
    assert result.score.value > 0.5


def test_what_was_answered_before_is_sealed_again_without_a_second_release(kept, monkeypatch):
    monkeypatch.chdir(kept / "envelope-shop")
    (run,) = Path("runs").iterdir()
    before = PartyFolder(run / "party").load().ledger.entries
    laconic("seal", "plan.toml", "--party", "shop.toml", "-o", "again.envelope")
    assert PartyFolder(run / "party").load().ledger.entries == before
    assert {path.name for path in run.parent.iterdir()} == {run.name}


def test_a_run_goes_on_from_its_journal_and_asks_nothing_again(kept):
    with Journal(kept / "linear.journal" / "journal") as journal:
        before = journal.notes()
    words = ("--set", "runtime.type=Journalled", "--set", "runtime.folder=linear.journal")
    laconic("run", "linear.toml", *words, "--save", "now.json")
    with Journal(kept / "linear.journal" / "journal") as journal:
        assert journal.notes() == before
    (now,), (then,) = (read_results(Path(file)) for file in ("now.json", "journalled.result.json"))
    assert now.score.value == pytest.approx(then.score.value, abs=1e-4)
    assert now.wire == then.wire
