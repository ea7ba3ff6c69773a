"""The server's own steps towards the average, against steps worked out by hand."""

import numpy as np
import pytest

from laconic import FedAdam, FedAvg, FedYogi, deal_rows, load, simulate
from laconic.data import Iid
from laconic.learn import Adam, Sgd, TakeAverage, Yogi

MODEL = {"w": np.array([1.0, -2.0], dtype=np.float64)}
AVERAGE = {"w": np.array([1.5, -2.0], dtype=np.float64)}
SETTINGS = {"lr": 0.1, "beta1": 0.5, "beta2": 0.75, "tau": 0.1}


def test_the_average_itself_is_the_model_without_an_optimiser():
    assert TakeAverage().advance({}, MODEL, AVERAGE) is AVERAGE


def test_two_adam_steps_are_as_worked_out_by_hand():
    memory = {}
    first = Adam(**SETTINGS).advance(memory, MODEL, AVERAGE)
    # d = 0.5; m = 0.25; v = 0.75 * 0.01 + 0.25 * 0.25 = 0.07; 1 + 0.1 * 0.25 / (root 0.07 + 0.1)
    assert first["w"] == pytest.approx([1 + 0.025 / (0.07**0.5 + 0.1), -2.0])
    again = Adam(**SETTINGS).advance(memory, first, {"w": first["w"] + np.array([0.1, 0.0])})
    # d = 0.1; m = 0.125 + 0.05 = 0.175; v = 0.75 * 0.07 + 0.25 * 0.01 = 0.055
    assert again["w"][0] == pytest.approx(first["w"][0] + 0.1 * 0.175 / (0.055**0.5 + 0.1))


def test_two_yogi_steps_are_as_worked_out_by_hand():
    memory = {}
    first = Yogi(**SETTINGS).advance(memory, MODEL, AVERAGE)
    # d^2 = 0.25 above v = 0.01, so v rises by a quarter of it: 0.01 + 0.0625 = 0.0725
    assert first["w"] == pytest.approx([1 + 0.025 / (0.0725**0.5 + 0.1), -2.0])
    again = Yogi(**SETTINGS).advance(memory, first, {"w": first["w"] + np.array([0.1, 0.0])})
    # d^2 = 0.01 below v = 0.0725, so v falls by a quarter of it: 0.07; Adam's would have fallen to 0.0569
    assert again["w"][0] == pytest.approx(first["w"][0] + 0.1 * 0.175 / (0.07**0.5 + 0.1))


def test_a_method_by_name_is_fedavg_with_that_step():
    federation = deal_rows(load("breast_cancer"), Iid(parties=3), seed=0)
    few = {"trainer": Sgd(epochs=1, batch=32), "exchanges": 3}
    for named, step in ((FedAdam, Adam()), (FedYogi, Yogi())):
        found = simulate(named(**few), federation).metrics
        assert found == simulate(FedAvg(**few, update=step), federation).metrics
        assert found != simulate(FedAvg(**few), federation).metrics


@pytest.mark.parametrize("settings", [{"lr": 0.0}, {"tau": -1.0}, {"beta1": 1.0}, {"beta2": -0.1}], ids=str)
def test_steps_that_lead_nowhere_are_refused(settings):
    with pytest.raises(ValueError, match="must be"):
        Adam(**settings)
