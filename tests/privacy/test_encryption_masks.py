"""The parts of a secure sum: shares of secrets, and numbers as whole numbers."""

import numpy as np
import pytest

from laconic.errors import WireError
from laconic.privacy.encryption import FixedPoint, agree, draw_key, join_secret, lock, public_of, split_secret, unlock


def test_fewer_shares_than_needed_say_nothing_and_any_so_many_give_the_secret():
    secret = bytes(range(32))
    shares = split_secret(secret, 5, 3)
    assert join_secret({at: shares[at] for at in (4, 0, 2)}) == secret
    others = {join_secret({0: shares[0], 1: shares[1], 2: bytes(32) + bytes([made_up])}) for made_up in range(20)}
    assert len(others) == 20 and secret not in others


def test_a_number_beyond_the_bound_is_named():
    with pytest.raises(ValueError, match=r"a number of size 5 cannot be summed securely, as sums\.bound is 4"):
        FixedPoint(4.0, 3).write(np.array([1.0, -5.0]))


def test_what_was_locked_for_a_party_opens_for_it_alone_and_unaltered():
    ours, theirs = draw_key(), draw_key()
    key = agree(ours, public_of(theirs), "a share")
    assert key == agree(theirs, public_of(ours), "a share") != agree(theirs, public_of(ours), "a mask")
    locked = lock(key, b"secret")
    assert unlock(key, locked, "p1") == b"secret"
    with pytest.raises(WireError, match="a share that p1 is said to have sent was altered"):
        unlock(key, locked[:-1] + bytes([locked[-1] ^ 1]), "p1")
