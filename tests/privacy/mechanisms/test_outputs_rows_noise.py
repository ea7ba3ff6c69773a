import numpy as np
import pytest

from laconic.privacy.mechanisms.outputs import ClippedGaussian, Perturb
from laconic.privacy.private_sgd import DpSgd
from laconic.testing import bare_party


def test_rows_are_clipped_and_noised_as_stated():
    values = np.full((20_000, 2), 100.0, np.float32)
    noised = ClippedGaussian(sigma=0.5, clip=2.0, seeded=True).put_on_rows(values, bare_party(), "train", ())
    np.testing.assert_allclose(noised.value.mean(axis=0), np.sqrt(2.0), atol=0.05)
    np.testing.assert_allclose(noised.value.std(axis=0), 1.0, atol=0.05)
    assert noised.noise.multiplier == 0.5


def test_the_bound_is_proven_only_for_a_private_or_public_encoder():
    noise, values = ClippedGaussian(sigma=1.0), np.zeros((3, 2), np.float32)
    private = DpSgd(sigma=1.0).noise(10)
    proven = [noise.put_on_rows(values, bare_party(), "train", learnt).noise.proven for learnt in ((), private, None)]
    assert proven == [True, True, False]


def test_each_cut_is_about_its_own_people():
    noise = ClippedGaussian(sigma=1.0).put_on_rows(np.zeros((3, 2), np.float32), bare_party(), "valid", ()).noise
    assert noise.people == "valid"


def test_unbounded_noise_has_no_price():
    noised = Perturb(scale=1.0).put_on_rows(np.zeros((3, 2), np.float32), bare_party(), "train", ())
    assert noised.noise.multiplier is None


def test_noise_without_a_sigma_says_what_to_do():
    with pytest.raises(ValueError, match=r"budget\.epsilon"):
        ClippedGaussian().put_on_rows(np.zeros((3, 2), np.float32), bare_party(), "train", ())
