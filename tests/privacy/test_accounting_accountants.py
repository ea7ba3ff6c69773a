import time

import pytest

from laconic.privacy.accounting import Event, Moments, Pld, Rdp, SimpleDivision

pytest.importorskip("dp_accounting", reason="needs the extra `privacy`: pip install 'laconic-fl[privacy]'")

DELTA = 1e-5
# n = 60000, b = 128, 50 epochs, sigma = 1: the setting of the paper's figure 10.
TRAINING = {Event("gaussian", 1.0, 128 / 60_000): 23_437}


def parties(count):
    return {f"party {place}": TRAINING for place in range(count)}


@pytest.mark.parametrize(
    ("accountant", "figures"),
    [
        (SimpleDivision(), {1: 2.228, 4: 9.468, 10: 24.59, 100: 268.9}),
        (Moments(), {1: 2.228, 4: 4.555, 10: 7.474, 100: 29.84}),
        (Rdp(), {1: 1.880, 4: 4.014, 10: 6.776, 100: 28.40}),
        (Pld(), {1: 1.719, 4: 3.703, 10: 6.282}),
        # The known figure for 100 parties was taken at a coarser grain; the default one gives 26.73, which is tighter.
        (Pld(interval=1e-3), {100: 27.12}),
    ],
)
def test_figure_10_is_reproduced_to_three_digits(accountant, figures):
    found = {count: accountant.epsilon(parties(count), DELTA) for count in figures}
    assert found == pytest.approx(figures, rel=3e-4)


def test_the_papers_saving_at_100_parties_is_88_9_percent():
    saving = 1 - Moments().epsilon(parties(100), DELTA) / SimpleDivision().epsilon(parties(100), DELTA)
    assert round(100 * saving, 1) == 88.9


def test_a_hundred_parties_are_priced_within_five_seconds():
    Pld().epsilon({"one": {Event("gaussian", 9.0): 1}}, DELTA)  # The library's import is not part of the price.
    started = time.process_time()  # Not the clock on the wall: tests share the machine with others.
    Pld().epsilon({f"party {place}": {Event("gaussian", 1.1, 0.01): 500} for place in range(100)}, DELTA)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("event", [Event("gaussian", 2.0), Event("gaussian", 1.5, 0.05), Event("laplace", 8.0)])
@pytest.mark.parametrize("accountant", [Pld(interval=1e-3), Rdp()])
def test_composing_many_at_once_equals_composing_one_many_times(event, accountant):
    import dp_accounting
    from dp_accounting import pld, rdp

    kinds = {"gaussian": dp_accounting.GaussianDpEvent, "laplace": dp_accounting.LaplaceDpEvent}
    one = kinds[event.mechanism](event.multiplier)
    one = one if event.rate == 1 else dp_accounting.PoissonSampledDpEvent(event.rate, one)
    fine = pld.PLDAccountant(value_discretization_interval=1e-3)
    by_one = fine if isinstance(accountant, Pld) else rdp.RdpAccountant()
    for _ in range(5):
        by_one.compose(one)
    at_once = accountant.epsilon({"one": {event: 5}}, DELTA)
    # Rounding to the grain happens once at once, and five times one by one.
    assert at_once == pytest.approx(by_one.get_epsilon(DELTA), abs=6e-3)


def test_one_full_gaussian_answer_has_its_exact_epsilon():
    from laconic.privacy.mechanisms.gaussian import gaussian_scale

    scale = gaussian_scale(1.5, DELTA, 1.0)
    assert Pld().epsilon({"one": {Event("gaussian", scale): 1}}, DELTA) == pytest.approx(1.5, abs=2e-3)


def test_no_noise_costs_everything():
    assert Pld().epsilon({"one": {Event("gaussian", 0.0): 1}}, DELTA) == float("inf")


def test_an_unknown_mechanism_is_refused_by_name():
    with pytest.raises(ValueError, match="staircase"):
        Pld().epsilon({"one": {Event("staircase", 1.0): 1}}, DELTA)


def test_a_missing_library_is_named_with_the_extra_that_brings_it(monkeypatch):
    import sys

    from laconic.errors import MissingExtra
    from laconic.privacy import accounting as accountants

    accountants._library.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match=r"laconic-fl\[privacy\]"):
        Rdp().epsilon({"one": {Event("gaussian", 3.21): 1}}, DELTA)
