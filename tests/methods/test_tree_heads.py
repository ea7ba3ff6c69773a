import numpy as np
import pytest

from laconic import DataPlan, Plan, check_method, read_plan, simulate, train, write_plan
from laconic.errors import PlanError
from laconic.learn import Boosted, FixMatchTab, Forest, Sgd
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.privacy import Budget, DpSgd
from laconic.testing import small_federation

pytest.importorskip("xgboost")
FEW = Boosted(trees=10, depth=3)
LOCAL = FixMatchTab(steps=20, lr=1e-2)


@pytest.fixture(scope="module")
def cancer():
    return small_federation("binary")


@pytest.mark.slow
def test_fedonce_with_trees_keeps_the_contract():
    check_method(FedOnce(head=FEW))


@pytest.mark.slow
@pytest.mark.parametrize("method", [OneShot, FewShot])
def test_guided_methods_with_trees_keep_the_contract(method, cancer):
    check_method(method(local=LOCAL, trainer=Sgd(epochs=5), head=FEW), cancer)


@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_a_guided_method_predicts_every_kind_of_label_by_trees(kind):
    federation = small_federation(kind)
    result = simulate(OneShot(local=LOCAL, trainer=Sgd(epochs=1), head=FEW), federation)
    assert result.metrics["accuracy"] > 0.5 if kind == "multiclass" else result.metrics["r2"] > 0.1


def test_a_forest_serves_too(cancer):
    assert simulate(FedOnce(head=Forest(trees=20)), cancer).score.value > 0.95


def test_trees_see_own_columns_and_received_numbers_and_no_validation_rows(cancer):
    trained = train(FedOnce(head=FEW), cancer)
    received = trained.hub.memory["received"]
    assert all(set(answer) == {"train"} for answer in received.values())
    own = trained.hub.data.part("train")[0]
    x = np.concatenate([own, *(answer["train"] for answer in received.values())], axis=1)
    again = FEW.fit(trained.result.task, x, cancer.labels("train"), np.random.default_rng(0))
    assert all(np.array_equal(again[name], trained.hub.memory["model"][name]) for name in again)


def test_a_tree_head_saves_the_bytes_of_validation_rows(cancer):
    trees, net = (simulate(FedOnce(head=head, trainer=Sgd(epochs=1)), cancer) for head in (FEW, None))
    assert trees.fit.bytes < net.fit.bytes


def test_trees_are_refused_where_gradients_are_needed():
    for wrong in ({"more": Sgd()}, {"trainer": DpSgd(sigma=1.0)}):
        with pytest.raises(ValueError, match="trees have no gradients"):
            FedOnce(head=FEW, **wrong)
    with pytest.raises(ValueError, match="trees have no gradients"):
        OneShot(head=FEW, more=Sgd())


def test_trees_are_refused_under_a_privacy_budget():
    with pytest.raises(PlanError, match="no trees, no Best"):
        FedOnce(head=FEW).within(Budget(epsilon=1.0, delta=1e-5), 1000, "bank", ("shop",))


def test_a_plan_can_ask_for_trees():
    plan = Plan(method=FedOnce(head=Boosted(trees=7)), data=DataPlan(name="breast_cancer"))
    assert read_plan(write_plan(plan)) == plan
