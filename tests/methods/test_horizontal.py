"""Every horizontal method keeps the contract, and the baselines are what they say."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from laconic import Dirichlet, check_method, deal_rows, load, simulate, train
from laconic.data import Federation
from laconic.learn import Adam, Boosted, Logistic, Mlp, Sgd, Yogi, fit_linear, predict_linear
from laconic.methods.horizontal.fedavg import FedAdam, FedAvg, FedYogi
from laconic.methods.horizontal.feddf import FedDf
from laconic.methods.horizontal.fedprox import FedProx
from laconic.methods.horizontal.pate import Pate
from laconic.methods.horizontal.pfnm import Pfnm
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.scaffold import Scaffold
from laconic.methods.horizontal.solo_rows import SoloRows
from laconic.tables import Column, Table, Task, fit_recipe
from laconic.testing import small_federation, small_horizontal
from laconic.values import Array


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        FedAvg(exchanges=2),
        FedAdam(exchanges=5, update=Adam(lr=0.1)),
        FedYogi(exchanges=5, update=Yogi(lr=0.1)),
        FedProx(),
        Scaffold(exchanges=2),
        FedDf(),
        Pfnm(),
        Pate(),
        SoloRows(),
        PooledRows(model=Logistic()),
    ],
    ids=lambda method: type(method).__name__,
)
def test_keeps_the_contract(method):
    check_method(method)


def test_pooled_xgboost_is_a_value_away():
    pytest.importorskip("xgboost")
    result = simulate(PooledRows(model=Boosted(trees=10)), small_horizontal("binary"))
    assert result.metrics["accuracy"] > 0.9


def test_fedprox_without_a_pull_is_fedavg():
    federation = small_horizontal("binary")
    trainer = Sgd(epochs=2)
    plain, held = (
        simulate(method, federation) for method in (FedAvg(trainer=trainer), FedProx(trainer=trainer, mu=0.0))
    )
    assert plain.predictions == held.predictions


def test_a_strong_pull_keeps_parties_near_the_average():
    federation = small_horizontal("binary")
    trainer = Sgd(epochs=3, optimizer="sgd", lr=0.01)

    def seen(mu: float) -> Array:
        return simulate(FedProx(trainer=trainer, mu=mu), federation).metrics["log_loss"]

    untrained = simulate(FedAvg(trainer=Sgd(epochs=0)), federation).metrics["log_loss"]
    assert abs(seen(50.0) - untrained) < abs(seen(0.0) - untrained) / 2


def test_one_exchange_of_scaffold_is_fedavg_by_plain_descent():
    federation = small_horizontal("multiclass")
    trainer = Sgd(epochs=2, optimizer="sgd", lr=0.05, weight_decay=0.0)
    results = [simulate(method, federation) for method in (FedAvg(trainer=trainer), Scaffold(trainer=trainer))]
    assert results[0].score.value == pytest.approx(results[1].score.value, abs=1e-3)


def test_scaffold_reaches_the_pooled_optimum_with_parties_of_other_sizes_and_rows():
    """Two parties of 40 and 8 rows whose own optima lie far apart, two columns, a linear model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(48, 2)) + np.repeat([[0.0, 0.0], [1.0, -1.0]], [40, 8], axis=0)
    slope = np.where(np.arange(48) < 40, 2 * x[:, 0], -3 * x[:, 0] + 2 * x[:, 1])
    y = (slope + rng.logistic(size=48) > 0).astype(np.int64)
    task, columns = Task(kind="binary", classes=("no", "yes")), (Column("a"), Column("b"))
    recipe = fit_recipe(x, columns, np.arange(48))
    cuts = {"big": np.arange(40), "small": np.arange(40, 48)}
    tables = {
        name: Table(x[at], columns, y=y[at], task=task, cuts={"train": np.arange(len(at))}, party=name, recipe=recipe)
        for name, at in cuts.items()
    }
    server = Table(x, columns, y=y, task=task, cuts={"test": np.arange(48)}, party="server", recipe=recipe)
    federation = Federation(
        name="toy", tables={"server": server} | tables, hub="server", aligned=True, kind="horizontal", facts={}
    )
    trainer = Sgd(epochs=5, batch=48, lr=0.5, optimizer="sgd", weight_decay=0.0)
    found = train(Scaffold(net=Mlp(hidden=()), trainer=trainer, exchanges=200), federation).hub.memory["model"]
    pooled = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(server.x, y)
    assert found["1.weight"][0] == pytest.approx(pooled.coef_[0], abs=1e-3)
    assert found["1.bias"] == pytest.approx(pooled.intercept_, abs=1e-3)


def test_scaffold_refuses_steps_whose_length_says_nothing():
    with pytest.raises(ValueError, match="plain gradient descent"):
        Scaffold(trainer=Sgd())


def test_solo_scores_each_party_s_model_on_all_rows_and_takes_the_mean():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=3, beta=0.5), seed=0)
    fitted = train(SoloRows(model=Logistic()), federation)
    result = fitted.result
    x, y = federation.tables["server"].part("test")
    task, alone = federation.task, {}
    for name in federation.peers:
        model = fit_linear(task, *federation.tables[name].part("train"), 1.0)
        alone[name] = roc_auc_score(y, predict_linear(task, model, x))
    assert {name: one["auc"] for name, one in result.by_party.items()} == pytest.approx(alone)
    assert result.score.value == pytest.approx(np.mean(list(alone.values())))
    assert fitted.score()["auc"] == result.score.value
    # One ranking of rows by different models is another figure, and no party's.
    assert roc_auc_score(y, fitted.predict()) != pytest.approx(result.score.value, abs=1e-4)


def test_a_method_with_one_model_has_no_scores_by_party():
    assert simulate(FedAvg(trainer=Sgd(epochs=1)), small_horizontal("binary")).by_party == {}


@pytest.mark.parametrize(
    "method",
    [
        FedAvg(trainer=Sgd(epochs=3)),
        Scaffold(exchanges=2),
        FedDf(trainer=Sgd(epochs=3)),
        Pfnm(),
        SoloRows(model=Logistic()),
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_party_without_rows_does_no_harm(method):
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=12, beta=0.05, least=0), seed=2)
    assert min(len(federation.tables[name].cut("train")) for name in federation.peers) == 0
    simulate(method, federation)


def test_pfnm_refuses_nets_it_cannot_match():
    with pytest.raises(ValueError, match="hidden layers"):
        Pfnm(net=Mlp(hidden=()))


def test_a_horizontal_method_refuses_a_vertical_federation():
    with pytest.raises(ValueError, match="other columns of the same people"):
        simulate(FedAvg(), small_federation("binary"))
