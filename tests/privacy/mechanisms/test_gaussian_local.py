from math import sqrt

import numpy as np
import pytest

from laconic.privacy.mechanisms.gaussian import LocalGaussian, clip_rows, gaussian_delta, gaussian_scale
from laconic.testing import bare_party


@pytest.fixture
def party():
    return bare_party()


def test_the_scale_is_the_least_that_gives_the_delta():
    scale = gaussian_scale(1.0, 1e-5, 2.0)
    assert gaussian_delta(1.0, scale, 2.0) <= 1e-5 < gaussian_delta(1.0, scale * 0.999, 2.0)


def test_the_scale_for_epsilon_one_is_the_published_one():
    # Balle and Wang's calibration for sensitivity 1, epsilon 1, delta 1e-5; the older formula would give 4.84.
    assert gaussian_scale(1.0, 1e-5, 1.0) == pytest.approx(3.7306, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 64.0, 512.0])
def test_the_scale_grows_with_the_sensitivity(epsilon):
    assert gaussian_scale(epsilon, 1e-6, 3.0) == pytest.approx(3 * gaussian_scale(epsilon, 1e-6, 1.0), rel=1e-6)


def test_less_epsilon_takes_more_noise():
    scales = [gaussian_scale(epsilon, 1e-6, 1.0) for epsilon in (0.1, 1.0, 10.0, 100.0)]
    assert scales == sorted(scales, reverse=True)


def test_no_row_is_longer_than_the_clip():
    rows = np.random.default_rng(0).normal(0, 10, (100, 7))
    assert np.linalg.norm(clip_rows(rows, 2.0), axis=1).max() <= 2.0 + 1e-5


def test_short_rows_and_rows_of_zeros_stay_as_they_are():
    rows = np.array([[0.1, 0.2], [0.0, 0.0]])
    assert np.allclose(clip_rows(rows, 2.0), rows)


def test_noise_has_the_scale_that_the_ledger_says(party):
    noised = LocalGaussian(epsilon=2.0, seeded=True).put_on(np.zeros((2000, 16), np.float32), party, "train")
    assert noised.noise.sensitivity == pytest.approx(2 * sqrt(16))
    assert noised.value.std() == pytest.approx(noised.noise.scale, rel=0.03)


def test_noise_is_secure_unless_a_seed_is_asked_for(party):
    rows = np.zeros((10, 4), np.float32)
    secure, seeded = (LocalGaussian(epsilon=2.0, seeded=seeded).put_on(rows, party, "test") for seeded in (False, True))
    assert secure.noise.secure
    assert not seeded.noise.secure
    assert secure.noise.people == "test"


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "clip": 0.0}])
def test_what_is_no_privacy_statement_is_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        LocalGaussian(**wrong)
