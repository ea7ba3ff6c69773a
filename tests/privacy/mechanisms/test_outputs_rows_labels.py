from math import exp

import numpy as np
import pytest

from laconic.core import Entry, Ledger
from laconic.privacy.accounting import price
from laconic.privacy.mechanisms.outputs import RandomisedResponse
from laconic.testing import bare_party


@pytest.mark.parametrize(("epsilon", "classes"), [(1.0, 2), (2.0, 10)])
def test_labels_are_released_unchanged_as_often_as_epsilon_says(epsilon, classes):
    codes = np.full(40_000, 1)
    released = RandomisedResponse(epsilon=epsilon, seeded=True).randomise(codes, classes, bare_party())
    shares = np.bincount(released, minlength=classes) / len(released)
    truth = exp(epsilon) / (exp(epsilon) + classes - 1)
    # Five standard deviations of a share of 40,000 draws.
    assert shares[1] == pytest.approx(truth, abs=0.0125)
    assert np.delete(shares, 1) == pytest.approx((1 - truth) / (classes - 1), abs=0.0125)


def test_secure_draws_differ_from_run_to_run_and_seeded_ones_do_not():
    codes = np.zeros(200, int)

    def released(seeded):
        return RandomisedResponse(epsilon=0.5, seeded=seeded).randomise(codes, 2, bare_party())

    assert np.array_equal(released(True), released(True))
    assert not np.array_equal(released(False), released(False))


def test_secure_draws_are_repeated_by_whoever_kept_the_secret():
    codes, response = np.zeros(200, int), RandomisedResponse(epsilon=0.5)
    one, other = bare_party(secret=b"kept"), bare_party(secret=b"kept")
    assert np.array_equal(response.randomise(codes, 2, one), response.randomise(codes, 2, other))
    assert not np.array_equal(
        response.randomise(codes, 2, one), response.randomise(codes, 2, bare_party(secret=b"another"))
    )


def test_what_is_drawn_once_costs_once_however_often_it_is_sent():
    noise = RandomisedResponse(epsilon=2.0, seeded=True).cover(0).noise
    entries = [
        Entry(phase="fit", step=step, words=step, form="", times=3, bytes=1, noise=noise)
        for step in ("first", "second")
    ]
    found = price({"hub": Ledger(tuple(entries))}, delta=1e-6)
    assert found.epsilon == pytest.approx(2.0, abs=1e-3)
    assert found.units == ("one label",)
    assert found.open == ()


def test_no_privacy_is_not_an_epsilon():
    with pytest.raises(ValueError, match="above 0 and finite"):
        RandomisedResponse(epsilon=0.0)
