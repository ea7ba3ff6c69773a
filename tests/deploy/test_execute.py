import pytest

from laconic import Budget, Centralised, DataPlan, FedAvg, FedKt, FedOnce, Plan, Solo, SplitNN
from laconic.deploy.execute import execute, federation_of
from laconic.errors import PlanError
from laconic.learn import Logistic, Sgd
from laconic.plan import open_releases, refuse_unkept
from laconic.privacy import L2, DpSgd, GaussianVotes
from tests.data.hospitals import hospitals, open_rows, write

QUICK = Sgd(epochs=2)
BREAST = DataPlan(name="breast_cancer")


def test_a_plan_gives_the_same_numbers_twice():
    plan = Plan(method=FedOnce(trainer=QUICK), data=BREAST, seed=3)
    first, second = execute(plan), execute(plan)
    assert first.predictions == second.predictions
    assert first.fit.bytes == second.fit.bytes
    assert first.seed == 3


def test_a_result_says_what_data_was_asked_for():
    result = execute(Plan(method=Solo(trainer=QUICK), data=BREAST))
    assert result.data["plan"]["parties"] == 3
    assert result.data["name"] == "breast_cancer"


def test_the_hub_can_be_named_or_numbered():
    by_name = federation_of(DataPlan(name="breast_cancer", hub="insurer"), seed=0)
    by_place = federation_of(DataPlan(name="breast_cancer", hub=2), seed=0)
    assert by_name.hub == by_place.hub == "insurer"


def test_an_unknown_hub_is_refused_with_the_parties():
    with pytest.raises(PlanError, match="did you mean shop"):
        federation_of(DataPlan(name="breast_cancer", hub="shpo"), seed=0)


def test_the_byte_budget_ends_fitting_early():
    plan = Plan(method=SplitNN(trainer=Sgd(epochs=5)), data=BREAST, budget=Budget(max_bytes=300_000))
    result = execute(plan)
    assert result.stopped == "byte budget"
    assert result.fit.bytes <= 300_000


@pytest.mark.parametrize("method", [SplitNN(), Centralised()])
def test_an_epsilon_that_open_releases_would_break_is_refused_before_anything_runs(method):
    plan = Plan(method=method, data=DataPlan(name="not even loaded"), budget=Budget(epsilon=2))
    with pytest.raises(PlanError, match=r"epsilon = 2 cannot be promised.*open releases"):
        execute(plan)


@pytest.mark.parametrize(("id_name", "people"), [(None, "disjoint"), ("patient", "shared")])
def test_someone_at_several_parties_pays_at_each_of_them(tmp_path, id_name, people):
    frames = hospitals()
    frames["south"]["patient"] = frames["north"]["patient"].to_numpy()
    if id_name is None:
        frames = {name: frame.drop(columns="patient") for name, frame in frames.items()}
    open_rows().to_csv(tmp_path / "open.csv", index=False)
    data = DataPlan(
        files=tuple(write(tmp_path, frames)), label="diagnosis", id=id_name, public=str(tmp_path / "open.csv")
    )
    method = FedKt(model=Logistic(), level=L2(noise=GaussianVotes(sigma=40.0)), queries=0.2, partitions=1)
    assert execute(Plan(method=method, data=data)).privacy.people == people


def test_a_budget_that_people_at_several_parties_would_break_is_refused(tmp_path):
    frames = hospitals()
    frames["south"]["patient"] = frames["north"]["patient"].to_numpy()
    data = DataPlan(files=tuple(write(tmp_path, frames)), label="diagnosis", id="patient")
    method = FedAvg(trainer=DpSgd(epochs=1))
    with pytest.raises(PlanError, match=r"epsilon = 2 cannot be kept: by their ids, \d+ people are at several parties"):
        execute(Plan(method=method, data=data, budget=Budget(epsilon=2)))


def test_an_epsilon_is_kept_by_a_method_that_sends_nothing():
    assert open_releases(Solo()) == {}
    refuse_unkept(Plan(method=Solo(), data=BREAST, budget=Budget(epsilon=2)))
