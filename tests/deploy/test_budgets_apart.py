"""`budget.epsilon` between hospitals with other patients: kept by every party, from the plan alone, on every way."""

import msgspec
import pytest

from laconic import Budget, DataPlan, FedAvg, FedKt, FedProx, Plan, Scaffold, execute
from laconic.deploy.session import online_session
from laconic.errors import PlanError, Refused
from laconic.learn import Logistic
from laconic.privacy import L1, L2, DpSgd, GaussianUpdates
from tests.data.hospitals import NAMES
from tests.deploy.test_envelopes_apart import Post, in_process
from tests.deploy.test_sites_apart import ALLOWED, around, equal, furnish, host, plan_of

pytest.importorskip("dp_accounting")

STEPS = ["show_columns", "show_classes", "show_fingerprint", "take_model"]
SEEDED = DpSgd(epochs=2, batch=32, seeded=True)
WAYS = {
    "rows": FedAvg(trainer=SEEDED, exchanges=2),
    "rows, prox": FedProx(trainer=SEEDED),
    "rows, scaffold": Scaffold(trainer=SEEDED),
    "parties": FedAvg(updates=GaussianUpdates(clip=0.5, seeded=True)),
    "L2": FedKt(model=Logistic(), level=L2(secure=False), partitions=1, teachers=5),
    "L1": FedKt(model=Logistic(), level=L1(secure=False), partitions=1, teachers=2),
}
SOME = [
    pytest.param(one, id=name, marks=() if name in ("rows", "L2") else pytest.mark.slow) for name, one in WAYS.items()
]


def within(plan, epsilon=8.0, **budget):
    return msgspec.structs.replace(plan, budget=Budget(**{"epsilon": epsilon, "least_rows": 60} | budget))


def allow(sites, words):
    for name in NAMES:
        path = sites[name].folder / "party.toml"
        path.write_text(path.read_text() + words)


@pytest.mark.parametrize("method", SOME)
def test_a_budget_is_kept_between_sites_as_in_one_process(tmp_path, method):
    sites = furnish(tmp_path)
    hosted = host(sites, within(plan_of(method)))
    assert equal(hosted, execute(within(plan_of(method, sites))))
    # Nobody knows who is at several hospitals, so losses at all of them add up to no more than the budget.
    assert hosted.privacy.people == "shared"
    assert hosted.privacy.epsilon <= 8.0


@pytest.mark.parametrize("method", SOME)
def test_a_budget_is_kept_by_envelope_as_in_one_process(tmp_path, method):
    post = Post(tmp_path)
    plan = within(post.plan(method))
    post.write(plan)
    assert equal(post.run()[0], in_process(post, plan))


@pytest.mark.slow
def test_people_who_are_at_one_party_each_need_less_noise():
    for method in (WAYS["rows"], WAYS["L2"]):
        shared, apart = (
            online_session(within(plan_of(method, **people)), around()).method for people in ({}, {"people": "apart"})
        )
        sigmas = [one.trainer.sigma if isinstance(one, FedAvg) else one.level.noise.sigma for one in (shared, apart)]
        labels = [getattr(one, "labels", 1) for one in (shared, apart)]
        assert sigmas[0] / labels[0] ** 0.5 > 1.5 * sigmas[1] / labels[1] ** 0.5


def test_noise_is_secure_unless_told_otherwise_and_a_party_s_account_holds_it_to_its_limit(tmp_path):
    sites = furnish(tmp_path)
    allow(sites, f"max_epsilon = 4.0\nopen = {STEPS!r}\n")
    plan = within(plan_of(FedKt(model=Logistic()), people="apart"), epsilon=3.0)
    first = host(sites, plan)
    assert first.privacy.secure
    assert 2.5 < first.privacy.epsilon <= 3.0
    assert all(one.noise.secure for one in first.releases if one.noise is not None)
    with pytest.raises(Refused, match="max_epsilon = 4"):
        host(sites, msgspec.structs.replace(plan, seed=1), run="two")
    with pytest.raises(Refused, match="its noise comes from the run's seed, which others know"):
        host(furnish_with(tmp_path / "more", f"max_epsilon = 9.0\nopen = {STEPS!r}\n"), within(plan_of(WAYS["L2"])))


def furnish_with(folder, words):
    sites = furnish(folder)
    allow(sites, words)
    return sites


@pytest.mark.slow
def test_a_budget_without_least_rows_and_a_party_with_fewer_are_refused_by_name(tmp_path):
    with pytest.raises(PlanError, match=r"say budget\.least_rows"):
        online_session(within(plan_of(WAYS["rows"]), least_rows=None), around())
    sites = furnish(tmp_path)
    with pytest.raises(
        Refused, match=r"(north|south|west) has fewer training rows than budget\.least_rows = 90"
    ) as problem:
        host(sites, within(plan_of(WAYS["rows"]), least_rows=90))
    assert "; it has" not in str(problem.value)
    with pytest.raises(Refused, match=r"has fewer training rows.*; it has"):
        execute(within(plan_of(WAYS["rows"], sites), least_rows=90))


def test_who_is_at_several_parties_is_said_for_party_files_only():
    with pytest.raises(ValueError, match=r"data\.people is for party files"):
        Plan(method=FedAvg(), data=DataPlan(files=("a.csv", "b.csv"), label="y", people="apart"))
    assert "FedAvg" in ALLOWED
