"""Labels that are counts: parties with other rows learn the logarithm of their mean, and are judged by deviance."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_poisson_deviance

from laconic import (
    Analytic,
    FedAvg,
    FedDf,
    FedKt,
    FedProx,
    FedTrees,
    Pate,
    PooledRows,
    Scaffold,
    SoloRows,
    check_method,
    rows_from_frames,
    simulate,
    train,
)
from laconic.errors import DataError, LaconicError
from laconic.learn import Boosted, Logistic, Network, Sgd
from laconic.privacy import DpSgd
from laconic.tables import Task, deviances, headline, metrics

COUNTS = Task.said("counts")
QUICK = Sgd(epochs=8, batch=16, lr=0.01)


def visits(shift=0.0, rows=80):
    """Parties whose visits have a logarithm that is linear in two columns; the last has more of them."""
    rng, frames = np.random.default_rng(0), {}
    for name in ("north", "south", "west"):
        x = rng.normal(size=(rows, 2))
        logs = 0.2 + 0.9 * x[:, 0] - 0.6 * x[:, 1] + (shift if name == "west" else 0.0)
        frames[name] = pd.DataFrame(x, columns=["age", "stay"]).assign(visits=rng.poisson(np.exp(logs)))
    return frames


def federation(frames=None, task=COUNTS, public=True):
    opened = pd.DataFrame(np.random.default_rng(1).normal(size=(80, 2)), columns=["age", "stay"])
    return rows_from_frames(
        frames or visits(), label="visits", task=task, public=opened if public else None, test=0.3, seed=1
    )


def gained(result, found):
    """The share of the deviance of always saying the training mean that a model leaves out."""
    y = found.tables["server"].part("test")[1]
    known = np.concatenate([found.tables[name].part("train")[1] for name in found.peers])
    return 1 - result.metrics["deviance"] / float(np.mean(deviances(y, np.full(len(y), known.mean()))))


def test_the_deviance_is_that_of_the_textbook_and_the_headline():
    y, said = np.array([0.0, 1.0, 3.0, 2.0]), np.array([0.5, 1.5, 2.0, 2.0])
    by_hand = 2 * (0.5 + (0 - np.log(1.5) + 0.5) + (3 * np.log(1.5) - 1) + 0) / 4
    assert deviances(y, said).mean() == pytest.approx(by_hand)
    assert deviances(y, said).mean() == pytest.approx(mean_poisson_deviance(y, said))
    trained = train(FedAvg(trainer=QUICK), federation())
    assert trained.result.score.metric == "deviance"
    assert {"deviance", "rmse", "mae", "r2"} <= trained.result.metrics.keys()
    # Models that learn squared errors may say 0 or less, which no likelihood knows.
    assert np.isfinite(deviances(y, np.array([-1.0, 0.0, 2.0, 2.0]))).all()


def test_a_count_without_an_agreed_mean_is_a_number_with_one_more_metric():
    found = metrics(COUNTS, np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert found["deviance"] == 0.0
    assert headline(COUNTS, found).metric == "rmse"
    assert "deviance" not in metrics(Task(kind="regression"), np.array([1.0, 2.0]), np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    "method",
    [
        FedAvg(trainer=QUICK, exchanges=2),
        FedProx(trainer=QUICK, exchanges=2),
        Scaffold(trainer=Sgd(epochs=8, batch=16, lr=0.05, optimizer="sgd"), exchanges=3),
        FedDf(trainer=QUICK, exchanges=2),
        FedKt(model=Logistic(), teachers=2),
        FedKt(model=Network(trainer=QUICK), teachers=1, partitions=1),
        FedTrees(trees=Boosted(trees=20, depth=3), least_rows=10),
        Pate(model=Logistic()),
        PooledRows(model=Boosted(trees=20, depth=3)),
        SoloRows(model=Logistic()),
    ],
    ids=lambda method: type(method).__name__,
)
def test_counts_are_learnt_far_better_than_by_their_mean(method):
    found = federation(visits(shift=0.5))
    assert gained(simulate(method, found), found) > 0.25


def test_predictions_are_means_of_counts_and_never_below_zero():
    for method in (FedAvg(trainer=QUICK), FedTrees(trees=Boosted(trees=20, depth=3), least_rows=10)):
        run = train(method, federation())
        said = run.predict("test")
        assert (said > 0).all()
        assert said.mean() == pytest.approx(run.hub.data.part("test")[1].mean(), rel=0.3)


def test_counts_learnt_by_their_logarithm_beat_squared_errors():
    found, plain = federation(), federation(task=Task(kind="regression"))
    method = FedAvg(trainer=QUICK, exchanges=3)
    run, numbers = train(method, found), train(method, plain)
    y = run.hub.data.part("test")[1]
    assert deviances(y, run.predict("test")).mean() < deviances(y, numbers.predict("test")).mean()


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedAvg(trainer=QUICK), FedTrees(least_rows=10), FedKt(model=Logistic())])
def test_methods_keep_their_contract_on_counts(method):
    check_method(method, federation())


def test_private_training_learns_counts_with_the_same_noise():
    result = simulate(FedAvg(trainer=DpSgd(sigma=1.0, epochs=2, batch=32)), federation())
    assert np.isfinite(result.metrics["deviance"])


def test_the_closed_form_refuses_counts_and_says_why():
    with pytest.raises(LaconicError, match=r"'visits' is a count, whose likelihood has no closed form.*regression"):
        simulate(Analytic(), federation())


@pytest.mark.parametrize("wrong", [-1.0, 2.5])
def test_what_cannot_have_been_counted_is_refused_by_party_and_row(wrong):
    frames = visits()
    frames["south"]["visits"] = frames["south"]["visits"].astype(float)
    frames["south"].loc[3, "visits"] = wrong
    with pytest.raises(DataError, match=r"'south', label 'visits': a count is a whole number.*row 4 has"):
        federation(frames)
