"""Secure sums between hospitals with other patients: online, by envelope, with late ones, as in one process."""

import time

import pytest

from laconic import Analytic, FedAvg, Scaffold, execute
from laconic.deploy.coordinator import host_run
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports.rpc_client import ConnectionBroken
from laconic.learn import Sgd
from laconic.methods import SecureSums
from tests.data.hospitals import NAMES
from tests.deploy.sites import agree
from tests.deploy.test_envelopes_apart import Post, in_process
from tests.deploy.test_sites_apart import PLAIN, QUICK, furnish, host, named, plan_of

MASKED = [
    FedAvg(trainer=QUICK, exchanges=2, sums=SecureSums()),
    pytest.param(Scaffold(trainer=PLAIN, sums=SecureSums()), marks=pytest.mark.slow),
    Analytic(sums=SecureSums()),
    pytest.param(FedAvg(trainer=QUICK, exchanges=2, sums=SecureSums(keys="once")), marks=pytest.mark.slow),
]


def figures(result):
    """What must be the same; masks, and so digests of what crosses, are new in every run."""
    phases = [(one.bytes_up, one.bytes_down, one.rounds) for one in (result.align, result.fit, result.final)]
    return result.metrics, result.predictions, phases


@pytest.mark.parametrize("method", MASKED, ids=named)
def test_sums_under_masks_are_the_same_online_by_envelope_and_in_one_process(tmp_path, method):
    sites = furnish(tmp_path / "sites")
    hosted = host(sites, plan_of(method))
    assert figures(hosted) == figures(execute(plan_of(method, sites)))
    asked = {Analytic: "give_sums", Scaffold: "correct"}.get(type(method), "improve")
    masked = [one for one in hosted.releases if one.party in NAMES and one.step == asked]
    assert {one.label for one in masked} == {"cryptographic"}
    assert all("hidden in a sum" in one.words for one in masked)
    post = Post(tmp_path / "post")
    plan = post.plan(method)
    # Public keys cross in the first envelopes; whoever is asked next has all of them.
    assert figures(post.run()[0]) == figures(in_process(post, plan))


def test_a_party_that_is_late_is_left_out_of_the_exchange_and_named_in_the_result(tmp_path):
    method = FedAvg(trainer=Sgd(epochs=1), exchanges=2, least=2, deadline=0.5)
    sites = furnish(tmp_path)
    agree(sites, sites["registry"], plan_of(method), "one")
    others, late = {name: OnlineResponder(sites[name]) for name in NAMES}, []

    def line(site, frame, seconds):
        # Questions of the method alone have the method's deadline; the others may take as long as they need.
        if site == "west" and seconds <= method.deadline and not late:
            late.append(site)
            time.sleep(seconds)
            raise ConnectionBroken(f"{site} did not answer within {seconds:.1f} s")
        return others[site].hear(frame)

    result = host_run(sites["registry"], "one", line)
    assert [(one.party, one.step, one.round) for one in result.absences] == [("west", "improve", 1)]
    # In the next exchange it is asked again, and in the end it gets the model.
    assert [one.times for one in result.wire if (one.party, one.step) == ("west", "improve")] == [2]
    assert set(result.by_party) == set(NAMES)
