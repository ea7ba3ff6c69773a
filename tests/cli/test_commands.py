import json

import pytest
from click.testing import CliRunner

from laconic import Result
from laconic.cli import main
from laconic.methods import methods

QUICK = ("--set", "method.trainer.epochs=2")


def call(*words):
    return CliRunner().invoke(main, words)


def test_run_prints_one_json_object_with_every_promised_key():
    outcome = call("run", "fedonce", "--data", "breast_cancer", "--parties", "4", "--seed", "5", "--json", *QUICK)
    assert outcome.exit_code == 0
    result = json.loads(outcome.stdout)
    promised = ["method", "data", "parties", "seed", "score", "metrics", "fit", "final", "releases"]
    assert set(promised) <= result.keys()
    assert result["method"]["trainer"]["epochs"] == 2
    assert len(result["parties"]) == 4
    assert result["seed"] == 5
    assert result["score"].keys() == {"metric", "value"}
    assert {"accuracy", "auc", "ks", "log_loss", "f1"} <= result["metrics"].keys()
    for phase in ("fit", "final"):
        assert result[phase].keys() == {"bytes_up", "bytes_down", "rounds", "uploads", "downloads", "seconds"}
    assert result["fit"]["rounds"] == 1
    assert "numbers for each row" in result["releases"][0]["words"]


def test_json_of_numbers_to_predict_has_their_metrics():
    outcome = call("run", "Solo", "--data", "diabetes", "--json", *QUICK)
    assert {"rmse", "mae", "r2"} <= json.loads(outcome.stdout)["metrics"].keys()


def test_settings_reach_every_part_of_the_plan():
    words = ["method.encoder.dim=2", 'method.precision="float16"', "data.overlap=200", "runtime.faults.absent=['shop']"]
    settings = [word for setting in words for word in ("--set", setting)]
    outcome = call("run", "FedOnce", "--data", "breast_cancer", "--json", *QUICK, *settings)
    result = json.loads(outcome.stdout)
    assert result["method"]["encoder"]["dim"] == 2
    assert result["method"]["precision"] == "float16"
    assert result["data"]["rows"]["train"] == 200
    assert {absence["party"] for absence in result["absences"]} == {"shop"}


@pytest.mark.parametrize("encoder", ["Nat", "Pca", "Autoencoder", "DpNat", "Codebook"])
def test_an_encoder_can_be_chosen_by_its_name_alone(encoder):
    noise = ("--set", "method.encoder.trainer.sigma=1.0") if encoder in ("DpNat", "Codebook") else ()
    words = ("--set", f"method.encoder.type={encoder}", *noise)
    outcome = call("run", "FedOnce", "--data", "breast_cancer", "--json", *QUICK, *words)
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["method"]["encoder"]["type"] == encoder


def test_run_without_json_shows_tables_and_open_releases():
    outcome = call("run", "FedOnce", "--data", "breast_cancer", *QUICK)
    assert outcome.exit_code == 0
    assert "FedOnce on breast_cancer: AUC" in outcome.stdout
    assert "open release" in outcome.stdout
    assert outcome.stderr.startswith("Before it starts: with FedOnce as it is set") and outcome.stderr.count("\n") == 1


def test_a_saved_result_is_the_printed_one(tmp_path):
    path = tmp_path / "result.json"
    outcome = call("run", "Solo", "--data", "breast_cancer", "--json", "--save", str(path), *QUICK)
    assert Result.from_json(path.read_bytes()) == Result.from_json(outcome.stdout)
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_looks_are_taken_as_often_as_asked():
    outcome = call("run", "SplitNN", "--data", "breast_cancer", "--look-every", "1", "--json", *QUICK)
    assert json.loads(outcome.stdout)["curve"]


def test_a_written_plan_runs_as_the_command_it_was_written_by(tmp_path):
    words = ("FedOnce", "--data", "breast_cancer", "--parties", "2", "--seed", "4", *QUICK)
    path = tmp_path / "plan.toml"
    path.write_text(call("plan", *words).stdout)
    from_file = Result.from_json(call("run", str(path), "--json").stdout)
    from_words = Result.from_json(call("run", *words, "--json").stdout)
    assert from_file.predictions == from_words.predictions
    assert from_file.method == from_words.method


def test_options_change_a_plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(call("plan", "Solo", "--data", "breast_cancer").stdout)
    result = json.loads(call("run", str(path), "--json", "--data", "digits", "--seed", "9", *QUICK).stdout)
    assert (result["data"]["name"], result["seed"]) == ("digits", 9)


def test_parties_in_processes_of_their_own_give_the_same_numbers():
    words = ("run", "FedOnce", "--data", "breast_cancer", "--json", *QUICK)
    together, apart = call(*words), call(*words, "--runtime", "processes")
    assert Result.from_json(together.stdout).predictions == Result.from_json(apart.stdout).predictions


def test_help_gives_examples_a_line_each():
    examples = [line.strip() for line in call("run", "--help").stdout.splitlines() if "laconic run" in line]
    assert "laconic run my-plan.toml --seed 1" in examples


def test_methods_lists_every_method_and_what_leaves():
    outcome = call("methods")
    assert all(method.__name__ in outcome.stdout for method in methods().values())
    assert "nothing leaves any party" in outcome.stdout
    assert "raw columns" in outcome.stdout


def test_data_says_which_sets_need_files(monkeypatch):
    monkeypatch.delenv("LACONIC_DATA", raising=False)
    outcome = call("data")
    assert "breast_cancer" in outcome.stdout
    assert "set" in outcome.stdout
    monkeypatch.setenv("LACONIC_DATA", "/some")
    assert "/some" in call("data").stdout
