"""A party is started again in mid-run: the run ends as if nothing had been, or with a clear error in time."""

import time
from functools import wraps

import pytest

from benchmarks.crashes import same
from laconic import DataPlan, FedOnce, Plan, SplitNN
from laconic.deploy.coordinator import host_run
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.statements import check_result
from laconic.deploy.transports.rpc_client import ConnectionBroken
from laconic.errors import LaconicError, PartyAbsent
from laconic.learn import Pca, Sgd
from tests.deploy.sites import agree, consortium, make_sites

BREAST = DataPlan(name="breast_cancer", parties=4)
SPLIT = Plan(method=SplitNN(trainer=Sgd(epochs=3, batch=100, patience=None)), data=BREAST)
ONCE = Plan(method=FedOnce(encoder=Pca(dim=2)), data=BREAST)


@pytest.fixture
def sites(tmp_path):
    return make_sites(tmp_path, consortium())


class Engine:
    """Lines to parties, one of which is started again before certain calls, or cannot be reached from one on."""

    def __init__(self, sites, restarts=(), lost_at=None, back_at=None, wait=15.0):
        self.sites, self.restarts, self.lost_at, self.back_at, self.wait = sites, set(restarts), lost_at, back_at, wait
        self.calls = self.restarted = 0
        self.parties = {name: self.start(name) for name in sites if name != "hub"}

    def start(self, name):
        return OnlineResponder(self.sites[name], self.wait)

    def __call__(self, site, frame, seconds):
        if site == "site2":
            self.calls += 1
            if self.calls in self.restarts:
                self.restarted += 1
                self.parties[site] = self.start(site)
            if self.lost_at is not None and self.lost_at <= self.calls < (self.back_at or 10**9):
                raise ConnectionBroken(f"{site} is gone")
        return self.parties[site].hear(frame)


def host(sites, plan, engine, run="one", deadline=None):
    agree(sites, sites["hub"], plan, run)
    return host_run(sites["hub"], run, engine, deadline=deadline)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    sites = make_sites(tmp_path_factory.mktemp("quiet"), consortium())
    return {"split": host(sites, SPLIT, Engine(sites), "split"), "once": host(sites, ONCE, Engine(sites), "once")}


@pytest.mark.parametrize("every", [8, 9])
def test_a_party_that_is_started_again_and_again_changes_nothing(sites, undisturbed, every):
    """Before its first question, between questions, in place of an answer, and before it is asked for its ledger."""
    engine = Engine(sites, restarts=range(3, 300, every))
    found = host(sites, SPLIT, engine)
    assert engine.restarted > 2
    assert same(found, undisturbed["split"])
    assert {one.state for one in check_result(found, sites["hub"].ring)} == {"confirmed"}


@pytest.mark.parametrize("at", range(2, 7))
def test_a_restart_at_any_call_of_a_short_run_changes_nothing(sites, undisturbed, at):
    engine = Engine(sites, restarts=[at])
    assert same(host(sites, ONCE, engine), undisturbed["once"])
    assert engine.restarted == 1


def test_a_party_started_again_while_it_works_does_the_work_again_and_spends_it_once(sites, undisturbed, monkeypatch):
    """The first process dies with the answer half made: nothing of it is on the disk."""
    learn, died = FedOnce.learn_and_send, []

    @wraps(learn)
    def dies_once(self, party):
        if not died and party.name == dying:
            died.append(party.name)
            raise SystemExit("killed")
        return learn(self, party)

    monkeypatch.setattr(FedOnce, "learn_and_send", dies_once)
    engine = Engine(sites)
    dying = undisturbed["once"].parties[2]
    with pytest.raises(LaconicError, match=f"{dying} could not answer"):
        host(sites, ONCE, engine)
    engine.parties["site2"] = engine.start("site2")
    assert same(host(sites, ONCE, engine), undisturbed["once"])
    assert died == [dying]


def test_a_party_that_does_not_come_back_is_named_within_the_deadline(sites):
    before = time.monotonic()
    with pytest.raises(PartyAbsent, match=r"learn|exchange"):
        host(sites, SPLIT, Engine(sites, lost_at=8), deadline=5.0)
    assert time.monotonic() - before < 30


def test_a_run_that_ended_without_a_party_goes_on_once_it_is_back(sites, undisturbed):
    engine = Engine(sites, lost_at=8)
    with pytest.raises(PartyAbsent):
        host(sites, SPLIT, engine)
    engine.lost_at = None
    engine.parties["site2"] = engine.start("site2")
    assert same(host(sites, SPLIT, engine), undisturbed["split"])


def test_a_method_that_can_do_without_goes_on_and_the_result_names_who_was_lost(sites):
    found = host(sites, ONCE, Engine(sites, lost_at=5))
    assert [one.party for one in found.absences] == [found.parties[2]]


def test_a_party_that_never_remembers_is_a_clear_error_and_no_loop(sites):
    class Forgetful(Engine):
        def __call__(self, site, frame, seconds):
            if site == "site2":
                self.parties[site].runs.clear()
            return super().__call__(site, frame, seconds)

    before = time.monotonic()
    with pytest.raises(LaconicError, match="does not remember that it was greeted"):
        host(sites, ONCE, Forgetful(sites))
    assert time.monotonic() - before < 20
