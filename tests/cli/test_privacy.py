import pytest
from click.testing import CliRunner

from laconic.cli import main

pytest.importorskip("dp_accounting", reason="needs the extra `privacy`: pip install 'laconic-fl[privacy]'")


def say(*words):
    return CliRunner().invoke(main, list(words))


def test_epsilon_for_noise_comes_from_every_accountant():
    found = say("privacy", "--parties", "4", "--rows", "60000", "--batch", "128", "--epochs", "50", "--sigma", "1")
    assert found.exit_code == 0
    assert all(figure in found.output for figure in ("3.703", "4.014", "9.4"))


def test_noise_for_an_epsilon_is_worked_out():
    found = say("privacy", "--parties", "2", "--rows", "1000", "--batch", "100", "--epochs", "5", "--epsilon", "2")
    assert found.exit_code == 0
    assert "sigma at each" in found.output


def test_neither_sigma_nor_epsilon_is_an_error_that_says_what_to_give():
    found = say("privacy", "--rows", "1000")
    assert found.exit_code == 2
    assert "--sigma" in found.output


def test_a_plan_is_priced_before_it_runs():
    found = say("privacy", "FedOnce", "--data", "breast_cancer", "--set", "budget.epsilon=2")
    assert found.exit_code == 0
    assert "all together" in found.output
    assert "1.99" in found.output or "2.00" in found.output


def test_a_method_without_noise_is_refused():
    found = say("privacy", "SplitNN", "--data", "breast_cancer")
    assert found.exit_code == 2
    assert "no priced noise" in found.output


def test_a_saved_run_is_attacked(tmp_path):
    path = tmp_path / "run.json"
    say("run", "FedOnce", "--data", "breast_cancer", "--set", "method.trainer.epochs=2", "--save", str(path))
    found = say("audit", str(path), "--known", "40")
    assert found.exit_code == 0
    assert "membership" in found.output
    assert "reconstruction" in found.output


def test_widths_are_shown_with_score_bytes_and_what_they_give_away():
    found = say(
        "widths", "--data", "breast_cancer", "--set", "method.head.type=Boosted", "--set", "method.head.trees=5"
    )
    assert found.exit_code == 0, found.output
    assert all(words in found.output for words in ("alone", "all (10)", "as it is set", "bytes per row", "R2"))


def test_widths_of_a_method_without_an_encoder_are_refused():
    found = say("widths", "SplitNN", "--data", "breast_cancer")
    assert found.exit_code == 2
    assert "SplitNN has no encoder whose width could be chosen; FedOnce has" in found.output


@pytest.mark.parametrize("encoder", ["Nat", "Pca", "WhitenedPca", "RandomProjection", "Autoencoder", "BestEncoder"])
def test_naming_an_encoder_is_enough(encoder):
    found = say("plan", "FedOnce", "--data", "diabetes", "--encoder", encoder)
    assert found.exit_code == 0, found.output
    assert 'dim = "none"' in found.output
