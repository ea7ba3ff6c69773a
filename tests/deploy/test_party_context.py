"""The party's own rules hold for envelopes as they do online."""

import pytest

from laconic.deploy.coordinator import host
from laconic.deploy.party_account import EpsilonAccount
from laconic.deploy.sealed_answers import seal_plan
from laconic.errors import Refused
from tests.deploy.conftest import World
from tests.deploy.test_training import FEDONCE

NOISY = """\
[method]
type = "FedOnce"
[method.encoder]
type = "PublicProjection"
dim = 2
[method.noise]
type = "ClippedGaussian"
sigma = 2.0
[method.trainer]
type = "Sgd"
epochs = 2
"""


def world_with(tmp_path, allow, method=FEDONCE):
    world = World(tmp_path, parties=("bank", "shop"), allow=allow)
    world.plan(method)
    return world


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        ("methods = []", "does not allow AgreedIds"),
        ('methods = ["AgreedIds"]', "does not allow FedOnce"),
        ('methods = ["AgreedIds", "FedOnce"]\nsteps = ["keep_agreed", "show_fingerprint"]', "step `learn_and_send`"),
        ('methods = ["AgreedIds", "FedOnce"]\nmax_rows = 50', "max_rows = 50"),
        ('methods = ["AgreedIds", "FedOnce"]\nmax_bytes = 300', "max_bytes = 300"),
        ('methods = ["AgreedIds", "FedOnce"]\nmin_noise = 1.0', "bears no noise"),
    ],
)
def test_what_a_party_does_not_allow_is_not_sealed(tmp_path, allow, words):
    world = world_with(tmp_path, allow)
    with pytest.raises(Refused, match=words):
        seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    assert list(world.inbox.iterdir()) == []


def test_a_trial_shows_what_would_leave_and_leaves_no_trace(tmp_path):
    world = world_with(tmp_path, 'methods = ["AgreedIds", "FedOnce"]')
    before = sorted(path.name for path in world.home("shop").iterdir())
    tried = seal_plan(world.context("shop"), None)
    assert sorted(path.name for path in world.home("shop").iterdir()) == before
    done = seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    assert tried.content == done.content
    assert tried.cover.steps == done.cover.steps


def test_epsilon_is_spent_once_over_all_runs_and_a_run_beyond_the_limit_is_refused(tmp_path):
    allow = """\
methods = ["AgreedIds", "FedOnce"]
open = ["keep_agreed", "show_fingerprint"]
max_epsilon = 5.0
seeded = true
"""
    world = world_with(tmp_path, allow, NOISY)
    tried = seal_plan(world.context("shop"), None)
    assert not list(world.home("shop").glob("shop.account*"))
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    spending = EpsilonAccount(world.home("shop") / "shop.account" / "spent")
    paid = spending.epsilon(1e-5)
    assert 0 < paid <= 5.0
    assert tried.cover.epsilon.startswith(f"{paid:.4g} at delta 1e-05")
    seal_plan(world.context("shop"), world.root / "again.envelope")
    assert EpsilonAccount(world.home("shop") / "shop.account" / "spent").epsilon(1e-5) == paid
    host(world.context("bank"), world.inbox)
    text = (world.home("shop") / "plan.toml").read_text()
    for seed in range(4, 20):
        (world.home("shop") / "plan.toml").write_text(text.replace("seed = 3", f"seed = {seed}"))
        try:
            seal_plan(world.context("shop"), world.root / f"{seed}.envelope")
        except Refused as problem:
            assert "max_epsilon = 5" in str(problem)
            break
    else:
        pytest.fail("sixteen more runs passed the limit")
    assert paid < EpsilonAccount(world.home("shop") / "shop.account" / "spent").epsilon(1e-5) <= 5.0


def test_a_budget_by_mail_is_kept_and_stands_on_the_cover(tmp_path):
    allow = """\
methods = ["AgreedIds", "FedOnce"]
open = ["keep_agreed", "show_fingerprint", "learn_and_send", "represent"]
max_epsilon = 4.0
"""
    world = World(tmp_path, parties=("bank", "shop"), allow=allow)
    world.plan('[budget]\nepsilon = 4.0\n[method]\ntype = "FedOnce"\n')
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    result = host(world.context("bank"), world.inbox)
    assert 0 < result.privacy.epsilon <= 4.0
