"""Times to an event between parties with other columns: heads that learn them, what refuses them, and their labels."""

import numpy as np
import pytest

from laconic import Centralised, FedOnce, Linear, Solo, check_method, federation, fit, importance, train
from laconic.errors import DataError, PlanError
from laconic.learn import Best, Boosted, Forest, Joint, LinearModel
from laconic.tables import LabelScale, Task, pairs_of, signed_times
from laconic.testing import drawn_times, small_federation

SMALL = small_federation("survival")
QUICK = FedOnce(head=LinearModel())
TREES = Boosted(trees=60, depth=3, lr=0.1)
DAYS = Task(kind="survival", label="days", event="died", scale=LabelScale(40.0, 10.0))


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedOnce(), FedOnce(head=TREES), Centralised(), Solo(), Linear()])
def test_keeps_the_contract_for_times(method):
    check_method(method, SMALL)


def test_guests_numbers_help_to_order_risks():
    found = {type(one).__name__: fit(one, SMALL).result.score.value for one in (QUICK, Solo(model=LinearModel()))}
    assert found["FedOnce"] > found["Solo"] + 0.02


@pytest.mark.parametrize("model", [TREES, LinearModel(), Best(seconds=5.0)])
def test_risks_say_how_many_events_to_expect(model):
    drawn = drawn_times(rows=600)
    weights = model.fit(DAYS, drawn.raw[:400].astype(np.float32), drawn.y[:400], np.random.default_rng(0))
    risk = model.predict(DAYS, weights, drawn.raw[400:].astype(np.float32))
    assert pairs_of(drawn.y[400:], risk).share > 0.7
    # Of those who were watched to the horizon, or had the event, about as many had it as were expected to.
    known = (np.abs(drawn.y[400:]) > 40) | (drawn.y[400:] > 0)
    came = (np.abs(drawn.y[400:]) <= 40)[known].mean()
    assert DAYS.decide(risk)[known].mean() == pytest.approx(came, abs=0.1)


def test_trees_take_a_censored_time_of_zero_as_censored():
    x = np.linspace(0, 1, 60)[:, None].astype(np.float32)
    # The rows of low x were lost to view at once, and say nothing; taken as events at 0 they would be the riskiest.
    y = signed_times(np.where(x[:, 0] < 0.3, 0.0, 100 - 80 * x[:, 0]), x[:, 0] >= 0.3)
    risk = TREES.predict(DAYS, TREES.fit(DAYS, x, y, np.random.default_rng(0)), x)
    assert risk[:10].max() < risk[-10:].min()


@pytest.mark.parametrize("head", [Joint(), Forest(), Best(kinds=("net",))])
def test_models_that_cannot_learn_times_say_so(head):
    with pytest.raises(PlanError, match=r"do not learn|times cut short have not"):
        fit(FedOnce(head=head), SMALL)


def test_shapley_values_are_shares_of_concordance():
    found = importance(train(QUICK, SMALL), rows=200)
    assert sum(found.shapley.values()) > 0.1


def tables():
    from pandas import DataFrame

    drawn = drawn_times(rows=200)
    ids = [f"p{row}" for row in range(200)]
    clinic = DataFrame({"id": ids, "days": np.abs(drawn.y), "died": (drawn.y > 0).astype(int), "age": drawn.raw[:, 0]})
    return {"clinic": clinic, "lab": DataFrame({"id": ids, "marker": drawn.raw[:, -1]})}


def test_a_federation_is_read_and_predicted():
    model = fit(QUICK, federation(tables(), id="id", label="days", event="died"))
    assert model.result.metrics.keys() == {"concordance", "brier"}
    said = model.predict({name: table.head(7) for name, table in tables().items()})
    assert said.to_frame()["days"].between(0, 1).all()


def test_another_party_must_not_have_the_event():
    found = tables()
    found["lab"]["died"] = found["clinic"]["died"]
    with pytest.raises(DataError, match="the event column 'died' is at clinic, which has the times, and at lab"):
        federation(found, id="id", label="days", event="died")
