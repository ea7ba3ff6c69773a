"""What a data-protection officer asks: what left a party, in runs and for models, since training too."""

import json
from html import unescape

import pytest
from click.testing import CliRunner

import laconic
from laconic.cli import main
from laconic.learn import Sgd
from tests.inference.test_fit import frames, new_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("officer")
    method = laconic.FedOnce(trainer=Sgd(epochs=2, batch=64))
    laconic.fit(method, laconic.federation(frames(), id="customer", label="churned")).save(place / "churn")
    return place


def said(*words):
    outcome = CliRunner().invoke(main, [str(word) for word in words])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_a_model_folder_is_disclosed_with_all_that_left_since(folder):
    before = json.loads(said("disclose", folder / "churn", "--party", "shop", "--json"))
    laconic.load_model(folder / "churn").predict(new_rows())
    after = json.loads(said("disclose", folder / "churn", "--party", "shop", "--json"))
    assert after["bytes"] > before["bytes"]
    assert after["uses"] == before["uses"] + 1
    assert after["columns"] == ["c", "d"]
    assert after["people"] == 160
    assert after["recipients"] == ["bank"]
    assert "predicts" in after["why"]
    assert "laconic forget shop" in after["retention"]
    assert after["when"][:2] == "20"


def test_a_terminal_says_first_what_nothing_protects_and_how_many_ids_left(folder):
    shown = " ".join(said("disclose", folder / "churn", "--party", "shop").split())
    assert shown.index("nothing protects it from bank") < shown.index("No epsilon can be given")
    assert "ids, at least as many: text 160" in shown
    assert "Columns used (2): c, d." in shown


def test_a_plan_is_no_result(tmp_path):
    (tmp_path / "plan.toml").write_text("seed = 0\n")
    outcome = CliRunner().invoke(main, ["disclose", str(tmp_path / "plan.toml"), "--party", "shop"])
    assert outcome.exit_code == 2 and "is a plan, and nothing has left yet" in outcome.output


def test_a_page_has_its_json_beside_it_and_says_the_same(folder):
    said("disclose", folder / "churn", "--party", "bank", "-o", folder / "bank.html")
    record = json.loads((folder / "bank.json").read_text())
    page = (folder / "bank.html").read_text()
    assert record["recipients"] == ["shop"]
    assert "Received by: shop" in page
    assert page.index("left open") < page.index("No epsilon can be given")
    assert "@media print" in page


def test_leakage_is_measured_beside_what_is_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, frame in frames(400).items():
        frame.to_csv(f"{name}.csv", index=False)
    words = ("--files", "bank.csv", "shop.csv", "--id", "customer", "--label", "churned")
    quick = ("--set", "method.head.type=LinearModel", "--leakage", "--save", "run.json")
    shown = " ".join(said("run", "FedOnce", *words, *quick).split())
    (found,) = json.loads((tmp_path / "run.json").read_text())["leakage"]
    # By default a party of two columns lays both open by rank.
    assert (found["party"], found["known"]) == ("shop", 10)
    assert found["mean"] > 0.5
    assert "who knows 10 of" in shown
    record = json.loads(said("disclose", "run.json", "--party", "shop", "--json"))
    assert "columns rebuilt" in json.dumps(record)
    # How many ids left, and not only that a text did.
    (ids,) = [one for one in record["left"] if one["step"] == "show_ids"]
    assert ids["pieces"] == [{"name": "ids", "type": "text", "shape": [400]}]


QUICK = ("--data", "breast_cancer", "--parties", "2", "--set", "method.head.type=LinearModel")


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    place = tmp_path_factory.mktemp("audited")
    said("run", "FedOnce", *QUICK, "--save", place / "run.json", "--model", place / "model")
    said("audit", place / "run.json", "--save", place / "audit.json", "--known", "20")
    return place


def test_figures_of_an_audit_are_on_the_record(audited):
    said(
        "disclose", audited / "run.json", "--party", "shop", "--audit", audited / "audit.json", "-o", audited / "s.html"
    )
    record, page = json.loads((audited / "s.json").read_text()), unescape((audited / "s.html").read_text())
    assert record["audit"]["known"] == 20
    assert any(one["success"] > one["baseline"] + 0.2 for one in record["audit"]["findings"])
    assert all(one["attack"] in page for one in record["audit"]["findings"])
    assert "was not attacked" not in page
    of_model = json.loads(
        said("disclose", audited / "model", "--party", "shop", "--audit", audited / "audit.json", "--json")
    )
    assert of_model["audit"] == record["audit"]


def test_a_record_says_what_nobody_measured(audited):
    said("disclose", audited / "run.json", "--party", "shop", "-o", audited / "bare.html")
    page = (audited / "bare.html").read_text()
    assert "was not attacked for this record" in page
    assert "was not measured" in page


def test_an_audit_of_another_run_is_refused_and_so_is_what_is_none(audited):
    said("run", "FedOnce", *QUICK, "--seed", "1", "--save", audited / "other.json")
    for file, audit, words in (
        ("other.json", "audit.json", "about what shop sent in another run"),
        ("run.json", "other.json", "holds no audit"),
    ):
        asked = ["disclose", str(audited / file), "--party", "shop", "--audit", str(audited / audit)]
        outcome = CliRunner().invoke(main, asked)
        assert outcome.exit_code == 2
        assert words in outcome.output


def test_a_party_that_has_no_part_is_named(folder):
    outcome = CliRunner().invoke(main, ["disclose", str(folder / "churn"), "--party", "shopp"])
    assert outcome.exit_code == 2
    assert "holds no part of 'shopp'" in outcome.output


def test_the_ledger_of_a_party_lists_runs_and_models(folder):
    result = laconic.fit(laconic.Linear(), laconic.federation(frames(), id="customer", label="churned")).result
    result.save(folder / "run.json")
    listed = said("ledger", "shop", folder)
    assert "in 2 records of runs and models" in listed
    # Each kind of release once, with the places that it left from beneath it.
    flat = " ".join(listed.split())
    assert flat.count("the ids of all its rows, in the clear") == 1
    assert "churn/shop, FedOnce" in flat and "run.json, Linear" in flat
    outcome = CliRunner().invoke(main, ["ledger", "nobody", str(folder)])
    assert "no result and no model of 'nobody'" in outcome.output
