from math import exp

import numpy as np
import pytest

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.privacy.accounting import price
from laconic.privacy.mechanisms.rows import RandomisedResponse
from laconic.tables.table import Table


def party(secret=None):
    return Party("bank", Table.without_rows("bank"), seed=0, secret=secret)


@pytest.mark.parametrize(("epsilon", "classes"), [(1.0, 2), (2.0, 10)])
def test_labels_are_told_as_often_as_epsilon_says(epsilon, classes):
    codes = np.full(40_000, 1)
    told = RandomisedResponse(epsilon=epsilon, seeded=True).randomise(codes, classes, party())
    shares = np.bincount(told, minlength=classes) / len(told)
    truth = exp(epsilon) / (exp(epsilon) + classes - 1)
    # Five standard deviations of a share of 40,000 draws.
    assert shares[1] == pytest.approx(truth, abs=0.0125)
    assert np.delete(shares, 1) == pytest.approx((1 - truth) / (classes - 1), abs=0.0125)


def test_secure_lies_differ_from_run_to_run_and_seeded_ones_do_not():
    codes = np.zeros(200, int)

    def told(seeded):
        return RandomisedResponse(epsilon=0.5, seeded=seeded).randomise(codes, 2, party())

    assert np.array_equal(told(True), told(True))
    assert not np.array_equal(told(False), told(False))


def test_secure_lies_are_told_again_by_whoever_kept_the_secret():
    codes, lies = np.zeros(200, int), RandomisedResponse(epsilon=0.5)
    one, other = party(b"kept"), party(b"kept")
    assert np.array_equal(lies.randomise(codes, 2, one), lies.randomise(codes, 2, other))
    assert not np.array_equal(lies.randomise(codes, 2, one), lies.randomise(codes, 2, party(b"another")))


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
