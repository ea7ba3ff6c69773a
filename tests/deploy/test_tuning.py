"""Every arm is tuned within one allowance, on validation rows alone."""

import json
import re
from itertools import count

import msgspec
import pytest

from laconic import (
    Analytic,
    DataPlan,
    FedAvg,
    FedBCD,
    FedOnce,
    Linear,
    Pfnm,
    Plan,
    Rap,
    Solo,
    SplitNN,
    VerticalXgboost,
    VimAdmm,
)
from laconic.deploy.execute import execute, parties_of
from laconic.deploy.tuning import (
    MOST_EPOCHS,
    PATIENCE,
    Allowance,
    candidates,
    compare_plans,
    read_results,
    space_of,
    trial_federation,
    tune,
    with_stopping_rule,
)
from laconic.errors import PlanError
from laconic.learn import NetModel, RandomFourier, Sgd
from laconic.plan import Budget
from laconic.privacy import DpSgd

DATA = DataPlan(name="breast_cancer")
QUICK = Sgd(epochs=3)
FEW = Allowance(trials=2, seconds=60.0)


@pytest.fixture
def files(tmp_path):
    rows = [(f"c{row}", row % 7, "yes" if (row * 5) % 3 else "no") for row in range(80)]
    bank, shop = tmp_path / "bank.csv", tmp_path / "shop.csv"
    bank.write_text("id,age,left\n" + "".join(f"{one},{age},{left}\n" for one, age, left in rows))
    shop.write_text("id,spent\n" + "".join(f"{one},{age * 3 % 5}\n" for one, age, _ in rows))
    return DataPlan(files=(str(bank), str(shop)), id="id", label="left")


@pytest.fixture
def branches(tmp_path):
    rows = [f"{row % 7},{row % 5},{'yes' if (row * 5) % 3 else 'no'}\n" for row in range(80)]
    for name, some in (("north", rows[:40]), ("south", rows[40:])):
        (tmp_path / f"{name}.csv").write_text("age,spent,left\n" + "".join(some))
    return DataPlan(files=(str(tmp_path / "north.csv"), str(tmp_path / "south.csv")), label="left")


def test_all_arms_of_a_table_have_the_same_allowance_and_say_what_they_chose(tmp_path):
    plans = [Plan(method=method(trainer=QUICK), data=DATA) for method in (Solo, FedOnce)]
    results = compare_plans(plans, (0, 1), tmp_path / "runs.jsonl", tune=FEW)
    assert len(results) == 4
    assert {one.tuning.allowed for one in results} == {(2, 60.0)}
    assert all(one.tuning.trials <= 2 and one.tuning.given["trainer"]["epochs"] == 3 for one in results)
    assert results[0].data["rows"] == results[1].data["rows"]


@pytest.mark.parametrize("method", [Solo(), Rap(), FedAvg()])
def test_trials_cannot_reach_any_test_row(method, files, branches):
    for data in (DATA, branches if method.kind == "horizontal" else files):
        plan = Plan(method=method, data=data)
        whole = execute_rows(plan)
        trial = trial_federation(plan)
        held = {key for table in whole.tables.values() for key in table.keys[table.cuts.get("test", [])].tolist()}
        assert held
        for table in trial.tables.values():
            assert "test" not in table.cuts
            assert not held & set(table.keys.tolist())
        assert len(trial.tables[trial.hub].cut("valid"))


def execute_rows(plan):
    """The parties as the run itself has them once rows are matched."""
    from laconic.deploy.execute import align_of, train

    federation = parties_of(plan)
    if federation.kind == "horizontal":
        return federation
    return train(Solo(trainer=Sgd(epochs=1)), federation, seed=plan.seed, align=align_of(plan)).federation


def test_a_server_as_hub_scores_on_the_same_rows_as_a_label_holder(files):
    plans = [Plan(method=method, data=files) for method in (Solo(trainer=QUICK), Rap())]
    assert len({execute(plan).data["fingerprint"] for plan in plans}) == 1


def test_every_net_that_looks_at_validation_rows_stops_by_the_same_rule():
    patient = Sgd(epochs=100, patience=5)
    for method in (Solo(trainer=patient), SplitNN(), FedOnce(trainer=patient), Rap(learner=NetModel())):
        settings = msgspec.json.encode(with_stopping_rule(Plan(method=method, data=DATA)).method)
        assert f'"epochs":{MOST_EPOCHS}'.encode() in settings
        assert f'"patience":{PATIENCE}'.encode() in settings
    assert with_stopping_rule(Plan(method=FedAvg(), data=DATA)).method == FedAvg()


def test_settings_are_tried_by_their_names_wherever_a_method_has_them():
    space = space_of(Plan(method=VerticalXgboost(), data=DATA))
    assert {"trees.trees", "trees.depth", "trees.lr"} <= set(space)
    assert space["trees.trees"] == (50, 150)
    space = space_of(with_stopping_rule(Plan(method=SplitNN(), data=DATA)))
    assert "trainer.epochs" not in space
    assert {"trainer.lr", "width", "net"} <= set(space)
    assert "net" not in space_of(Plan(method=SplitNN(), data=DATA), images=True)
    assert space_of(Plan(method=FedOnce(), data=DATA)) == {"encoder.dim": (None, 8, 16)}


@pytest.mark.parametrize("method", [SplitNN, FedBCD, VimAdmm])
def test_methods_of_many_exchanges_have_as_many_settings_to_try_as_an_allowance_has_trials(method):
    space = space_of(with_stopping_rule(Plan(method=method(), data=DATA)))
    assert len(candidates(space, Allowance().trials, seed=0)) == Allowance().trials
    assert any(key.endswith("lr") for key in space)


def test_methods_name_what_else_is_to_be_tried_with_the_settings_given_first():
    assert space_of(Plan(method=Pfnm(), data=DATA))["matching.gamma"] == (1.0, 1e-3, 50.0)
    assert [one and one["type"] for one in space_of(Plan(method=Analytic(), data=DATA))["features"]] == [
        *(None, "RandomRelu", "RandomFourier", "RandomFourier", "Columns"),
    ]
    assert "features" not in space_of(Plan(method=Analytic(features=RandomFourier()), data=DATA))


def test_the_order_of_trials_follows_from_the_seed_and_begins_with_what_was_given():
    space = {"a": (1, 2, 3), "b": (4, 5)}
    first, *others = candidates(space, 6, seed=0)
    assert first == {}
    assert len({json.dumps(one) for one in (first, *others)}) == 6
    assert candidates(space, 6, seed=0) == [first, *others]
    assert candidates(space, 4, seed=1) != [first, *others][:4]
    assert candidates({}, 5, seed=0) == [{}]


def test_an_arm_whose_seconds_end_says_so_and_still_finishes_its_first_trial(tmp_path):
    plan = Plan(method=Solo(trainer=QUICK), data=DATA)
    _, found = tune(plan, Allowance(trials=6, seconds=0.0001), tmp_path / "trials.jsonl")
    assert (found.trials, found.capped) == (1, "its seconds ended")


def test_a_trial_that_is_under_way_when_the_seconds_end_does_not_count(tmp_path, monkeypatch):
    ticks = count()
    monkeypatch.setattr("laconic.deploy.tuning.process_time", lambda: float(next(ticks)))
    plan, path = Plan(method=Solo(trainer=Sgd(epochs=20)), data=DATA), tmp_path / "trials.jsonl"
    _, found = tune(plan, Allowance(trials=4, seconds=30.0), path)
    assert (found.trials, found.capped) == (1, "its seconds ended")
    assert 20 <= found.seconds < 30
    assert len(path.read_text().splitlines()) == 1


def test_settings_that_cannot_be_used_count_as_a_trial_without_a_score(tmp_path, monkeypatch):
    monkeypatch.setattr(Linear, "tuning", lambda _: {"penalty": (1.0, 1e300)}, raising=False)
    monkeypatch.setattr("laconic.deploy.tuning.COMMON", {})

    def fit(self, hub, peers):
        if self.penalty > 1e200:
            raise ValueError("too much")
        yield from usual(self, hub, peers)

    usual = Linear.fit
    monkeypatch.setattr(Linear, "fit", fit)
    path = tmp_path / "trials.jsonl"
    _, found = tune(Plan(method=Linear(), data=DATA), FEW, path)
    assert (found.trials, found.of, found.chosen) == (2, 2, {})
    assert json.loads(path.read_text().splitlines()[1])["problem"] == "too much"


def test_an_arm_that_does_best_with_most_epochs_is_capped(tmp_path):
    plan = Plan(method=Solo(trainer=Sgd(epochs=2, lr=1e-4)), data=DataPlan(name="diabetes"))
    _, found = tune(plan, Allowance(trials=30, seconds=60.0), tmp_path / "trials.jsonl")
    assert found.chosen["trainer.epochs"] == 6
    assert found.capped == "best with the most tried of trainer.epochs"


def test_trials_that_are_kept_are_not_run_again(tmp_path):
    plan, path = Plan(method=Solo(trainer=QUICK), data=DATA), tmp_path / "runs.jsonl"
    before = tune(plan, FEW, path, {"laconic": "x"})
    lines = path.read_text()
    assert tune(plan, FEW, path, {"laconic": "x"}) == before
    assert path.read_text() == lines
    results = compare_plans([plan], (0,), path, tune=FEW)
    assert compare_plans([plan], (0,), path, tune=FEW) == results == read_results(path)


def test_trials_of_other_code_are_run_again(tmp_path):
    plan, path = Plan(method=Linear(), data=DATA), tmp_path / "trials.jsonl"
    tune(plan, FEW, path)
    kept = path.read_text()
    path.write_text(re.sub(r'"code": "\w+"', '"code": "0123456789abcdef"', kept))
    tune(plan, FEW, path)
    assert len(path.read_text().splitlines()) == 2 * len(kept.splitlines())


def test_the_settings_chosen_are_those_of_the_run(tmp_path):
    plan = Plan(method=Solo(trainer=Sgd(epochs=1, lr=1e-4)), data=DATA)
    (result,) = compare_plans([plan], (0,), tmp_path / "runs.jsonl", tune=Allowance(trials=4, seconds=60.0))
    assert result.tuning.chosen
    assert result.tuning.given["trainer"]["epochs"] == 1
    flat = result.method["trainer"]
    for key, value in result.tuning.chosen.items():
        if key.startswith("trainer."):
            assert flat[key.removeprefix("trainer.")] == value


def test_parties_with_other_rows_are_tuned_on_rows_that_the_server_keeps(tmp_path, branches):
    for at, data in enumerate((DATA, branches)):
        plan = Plan(method=FedAvg(trainer=QUICK), data=data)
        (result,) = compare_plans([plan], (0,), tmp_path / f"runs{at}.jsonl", tune=FEW)
        assert result.tuning.trials == 2


def test_noise_that_has_a_price_is_not_tuned(tmp_path):
    promised = Plan(method=FedOnce(), data=DATA, budget=Budget(epsilon=1.0))
    with pytest.raises(PlanError, match="leave out the budget, or the tuning"):
        compare_plans([promised], (0,), tmp_path / "runs.jsonl", tune=FEW)
    noised = Plan(method=FedOnce(trainer=DpSgd(sigma=1.0, clip=1.0, epochs=1)), data=DATA)
    with pytest.raises(PlanError, match="one more release"):
        tune(noised, FEW, tmp_path / "trials.jsonl")


def test_an_allowance_of_nothing_is_refused():
    with pytest.raises(ValueError, match="trials must be 1 or more"):
        Allowance(trials=0)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        Allowance(seconds=0.0)
