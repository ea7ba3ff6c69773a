"""Analytic is the model of all rows in one exchange; parties join and leave exactly, and noise keeps its budget."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from laconic import Dirichlet, check_method, deal_rows, load, price, rows_from_frames, simulate, train
from laconic.core import Budgeted, Party
from laconic.data import Iid
from laconic.deploy import ledgers_of
from laconic.errors import WireError
from laconic.learn import Columns, RandomFourier, RandomRelu
from laconic.methods.horizontal.analytic import Analytic
from laconic.privacy import Budget, GaussianSums
from laconic.testing import small_horizontal
from tests.data.hospitals import hospitals

FEW = RandomFourier(width=40)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        Analytic(),
        Analytic(features=RandomRelu(width=30), precision="float64", least_rows=1),
        Analytic(features=Columns(), privacy=GaussianSums(sigma=0.1, bounds=(0.0, 400.0), seeded=True)),
    ],
    ids=["default", "float64", "private"],
)
def test_keeps_the_contract(method):
    check_method(method)


def predicted(method, federation):
    run = train(method, federation)
    return method.predict(run.hub, None, "test"), run


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize(("precision", "close"), [("float64", 1e-6), ("float32", 1e-4)])
def test_predicts_as_the_pooled_fit_does_however_rows_are_dealt(kind, precision, close):
    data = load({"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}[kind])
    method = Analytic(features=FEW, least_rows=1, precision=precision, penalty=0.01)
    exact = Analytic(features=FEW, least_rows=1, precision="float64", penalty=0.01)
    cuts = [Iid(parties=7)] + ([] if kind == "regression" else [Dirichlet(parties=5, beta=0.1, least=1)])
    # The recipe and the test rows hang on the seed alone, so one party has what the others have together.
    pooled = predicted(exact, deal_rows(data, Iid(parties=1), seed=4))[0]
    unit = pooled.std()
    for cut in cuts:
        assert np.abs(predicted(method, deal_rows(data, cut, seed=4))[0] - pooled).max() < close * unit


def test_takes_one_exchange_and_stays_within_its_bytes():
    federation = deal_rows(load("digits"), Iid(parties=3), seed=0)
    for most in (20_000, 100_000):
        result = simulate(Analytic(most_bytes=most), federation)
        assert result.fit.rounds == 1
        assert 0.9 * most < result.fit.bytes_up / 3 <= most + 200


def test_features_are_at_most_a_quarter_of_the_rows_expected():
    federation = deal_rows(load("digits"), Iid(parties=3), seed=0)
    hub = train(Analytic(expected_rows=1200), federation).hub
    assert len(hub.memory["model"]["coefficients"]) <= 300


def test_parties_that_agreed_on_columns_take_a_quarter_of_all_their_rows_without_being_asked_to():
    frames = {name: frame.drop(columns="patient") for name, frame in hospitals(150).items()}
    run = train(Analytic(), rows_from_frames(frames, label="diagnosis"))
    rows = sum(run.federation.tables[name].rows for name in run.federation.peers)
    assert len(run.hub.memory["model"]["coefficients"]) == rows // 4
    wide = train(Analytic(expected_rows=10**6), rows_from_frames(frames, label="diagnosis"))
    assert wide.result.fit.bytes_up > 9 * run.result.fit.bytes_up
    assert run.result.metrics["log_loss"] < wide.result.metrics["log_loss"] + 0.02


def test_a_party_that_is_taken_out_leaves_the_model_of_the_others_to_the_bit():
    federation = deal_rows(load("digits"), Iid(parties=3), seed=0)
    method = Analytic(features=FEW)
    _, run = predicted(method, federation)
    assert set(method.members(run.hub)) == {"party1", "party2", "party3"}
    method.take_out(run.hub, "party2")
    assert "party2" not in method.members(run.hub)
    without = {name: table for name, table in federation.tables.items() if name != "party2"}
    never = predicted(method, replace(federation, tables=without))[0]
    assert (method.predict(run.hub, None, "test") == never).all()


def test_a_party_with_few_rows_sends_nothing():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=12, beta=0.05, least=0), seed=2)
    rows = {name: len(federation.tables[name].cut("train")) for name in federation.peers}
    run = train(Analytic(least_rows=30, features=Columns()), federation)
    assert set(run.hub.memory["sums"]) == {name for name, count in rows.items() if count >= 30} != set(rows)
    with pytest.raises(ValueError, match="no party has 1000 rows"):
        simulate(Analytic(least_rows=1000), federation)


def test_weights_turn_the_model_towards_a_class():
    federation = small_horizontal("binary")
    rare = federation.task.classes[0]

    def found(weights):
        predictions, _ = predicted(Analytic(features=Columns(), class_weights=weights), federation)
        return (predictions < 0.5).sum()

    assert found({rare: 10.0}) > found({}) > found({rare: 0.1})
    with pytest.raises(Exception, match="class_weights names cat"):
        found({"cat": 2.0})


def test_the_server_refuses_what_are_no_sums_and_names_the_sender():
    method = Analytic(features=FEW)
    run = train(method, small_horizontal("binary"))
    sums = dict(run.hub.memory["sums"]["party1"])
    for broken in (
        {**sums, "gram": sums["gram"][1:]},
        {**sums, "moments": sums["moments"] * np.nan},
        {**sums, "rows": "many"},
        {"rows": 7},
        [sums],
    ):
        with pytest.raises(WireError, match="party9"):
            method.merge_in(run.hub, SimpleNamespace(ask=lambda _, sent=broken: {"party9": sent}))


def test_noise_keeps_the_budget_and_is_foreseen():
    pytest.importorskip("dp_accounting")
    federation = deal_rows(load("breast_cancer"), Iid(parties=3), seed=0)
    wanted = Budget(epsilon=2.0, delta=1e-5, people="disjoint")
    method = Analytic(features=Columns()).within(wanted, 100, "server", federation.peers)
    assert isinstance(method, Budgeted)
    result = simulate(method, federation)
    paid = price(ledgers_of(result), 1e-5, "disjoint")
    assert 1.95 < paid.epsilon <= 2.0
    assert not paid.open
    assert paid.secure
    noise = method.expected_noise(100, "server", federation.peers)["party1"]
    assert {release.noise for release in result.releases if release.party == "party1"} == set(noise)


def test_less_noise_is_better_and_little_noise_is_nearly_none():
    federation = deal_rows(load("digits"), Iid(parties=3), seed=0)

    def accuracy(sigma):
        privacy = GaussianSums(sigma=sigma, seeded=True)
        return simulate(Analytic(features=Columns(), privacy=privacy), federation).metrics["accuracy"]

    plain = simulate(Analytic(features=Columns()), federation).metrics["accuracy"]
    assert accuracy(10.0) < accuracy(0.3) - 0.2
    # Rows brought to one length are other rows; noise this small takes nothing more.
    assert accuracy(1e-3) > plain - 0.02


def test_a_party_without_rows_sends_noise_like_everybody_else():
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=12, beta=0.05, least=0), seed=2)
    assert min(len(federation.tables[name].cut("train")) for name in federation.peers) == 0
    run = train(Analytic(privacy=GaussianSums(sigma=0.1, seeded=True)), federation)
    assert set(run.hub.memory["sums"]) == set(federation.peers)


def test_private_sums_tell_neither_counts_nor_anything_without_noise():
    federation = deal_rows(load("digits"), Iid(parties=2), seed=0)
    method = Analytic(features=Columns(), privacy=GaussianSums(sigma=1.0))
    sent = method.give_sums(Party("party1", federation.tables["party1"], seed=0))
    assert set(sent.value) == {"gram", "moments"}


@pytest.mark.parametrize(
    "settings",
    [
        {"penalty": 0.0},
        {"class_weights": {"a": -1.0}},
        {"most_bytes": 0},
        {"privacy": GaussianSums(), "penalty": 1.0},
    ],
    ids=str,
)
def test_refuses_settings_that_mean_nothing(settings):
    with pytest.raises(ValueError, match=r"must be above 0|1 or more|leave these two out"):
        Analytic(**settings)
