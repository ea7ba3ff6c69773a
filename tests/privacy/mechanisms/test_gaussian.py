"""The exact price of Gaussian noise."""

from math import inf

import pytest

from laconic.privacy.mechanisms.gaussian import compose, delta_of, epsilon_of, mu_of


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0, 20.0])
def test_epsilon_and_delta_are_each_others_inverse(mu):
    assert delta_of(mu, epsilon_of(mu, 1e-5)) == pytest.approx(1e-5, rel=1e-4)


def test_it_agrees_with_figures_worked_out_by_hand():
    # Rounds sqrt(10) / 2 and 2 sqrt(10) / 2 at delta 1e-5: 10 releases of a row with sigma 2 and sensitivity C or 2C.
    assert epsilon_of(10**0.5 / 2, 1e-5) == pytest.approx(7.5, abs=0.05)
    assert epsilon_of(10**0.5, 1e-5) == pytest.approx(17.9, abs=0.05)


def test_releases_add_up_as_the_root_of_squares():
    assert compose([3.0, 4.0]) == 5.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_mu_for_an_epsilon_gives_that_epsilon_back(epsilon):
    assert epsilon_of(mu_of(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_no_noise_costs_everything_and_no_release_nothing():
    assert epsilon_of(inf, 1e-5) == inf
    assert epsilon_of(0.0, 1e-5) == 0.0
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        epsilon_of(1.0, 0.0)
