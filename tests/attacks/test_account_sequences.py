"""Whatever a hub does, in whatever order and at how many processes, the account is never below what left."""

import pytest

from tests.attacks.account_mends import MENDS, without
from tests.attacks.account_sequences import run_sequence

FINDS = {
    "a greeting overwrites reservations": 0,
    "check and write in two transactions": 40,
    "rows cut again within a run": 1,
    "account in the site's folder": 1,
    "runs called as the hub does": 36,
    "folders put back unnoticed": 61,
    "serving unpriced": 3,
    "paid after the answer is kept": 10,
}
"""A sequence that finds each mend switched off; `python -m benchmarks.account_sequences --teeth 500` finds them all."""


def wrong(folder, seeds):
    """The sequences after which the account was below what had left, or above the limit."""
    return {seed: found for seed in seeds if (found := run_sequence(folder, seed))}


def test_the_account_is_never_below_what_left(tmp_path):
    assert wrong(tmp_path, range(10, 21)) == {}


@pytest.mark.parametrize("mend", MENDS)
def test_sequences_find_out_when_the_account_is_wrong(tmp_path, mend):
    with without(mend):
        assert run_sequence(tmp_path / "without", FINDS[mend])
    assert run_sequence(tmp_path / "with", FINDS[mend]) == ""


@pytest.mark.slow
def test_the_account_is_never_below_what_left_in_many_sequences(tmp_path):
    assert wrong(tmp_path, range(200)) == {}
