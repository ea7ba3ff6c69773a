"""Columns agreed on under masks and noise between hospitals: online and by envelope as in one process, and paid for."""

import msgspec
import pytest

from laconic import Budget, FedAvg, execute
from laconic.align import SameColumns
from laconic.learn import Sgd
from laconic.methods import SecureSums
from laconic.privacy import ColumnBounds, DpSgd, GaussianColumns
from tests.data.hospitals import NAMES
from tests.deploy.test_budgets_apart import allow
from tests.deploy.test_envelopes_apart import Post, in_process
from tests.deploy.test_secure_sums_apart import figures
from tests.deploy.test_sites_apart import furnish, host, plan_of

BOUNDS = ColumnBounds(columns={f"size{at}": (0.0, high) for at, high in enumerate((30, 40, 200, 2500, 1, 1))})
MASKED = SameColumns(sums=SecureSums(), bounds=BOUNDS)
NOISY = SameColumns(noise=GaussianColumns(seeded=True), bounds=BOUNDS)
QUICK = FedAvg(trainer=Sgd(epochs=1, batch=32))
PRIVATE = FedAvg(trainer=DpSgd(epochs=1, batch=32, seeded=True))


@pytest.mark.slow
def test_columns_are_agreed_on_under_masks_online_by_envelope_and_in_one_process(tmp_path):
    sites = furnish(tmp_path / "sites")
    hosted = host(sites, plan_of(QUICK, agree=MASKED))
    assert figures(hosted) == figures(execute(plan_of(QUICK, sites, agree=MASKED)))
    given = [one for one in hosted.releases if one.party in NAMES and one.step == "give_sums"]
    assert {one.label for one in given} == {"cryptographic"}
    post = Post(tmp_path / "post")
    plan = post.plan(QUICK, agree=MASKED)
    assert figures(post.run()[0]) == figures(in_process(post, plan))


@pytest.mark.slow
def test_noise_on_columns_is_within_the_budget_and_in_every_account(tmp_path):
    pytest.importorskip("dp_accounting")
    sites = furnish(tmp_path)
    words = 'seeded = true\nmax_epsilon = 8.0\nopen = ["show_names", "show_fingerprint", "take_model"]\n'
    allow(sites, words)
    plan = plan_of(PRIVATE, agree=NOISY)
    plan = msgspec.structs.replace(plan, budget=Budget(epsilon=8.0, least_rows=60))
    hosted = host(sites, plan)
    noises = {one.step: one.noise for one in hosted.releases if one.party == "north" and one.noise is not None}
    assert {"give_sums", "improve"} <= noises.keys()
    assert 7.0 < hosted.privacy.epsilon <= 8.0


@pytest.mark.slow
def test_without_noise_on_columns_a_party_that_wants_noise_refuses_to_say_them(tmp_path):
    sites = furnish(tmp_path)
    allow(sites, 'seeded = true\nmax_epsilon = 8.0\nopen = ["show_names", "show_fingerprint", "take_model"]\n')
    plan = msgspec.structs.replace(plan_of(PRIVATE), budget=Budget(epsilon=8.0, least_rows=60))
    with pytest.raises(Exception, match="does not allow the answer to `show_columns`"):
        host(sites, plan)
