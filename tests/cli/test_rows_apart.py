"""Commands on own files of parties that have other rows of the same columns."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from laconic import read_results
from laconic.cli import main
from laconic.report import commands_for
from tests.data.hospitals import hospitals, open_rows, write

QUICK = ("--set", "method.trainer.epochs=3")


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words):
    outcome = call(*words)
    assert outcome.exit_code == 2, outcome.output
    # What the files hold is read aloud before; the error itself is one line, the last.
    *before, said = outcome.stderr.splitlines()
    assert all(line.startswith("  ") or " rows, " in line for line in before)
    assert said.startswith("Error: ")
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("hospitals")
    write(place, {name: frame.drop(columns="patient") for name, frame in hospitals().items()})
    open_rows().drop(columns="patient").to_csv(place / "open.csv", index=False)
    return place


@pytest.fixture(scope="module")
def files(folder):
    return ("--files", *(folder / f"{name}.csv" for name in ("north", "south", "west")), "--label", "diagnosis")


def test_files_with_the_same_columns_need_no_id(files):
    outcome = call("run", "FedAvg", *files, *QUICK)
    assert outcome.exit_code == 0, outcome.output
    assert "server predicts diagnosis and can ask north, south, west" in outcome.stdout
    assert "rows of one party only: north 80, south 80, west 80" in " ".join(outcome.stdout.split())


@pytest.mark.parametrize("method", ["FedProx", "Scaffold", "Pfnm", "SoloRows", "PooledRows"])
def test_every_method_for_other_rows_takes_files(files, method):
    outcome = call("run", method, *files, "--json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["data"]["kind"] == "horizontal"


@pytest.mark.parametrize("method", ["FedKt", "FedDf", "Pate"])
def test_methods_that_learn_from_public_rows_ask_for_them_and_take_them(files, folder, method):
    assert f"{method} learns from public rows" in refused("run", method, *files)
    outcome = call("run", method, *files, "--public", folder / "open.csv", "--json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["data"]["rows"]["public"] == 80


def _odd(frames):
    """The same hospitals with columns that are legal but unusual."""
    rng = np.random.default_rng(0)
    for frame in frames.values():
        rows = len(frame)
        frame["negative"] = -10 * rng.random(rows)
        frame["huge"] = 1e13 * rng.random(rows)
        frame["largest"] = 1e300 * rng.uniform(-1, 1, rows)
        frame["tiny"] = 1e-300 * rng.random(rows)
        frame["constant"] = 7.3
        frame["sparse"] = np.where(rng.random(rows) < 0.97, np.nan, rng.random(rows))
        frame["empty"] = np.nan
    return frames


@pytest.mark.parametrize("method", ["FedAvg", "Scaffold", "Pfnm", "PooledRows", "FedKt", "Pate"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_unusual_numbers_are_learnt_from(tmp_path, method):
    frames = _odd({name: frame.drop(columns="patient") for name, frame in hospitals().items()})
    files = write(tmp_path, frames)
    frames["north"].drop(columns="diagnosis").to_csv(tmp_path / "open.csv", index=False)
    public = ("--public", tmp_path / "open.csv") if method in ("FedKt", "Pate") else ()
    outcome = call("run", method, "--files", *files, "--label", "diagnosis", *public, "--json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["score"]["value"] > 0.8


def test_people_at_several_parties_are_reported(tmp_path):
    frames = hospitals()
    frames["south"].iloc[:7, 0] = frames["north"].iloc[:7, 0].to_numpy()
    words = ("--files", *write(tmp_path, frames), "--label", "diagnosis", "--id", "patient")
    assert "Shared ids: 7" in call("run", "FedAvg", *words, *QUICK).stdout


def test_methods_are_compared_and_the_report_says_how_to_run_them_again(files, folder, tmp_path):
    path = tmp_path / "runs.jsonl"
    words = (*files, "--public", folder / "open.csv", "--seeds", "1", "--save", path)
    outcome = call("compare", "FedAvg", "FedKt", *words, "--report", tmp_path / "page.html")
    assert outcome.exit_code == 0, outcome.output
    results = read_results(path)
    assert [one.method["type"] for one in results] == ["SoloRows", "FedAvg", "FedKt", "PooledRows"]
    assert "In short:" in outcome.stdout
    again = next(command for command in commands_for(results).values() if command.startswith("laconic run FedKt"))
    assert f"--label diagnosis --public {folder / 'open.csv'}" in again


def test_changed_files_are_noticed_by_compare(tmp_path):
    words = ("--files", *write(tmp_path, hospitals()), "--label", "diagnosis", "--id", "patient")
    compared = ("compare", "FedAvg", *words, "--seeds", "1", "--no-yardsticks", "--save", tmp_path / "runs.jsonl")
    assert call(*compared).exit_code == 0
    write(tmp_path, hospitals(90))
    assert "they changed since" in refused(*compared)


def test_a_plan_carries_the_files(files, tmp_path):
    (tmp_path / "plan.toml").write_text(call("plan", "FedAvg", *files, *QUICK).stdout)
    planned, straight = (
        call("run", *words, "--json") for words in ([tmp_path / "plan.toml"], ["FedAvg", *files, *QUICK])
    )
    assert json.loads(planned.stdout)["predictions"] == json.loads(straight.stdout)["predictions"]


def test_a_saved_model_predicts_a_file_of_any_name(files, folder, tmp_path):
    outcome = call("run", "FedAvg", *files, *QUICK, "--model", tmp_path / "model")
    assert outcome.exit_code == 0, outcome.output
    assert "Nobody is asked" in outcome.stdout
    scores = call("predict", tmp_path / "model", "--files", folder / "open.csv", "--out", tmp_path / "scores.csv")
    assert scores.exit_code == 0, scores.output
    found = pd.read_csv(tmp_path / "scores.csv")
    assert found["id"].tolist() == list(range(1, 81))
    assert set(found["diagnosis"]) <= {"benign", "malignant"}


def test_models_that_stay_with_the_parties_are_asked_for_although_these_have_no_new_rows(files, folder, tmp_path):
    assert call("run", "SoloRows", *files, "--model", tmp_path / "model").exit_code == 0
    scores = call("predict", tmp_path / "model", "--files", folder / "open.csv")
    assert scores.exit_code == 0, scores.output
    assert len(scores.stdout.splitlines()) == 1 + len(open_rows())


def test_a_model_of_files_with_ids_predicts_by_id(tmp_path):
    words = ("--files", *write(tmp_path, hospitals()), "--label", "diagnosis", "--id", "patient")
    call("run", "FedAvg", *words, *QUICK, "--model", tmp_path / "model")
    open_rows().to_csv(tmp_path / "may.csv", index=False)
    scores = call("predict", tmp_path / "model", "--files", tmp_path / "may.csv")
    assert scores.stdout.splitlines()[1].startswith(f"{open_rows()['patient'].iloc[0]},")


def test_what_goes_wrong_is_said_with_party_column_and_file(files, folder, tmp_path):
    frames = {name: frame.drop(columns="patient") for name, frame in hospitals().items()}
    frames["west"] = frames["west"].rename(columns={"size2": "Size2"})
    said = refused("run", "FedAvg", "--files", *write(tmp_path, frames), "--label", "diagnosis")
    assert "party 'west' has no column 'size2', which 'north' has" in said
    assert f"west is {tmp_path / 'west.csv'}" in said


def test_numbers_to_predict_are_refused_before_anything_is_learnt(files):
    said = refused("run", "Pfnm", *files[:-1], "size0")
    assert "Pfnm predicts classes, but label 'size0' of north.csv, south.csv, west.csv holds numbers" in said
    assert "Pfnm predicts classes" in refused("run", "Pfnm", "--data", "diabetes", "--set", "data.cut.type=Iid")


def test_options_that_do_not_go_together_are_refused(files, folder):
    public = ("--public", folder / "open.csv")
    assert "data.public is for horizontal methods" in refused("run", "FedOnce", *files, *public, "--id", "patient")
    said = refused("run", "FedAvg", "--data", "breast_cancer", *public)
    assert "data.public (--public) is for your own files" in said


def test_the_audit_attacks_the_final_model_and_what_each_party_sent(files, tmp_path):
    call("run", "FedAvg", *files, *QUICK, "--save", tmp_path / "run.json")
    outcome = call("audit", tmp_path / "run.json")
    assert outcome.exit_code == 0, outcome.output
    # Cells of the table are broken into lines.
    assert all(words in outcome.output for words in ("membership in", "rebuilt", "north", "south", "west"))


def test_the_doctor_has_parties_with_other_people_agree_on_columns(tmp_path):
    paths = []
    for name, frame in hospitals().items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        paths.append(tmp_path / f"{name}.toml")
        data = f'[data]\nsource = "{name}.csv"\nkey = "patient"\nlabel = "diagnosis"\n'
        paths[-1].write_text(f'name = "{name}"\n{data}')
    said = " ".join(call("doctor", *paths).stdout.split())
    assert "Together: 7 columns at every party; diagnosis is benign, malignant" in said
    paths[-1].write_text(f'name = "west"\n{data}[data.columns]\nsize0 = "numeric"\n')
    assert "party 'west' has no column 'size1'" in call("doctor", *paths).stderr
