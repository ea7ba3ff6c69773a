"""Attacks 2 to 5: the account of epsilon is made to show less than what left.

The account itself, without a hub, is attacked in tests/deploy/test_party_account.py.
"""

import shutil

import pytest

from laconic import FedOnce
from laconic.deploy import open_site, read_party
from laconic.deploy.party_account import account_folder, open_account
from laconic.deploy.store import copy_kept
from laconic.privacy import compose, epsilon_of
from tests.attacks.harness import (
    DELTA,
    FORK,
    LIMITED,
    NOISY_ROWS,
    PRIVATE,
    Trial,
    answer_of,
    laconic,
    was_answered,
    was_denied,
    was_refused,
)  # fmt: skip

SIGMA = 4.0
"""Of the noise in the plans used here."""


def price(times: int) -> float:
    """What so many releases of the same row cost."""
    return epsilon_of(compose([1 / SIGMA] * times), DELTA)


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, method=PRIVATE, allow=f"{LIMITED}max_epsilon = 100.0\n")


def released(trial, run="one", name="shop"):
    """A run up to the party's first priced release."""
    hub = trial.hub(name, run)
    hub.greet()
    hub.match()
    answer_of(hub.ask("learn_and_send"))
    return hub


def test_a_greeting_after_a_crash_erases_nothing(trial):
    released(trial)
    spent = trial.spent()
    assert spent > 0
    trial.restart("shop")
    trial.hub().greet()
    assert trial.spent() == spent


def test_a_greeting_that_expects_nothing_erases_nothing(trial, monkeypatch):
    """As after a crash of the hub, when a party did not know yet what the run would cost."""
    released(trial)
    spent = trial.spent()
    trial.restart("shop")
    monkeypatch.setattr(FedOnce, "expected_noise", lambda *_: {})
    hub = trial.hub()
    hub.greet()
    answer_of(hub.ask("learn_and_send"))
    assert trial.spent() == spent > 0


def test_what_a_run_will_spend_is_reserved_in_full_before_it_begins(tmp_path):
    """Noise on what is sent has its price too, and two runs begun together must not pass a limit between them."""
    trial = Trial(tmp_path, method=NOISY_ROWS, allow=f"{LIMITED}max_epsilon = 100.0\n")
    hub = trial.hub()
    hub.greet()
    hub.match()
    hub.greet()  # With its rows matched, a party can tell what the run will cost.
    reserved = trial.spent()
    answer_of(hub.ask("learn_and_send"))
    assert reserved >= trial.spent() > 0


def test_three_processes_of_one_site_cannot_pass_the_limit_between_them(tmp_path):
    trial = Trial(tmp_path, method=PRIVATE, allow=f"{LIMITED}max_epsilon = 100.0\n")
    released(trial, "price")
    cost = trial.spent()
    trial = Trial(tmp_path / "limited", method=PRIVATE, allow=f"{LIMITED}max_epsilon = {1.1 * cost}\n")
    hubs = [trial.hub(run=run) for run in ("one", "two", "three")]
    for hub in hubs:
        hub.greet()
        hub.match()
    gate, said = FORK.Barrier(len(hubs)), FORK.SimpleQueue()

    def ask(hub):
        trial.restart("shop")
        gate.wait()
        said.put(was_answered(hub.greet()) and was_answered(hub.ask("learn_and_send")))

    running = [FORK.Process(target=ask, args=(hub,)) for hub in hubs]
    for process in running:
        process.start()
    answered = [said.get() for _ in running]
    for process in running:
        process.join()
    assert sum(answered) <= 1
    assert trial.spent() <= 1.1 * cost


def test_rows_are_not_cut_a_second_time_within_a_run(trial):
    hub = released(trial)
    assert not was_answered(hub.keep_rows(60, seed=2))


def test_a_person_in_two_cuts_of_a_run_is_paid_for_twice(tmp_path):
    """Cuts of one matching are of different people; of 60 people, some are in `train` of one and `test` of another."""
    trial = Trial(tmp_path, method=NOISY_ROWS, allow=f"{LIMITED}max_epsilon = 100.0\n")
    hub = trial.hub()
    hub.greet()
    hub.match(seed=1)
    answer_of(hub.ask("learn_and_send"))
    once = trial.spent()
    if was_answered(hub.keep_rows(60, seed=2)) and was_answered(hub.ask("represent", "final", rows="test")):
        assert trial.spent() >= 0.99 * price(2) > once, "a second release was free"


def test_a_run_whose_folder_is_gone_cannot_be_had_again_for_nothing(trial):
    released(trial)
    shutil.rmtree(trial.site("shop") / "runs" / "one")
    trial.restart("shop")
    once = trial.spent()
    released(trial)
    assert trial.spent() > once > 0


def test_a_site_that_is_made_anew_knows_what_the_party_has_spent(trial):
    released(trial)
    once = trial.spent()
    before = trial.site("shop").rename(trial.root / "before")
    trial.make_site("shop", f"{LIMITED}max_epsilon = 100.0\n", source="../before/rows.csv")
    trial.restart("shop")
    assert before.exists()
    assert trial.spent() >= once > 0


def test_a_doctor_shows_what_a_party_has_spent(trial):
    released(trial)
    shown = laconic("doctor", trial.site("shop") / "party.toml").output
    assert "epsilon" in shown
    assert f"{trial.spent():.3g}" in shown


BOTH = NOISY_ROWS.replace('"PublicProjection"', '"DpPca"').replace("dim = 2", "dim = 2\nsigma = 4.0")
"""A method whose encoder costs epsilon, with noise on each row that is sent."""


@pytest.mark.parametrize("method", [PRIVATE, NOISY_ROWS, BOTH])
def test_a_question_is_reserved_in_full_without_a_second_greeting(tmp_path, method):
    trial = Trial(tmp_path, method=method, allow=f"{LIMITED}max_epsilon = 100.0\n")
    hub = trial.hub()
    hub.greet()
    hub.match()
    answer_of(hub.ask("learn_and_send"))
    once = trial.spent()
    answer_of(hub.ask("represent", "final", rows="test"))
    assert trial.spent() == once > 0, "the whole run was reserved with its first question"


def test_noise_on_what_is_sent_counts_before_a_run_may_begin(tmp_path):
    allow = f"{LIMITED}max_epsilon = {1.1 * price(1)}\n"
    hub = Trial(tmp_path / "one", method=NOISY_ROWS, allow=allow).hub()
    hub.greet()
    hub.match()
    assert was_answered(hub.greet())
    hub = Trial(tmp_path / "both", method=BOTH, allow=allow).hub()
    hub.greet()
    hub.match()
    assert was_refused(hub.greet())


def test_the_same_rows_asked_for_again_are_the_same_answer(trial):
    hub = released(trial)
    spent = trial.spent()
    trial.restart("shop")
    hub.greet()
    assert was_answered(hub.keep_rows(60))
    assert trial.spent() == spent


def test_a_restart_does_not_let_rows_be_cut_again(trial):
    released(trial)
    trial.restart("shop")
    hub = trial.hub()
    hub.rounds["align"] = 9
    hub.greet()
    spent = trial.spent()
    assert was_denied(hub.keep_rows(60, seed=2))
    assert was_denied(hub.keep_rows(50))
    assert trial.spent() == spent


def test_agreed_rows_are_not_cut_a_second_time_either(tmp_path):
    hub = Trial(tmp_path, match="AgreedIds").hub()
    hub.greet()
    assert answer_of(hub.ask("keep_agreed", "align", seed=1)) == 60
    assert answer_of(hub.ask("keep_agreed", "align", seed=1)) == 60
    assert was_denied(hub.ask("keep_agreed", "align", seed=2))


def test_a_run_put_back_from_a_copy_pays_for_what_it_has_forgotten(tmp_path):
    trial = Trial(tmp_path, method=NOISY_ROWS, allow=f"{LIMITED}max_epsilon = 100.0\n")
    hub = trial.hub()
    hub.greet()
    hub.match()
    folder = trial.site("shop") / "runs" / "one"
    copy_kept(folder, tmp_path / "copy")
    answer_of(hub.ask("learn_and_send"))
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    trial.restart("shop")
    hub.greet()
    answer_of(hub.ask("learn_and_send"))
    assert trial.spent() >= 0.99 * price(2)


def test_an_account_lies_where_the_party_file_says(trial):
    path = trial.site("shop") / "party.toml"
    path.write_text('account = "../elsewhere"\n' + path.read_text())
    trial.restart("shop")
    released(trial)
    assert (trial.root / "elsewhere" / "spent.db").exists()
    assert not (trial.root / "shop.account").exists()


def test_earlier_accounts_are_taken_over_once(trial):
    """Of two sites of one party, each has an account with a run of the same name."""
    released(trial)
    account = trial.root / "shop.account"
    once = trial.spent()
    shutil.copy(account / "spent.db", trial.site("shop") / "spent.db")
    for number, least in ((1, price(2)), (2, price(3))):
        site = trial.site("shop")
        if number == 2:
            site = trial.site("shop").rename(trial.root / "again")
            (site / "spent.db.taken-over").rename(site / "spent.db")
        for _ in range(2):
            spent = open_account(open_site(site).party_file).spent.epsilon(DELTA)
            assert spent >= 0.99 * least > once
        assert not (site / "spent.db").exists()


def test_a_database_has_its_account_in_the_users_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "shop.toml"
    sources = ("postgresql://me:${PASSWORD}@one/db", "postgresql://me:${PASSWORD}@two/db", "sqlite:///rows.db")
    found = []
    for source in sources:
        path.write_text(f'name = "shop"\n[data]\nsource = "{source}"\ntable = "people"\nkey = "customer"\n')
        found.append(account_folder(read_party(path)))
    assert [one.parent for one in found] == [tmp_path / "laconic" / "accounts"] * 2 + [tmp_path]
    assert len(set(found)) == 3
