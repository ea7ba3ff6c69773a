"""Attacks on a party's epsilon account: it must never show less than what left, nor let more leave than its limit."""

import multiprocessing
import time

import pytest

from laconic.core import Entry, Ledger, Noise
from laconic.deploy import party_account
from laconic.deploy.party_account import EpsilonAccount, PartyAccount
from laconic.deploy.policy import Gatekeeper, Policy
from laconic.errors import Refused
from tests.deploy.test_policy import ASK, PRIVATE, ask, party

DELTA = 1e-5
FORK = multiprocessing.get_context("fork")


def noise(sigma: float) -> Noise:
    return Noise(mechanism="gaussian", scale=sigma, sensitivity=1.0, unit="one row", caveat="")


def ledger(*sigmas: float) -> Ledger:
    found = Ledger()
    for number, sigma in enumerate(sigmas):
        found.write(
            Entry(phase="fit", step=f"s{number}", words="w", form="", times=1, bytes=8, noise=noise(sigma), digest="")
        )
    return found


def at_once(*works):
    """Run each in a process of its own, all at the same moment; what each returned, None if it was refused."""
    gate, said = FORK.Barrier(len(works)), FORK.SimpleQueue()

    def run(number, work):
        gate.wait()
        try:
            said.put((number, work()))
        except Refused:
            said.put((number, None))

    running = [FORK.Process(target=run, args=one) for one in enumerate(works)]
    for process in running:
        process.start()
    found = dict(said.get() for _ in works)
    for process in running:
        process.join()
    return [found[number] for number in range(len(works))]


@pytest.fixture
def slow_price(monkeypatch):
    """Time passes between the look at the account and the entry in it, as on a busy machine."""
    price = party_account.price

    def slow(*given):
        found = price(*given)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(party_account, "price", slow)


def test_three_processes_cannot_pass_the_limit_between_them(tmp_path, slow_price):
    (cost,) = {
        EpsilonAccount(tmp_path / "price").expected("one", PRIVATE.expected_noise(40, "bank", ("shop",))["shop"], DELTA)
    }
    allowed = Policy(methods=("FedOnce",), max_epsilon=1.1 * cost, open=("learn_and_send",))
    answers = at_once(*(lambda run=run: ask(tmp_path, allowed, PRIVATE, run=run) for run in ("one", "two", "three")))
    assert sum(answer is not None for answer in answers) == 1
    assert EpsilonAccount(tmp_path / "spent").epsilon(DELTA) <= 1.1 * cost


def test_three_processes_cannot_release_more_than_the_limit_between_them(tmp_path, slow_price):
    (cost,) = {EpsilonAccount(tmp_path / "price").with_run("one", ledger(2.0), DELTA)}
    allowed = Policy(methods=("FedOnce",), max_epsilon=1.1 * cost, seeded=True, open=("learn_and_send",))

    def release(run):
        one = party()
        one.ledger = ledger(2.0)
        Gatekeeper(allowed, PartyAccount(tmp_path), run, "bank", ("shop",)).release(PRIVATE, one, ASK, b"")
        return run

    left = at_once(*(lambda run=run: release(run) for run in ("one", "two", "three")))
    assert sum(run is not None for run in left) == 1
    assert EpsilonAccount(tmp_path / "spent").epsilon(DELTA) <= 1.1 * cost


def test_a_greeting_after_a_crash_does_not_erase_what_a_run_has_released(tmp_path):
    allowed = Policy(methods=("FedOnce",), max_epsilon=100.0, open=("learn_and_send",))
    gate = Gatekeeper(allowed, PartyAccount(tmp_path), "one", "bank", ("shop",))
    gate.begin(PRIVATE, party())
    spending = EpsilonAccount(tmp_path / "spent")
    gate.release(PRIVATE, _released(0.9), ASK, b"")
    spent = spending.epsilon(DELTA)
    Gatekeeper(allowed, PartyAccount(tmp_path), "one", "bank", ("shop",)).begin(PRIVATE, party())
    assert EpsilonAccount(tmp_path / "spent").epsilon(DELTA) == spent


def test_a_greeting_with_more_noise_does_not_lower_what_was_reserved(tmp_path):
    spending = EpsilonAccount(tmp_path / "spent")
    limit = Policy(methods=("FedOnce",), max_epsilon=100.0)
    gate = Gatekeeper(limit, PartyAccount(tmp_path), "one", "bank", ("shop",))
    gate.begin(PRIVATE, party())
    reserved = spending.epsilon(DELTA)
    gate.begin(type(PRIVATE)(encoder=type(PRIVATE.encoder)(dim=2, sigma=40.0)), party())
    assert spending.epsilon(DELTA) == reserved


def _released(*sigmas):
    one = party()
    one.ledger = ledger(*sigmas)
    return one
