import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

import laconic
from laconic import FedOnce, Linear, SplitNN
from laconic.core import Party, Question, decode, encode
from laconic.deploy.party_account import EpsilonAccount, PartyAccount
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.policy import Gatekeeper, Policy, read_policy
from laconic.errors import PlanError, Refused
from laconic.learn import Pca
from laconic.privacy import ClippedGaussian, DpPca
from laconic.tables import Column, Table

PRIVATE = FedOnce(encoder=DpPca(dim=2, sigma=4.0))
ASK = encode(Question("learn_and_send", "fit", 1, {}))


def party(rows: int = 50) -> Party:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    cuts = {"train": np.arange(40), "valid": np.arange(40, 45), "test": np.arange(45, rows)}
    return Party("shop", Table(x, tuple(Column(name=name, kind="numeric") for name in "abc"), cuts=cuts), 0)


def ask(folder, allowed, method, run="one", blob=ASK):
    kept = PartyFolder(folder / run)
    kept.begin(party())
    gate = Gatekeeper(allowed, PartyAccount(folder), run, "bank", ("shop",))
    return kept.answer(method, blob, gate)


def test_nothing_is_allowed_that_is_not_listed(tmp_path):
    with pytest.raises(Refused, match=r"shop does not allow FedOnce; the methods .* lists: none"):
        ask(tmp_path, Policy(), FedOnce(encoder=Pca(dim=2)))
    with pytest.raises(Refused, match="does not allow the step `learn_and_send` of FedOnce"):
        ask(tmp_path, Policy(methods=("FedOnce",), steps=("represent",)), FedOnce(encoder=Pca(dim=2)))
    assert decode(ask(tmp_path, Policy(methods=("FedOnce",)), FedOnce(encoder=Pca(dim=2))))["train"].shape == (
        40,
        2,
    )


def test_a_party_that_has_fewer_rows_than_its_own_rule_takes_no_part_and_says_how_many_to_itself_alone(tmp_path):
    method = FedOnce(encoder=Pca(dim=2))
    assert ask(tmp_path, Policy(methods=("FedOnce",), least_rows=40), method, run="enough")
    with pytest.raises(Refused, match=r"shop has too few training rows for `learn_and_send`.*least_rows = 41") as found:
        ask(tmp_path, Policy(methods=("FedOnce",), least_rows=41), method)
    assert "40" not in found.value.words
    assert not PartyFolder(tmp_path / "one").load().ledger.entries


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"max_rows": 39}, "max_rows = 39; it is about 40 rows"),
        ({"max_bytes": 300}, "bytes would have left in this run, as .* max_bytes = 300"),
        ({"min_noise": 1.0}, "bears no noise, and .* min_noise = 1"),
    ],
)
def test_an_answer_that_holds_too_much_does_not_leave_and_leaves_no_trace(tmp_path, rule, words):
    with pytest.raises(Refused, match=words):
        ask(tmp_path, Policy(methods=("FedOnce",), **rule), FedOnce(encoder=Pca(dim=2)))
    kept = PartyFolder(tmp_path / "one").load()
    assert not kept.memory
    assert not kept.ledger.entries


def test_bytes_are_counted_over_the_whole_run(tmp_path):
    allowed = Policy(methods=("FedOnce",), max_bytes=600)
    ask(tmp_path, allowed, FedOnce(encoder=Pca(dim=2)))
    again = encode(Question("represent", "fit", 2, {"rows": "train"}))
    with pytest.raises(Refused, match="max_bytes"):
        ask(tmp_path, allowed, FedOnce(encoder=Pca(dim=2)), blob=again)


def test_noise_must_be_enough_proven_and_secure(tmp_path):
    noisy = FedOnce(encoder=DpPca(dim=2, sigma=4.0, seeded=True))
    allowed = Policy(methods=("FedOnce",), min_noise=3.0, open=("learn_and_send",))
    with pytest.raises(Refused, match="comes from the run's seed"):
        ask(tmp_path, allowed, noisy)
    ask(tmp_path, msgspec.structs.replace(allowed, seeded=True), noisy)
    with pytest.raises(Refused, match=r"its noise is 4, and .* min_noise = 5"):
        ask(tmp_path, msgspec.structs.replace(allowed, min_noise=5.0), PRIVATE, run="two")


def test_epsilon_is_kept_across_runs_and_a_run_that_would_pass_it_is_refused_before_it_starts(tmp_path):
    allowed = Policy(methods=("FedOnce",), max_epsilon=2.0, open=("learn_and_send",))
    ask(tmp_path, allowed, PRIVATE, run="one")
    first = EpsilonAccount(tmp_path / "spent").epsilon(1e-5)
    assert 0 < first < 2
    ask(tmp_path, allowed, PRIVATE, run="two")
    both = EpsilonAccount(tmp_path / "spent").epsilon(1e-5)
    assert first < both < 2 * first
    limit = msgspec.structs.replace(allowed, max_epsilon=both * 1.01)
    with pytest.raises(Refused, match=r"epsilon of all its runs would be .* max_epsilon = "):
        ask(tmp_path, limit, PRIVATE, run="three")
    assert not PartyFolder(tmp_path / "three").load().memory
    assert EpsilonAccount(tmp_path / "spent").epsilon(1e-5) == both


def test_two_runs_begun_together_cannot_pass_the_limit_between_them(tmp_path):
    spending = EpsilonAccount(tmp_path / "spent")
    cost = spending.expected("one", PRIVATE.expected_noise(40, "bank", ("shop",))["shop"], 1e-5)
    allowed = Policy(methods=("FedOnce",), max_epsilon=1.1 * cost)
    Gatekeeper(allowed, PartyAccount(tmp_path), "one", "bank", ("shop",)).begin(PRIVATE, party())
    with pytest.raises(Refused, match="max_epsilon"):
        Gatekeeper(allowed, PartyAccount(tmp_path), "two", "bank", ("shop",)).begin(PRIVATE, party())


def test_an_answer_asked_for_again_spends_nothing_again(tmp_path):
    allowed = Policy(methods=("FedOnce",), max_epsilon=2.0, open=("learn_and_send",))
    first = ask(tmp_path, allowed, PRIVATE)
    spent = EpsilonAccount(tmp_path / "spent").epsilon(1e-5)
    assert ask(tmp_path, allowed, PRIVATE) == first
    assert EpsilonAccount(tmp_path / "spent").epsilon(1e-5) == spent


@pytest.mark.parametrize("method", [SplitNN(), Linear()])
def test_a_limit_on_epsilon_refuses_what_cannot_be_foreseen_or_bears_no_noise(tmp_path, method):
    allowed = Policy(methods=("SplitNN", "Linear"), max_epsilon=2.0)
    with pytest.raises(Refused, match="cannot tell beforehand"):
        Gatekeeper(allowed, PartyAccount(tmp_path), "one", "bank", ("shop",)).begin(method, party())


def test_noise_without_a_proof_has_no_bound_and_is_refused(tmp_path):
    unproven = FedOnce(encoder=Pca(dim=2), noise=ClippedGaussian(sigma=2.0))
    allowed = Policy(methods=("FedOnce",), max_epsilon=1e6)
    with pytest.raises(Refused, match=r"no proven price|without a bound|bears no noise"):
        ask(tmp_path, allowed, unproven)


def test_an_allow_table_is_read_strictly():
    assert read_policy({"methods": ["FedOnce"], "max_rows": 10}).max_rows == 10
    with pytest.raises(PlanError, match=r"shop/party.toml, \[allow\]: there is no setting max_row"):
        read_policy({"max_row": 10}, "shop/party.toml")
    with pytest.raises(PlanError, match="max_epsilon must be above 0"):
        read_policy({"max_epsilon": -1})


def test_answers_leave_a_party_by_one_function_except_in_a_simulation():
    package = Path(laconic.__file__).parent
    importing = re.compile(r"from laconic\.core\.step import [^\n]*\banswer\b")
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if importing.search(path.read_text())
    }
    assert found == {"deploy/party_memory.py", "deploy/transports/inprocess.py"}
