import numpy as np
import pytest

from laconic import Linear, SplitNN, simulate
from laconic.deploy.result import Result
from laconic.learn import Sgd
from laconic.tables import Task, headline, metrics
from laconic.testing import small_federation


def test_a_result_survives_json_and_disk(tmp_path):
    result = simulate(Linear(), small_federation("binary"))
    assert Result.from_json(result.to_json()) == result
    result.save(tmp_path / "result.json")
    assert Result.from_json((tmp_path / "result.json").read_bytes()) == result
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_looks_have_their_own_phase_and_cost_fitting_nothing():
    cancer = small_federation("binary")
    method = SplitNN(trainer=Sgd(epochs=2, batch=128))
    plain, looked = simulate(method, cancer), simulate(method, cancer, look_every=2)
    assert looked.fit.bytes == plain.fit.bytes
    assert looked.look.bytes > 0
    assert plain.look.bytes == 0
    assert looked.predictions == plain.predictions
    assert [look.bytes for look in looked.curve] == sorted(look.bytes for look in looked.curve)


def test_another_seed_gives_another_run():
    cancer = small_federation("binary")
    method = SplitNN(trainer=Sgd(epochs=1, batch=128))
    assert simulate(method, cancer, seed=1).predictions != simulate(method, cancer, seed=2).predictions


def test_scores_of_a_hand_worked_case():
    binary = Task(kind="binary", classes=("no", "yes"))
    found = metrics(binary, np.array([0, 0, 1, 1]), np.array([0.1, 0.6, 0.4, 0.9]))
    assert found["accuracy"] == 0.5
    assert found["auc"] == 0.75
    assert found["ks"] == 0.5
    assert found["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.4, 0.9])), abs=1e-6)
    numbers = metrics(Task(kind="regression"), np.array([0.0, 2.0]), np.array([1.0, 2.0]), train_range=4.0)
    assert numbers["rmse"] == pytest.approx(0.5**0.5)
    assert numbers["rmse_scaled"] == pytest.approx(0.5**0.5 / 4)
    assert numbers["mae"] == 0.5
    assert numbers["r2"] == pytest.approx(0.5)
    assert headline(binary, found).metric == "auc"


def test_predictions_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="NaN or infinity"):
        metrics(Task(kind="regression"), np.zeros(2), np.array([np.nan, 1.0]))
