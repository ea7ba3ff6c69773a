"""Whatever a hub does, in whatever order and at how many processes, the account is never below what left."""

import pytest

from tests.attacks.account_sequences import run_sequence


def wrong(folder, seeds):
    """The sequences after which the account was below what had left, or above the limit."""
    return {seed: found for seed in seeds if (found := run_sequence(folder, seed))}


def test_the_account_is_never_below_what_left(tmp_path):
    assert wrong(tmp_path, range(12)) == {}


@pytest.mark.slow
def test_the_account_is_never_below_what_left_in_many_sequences(tmp_path):
    assert wrong(tmp_path, range(200)) == {}
