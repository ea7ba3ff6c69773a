import msgspec
import numpy as np
import pytest

from laconic.learn import weights_of
from laconic.privacy.encoders import Codebook, DpNat, DpPca, PublicProjection
from laconic.privacy.private_sgd import DpSgd

pytestmark = pytest.mark.usefixtures("one_thread")
TRAINER = DpSgd(sigma=0.5, batch=50, epochs=2, lr=0.5, seeded=True)
ENCODERS = {
    "DpPca": DpPca(dim=3, sigma=1.0, seeded=True),
    "Codebook": Codebook(dim=3, words=8, trainer=TRAINER),
    "DpNat": DpNat(dim=3, trainer=TRAINER),
    "PublicProjection": PublicProjection(dim=3),
}


def rows(count=200, width=6, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((count, 2))
    return (hidden @ rng.standard_normal((2, width)) + 0.1 * rng.standard_normal((count, width))).astype(np.float32)


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_puts_rows_into_numbers_and_repeats_with_its_seed(name):
    encoder, x = ENCODERS[name], rows()
    first, second = (encoder.fit(x, np.random.default_rng(1)) for _ in range(2))
    assert encoder.encode(first, x).shape == (200, 3)
    np.testing.assert_array_equal(encoder.encode(first, x), encoder.encode(second, x))


@pytest.mark.parametrize("name", ENCODERS)
def test_images_are_encoded_too(name):
    images = np.random.default_rng(0).random((60, 1, 6, 6), dtype=np.float32)
    encoder = ENCODERS[name]
    assert encoder.encode(encoder.fit(images, np.random.default_rng(1)), images).shape == (60, 3)


def test_components_without_noise_are_the_true_ones_at_unit_variance():
    x = rows()
    encoder = DpPca(dim=2, sigma=0.0, clip=1e3, seeded=True)
    sent = encoder.encode(encoder.fit(x, np.random.default_rng(0)), x)
    np.testing.assert_allclose((sent**2).mean(axis=0), 1.0, rtol=1e-3)
    _, _, right = np.linalg.svd(x.astype(np.float64), full_matrices=False)
    np.testing.assert_allclose(np.abs(np.corrcoef(sent[:, 0], x @ right[0])[0, 1]), 1.0, atol=1e-6)


def test_noise_on_the_squares_has_the_stated_scale_as_a_vector():
    encoder = DpPca(sigma=2.0, clip=3.0, seeded=True)
    noise = encoder.noised_squares(np.zeros((1, 60)), np.random.default_rng(0))
    assert np.array_equal(noise, noise.T)
    upper = noise[np.triu_indices(60, 1)]
    # Off the diagonal each number stands twice: 2.0 * 3.0 ** 2 / sqrt(2). Tolerance: five standard errors.
    assert abs(upper.std() - 18 / np.sqrt(2)) < 5 * 18 / np.sqrt(2) / np.sqrt(2 * len(upper))


def test_dimension_zero_takes_half_the_columns_at_most():
    assert DpPca().dim_for((10,)) == 5
    assert DpPca().dim_for((100,)) == 8
    assert DpPca().dim_for((1, 14, 14)) == 32


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_finds_a_dimension_that_suits(name):
    encoder, x = msgspec.structs.replace(ENCODERS[name], dim=0), rows(width=8)
    assert encoder.encode(encoder.fit(x, np.random.default_rng(1)), x).shape == (200, 4)


def test_a_projection_learns_nothing_from_rows():
    one, other = (PublicProjection(dim=2).fit(rows(seed=seed), np.random.default_rng(3)) for seed in (0, 1))
    np.testing.assert_array_equal(one["1.weight"], other["1.weight"])
    np.testing.assert_array_equal(one["1.bias"], other["1.bias"])
    assert PublicProjection().noise(100) == ()


def test_only_published_nat_says_that_it_is_not_proven():
    proven = {name: all(noise.proven for noise in encoder.noise(200)) for name, encoder in ENCODERS.items()}
    assert proven == {"DpPca": True, "Codebook": True, "DpNat": False, "PublicProjection": True}
    assert "NOT PROVEN" in ENCODERS["DpNat"].noise(200)[0].caveat


def test_prices_keep_code_words_in_use():
    import torch

    from laconic.privacy.encoders import _Priced
    from laconic.privacy.private_sgd import PrivateStep
    from laconic.privacy.randomness import SeededRandomness

    encoder = Codebook(dim=2, words=4, pressure=1.0)
    module, words = _Priced(torch.nn.Identity(), 4), torch.cat((torch.eye(2), -torch.eye(2)))
    crowd = torch.tensor([[1.0, 0.1]]).repeat(20, 1)  # All rows are nearest to the first word.
    settings = DpSgd(sigma=0.0, clip=10.0, batch=20, seeded=True)
    step = PrivateStep(settings, module, encoder._loss, 20, SeededRandomness(np.random.default_rng(0)))
    chosen = []
    for _ in range(20):
        choice = module.choose(crowd, words)
        chosen.append(int(choice[0]))
        step.take([crowd, torch.nn.functional.one_hot(choice, 4).float()], words[choice], 0.5)
    assert chosen[0] == 0
    assert len(set(chosen)) > 1


def test_one_row_changes_weights_and_prices_together_by_no_more_than_the_clip():
    import torch
    from torch import nn

    from laconic.privacy.encoders import _Priced
    from laconic.privacy.private_sgd import RowGradients

    module = _Priced(nn.Linear(4, 3), 8)
    encoder = Codebook(dim=3, words=8)
    chosen = nn.functional.one_hot(torch.tensor([2]), 8).float()
    found = RowGradients(module, encoder._loss).clipped_sum([10 * torch.ones(1, 4), chosen], torch.ones(1, 3), 0.5)
    length = torch.cat([values.flatten() for values in found.sums.values()]).norm()
    assert float(length) == pytest.approx(0.5, rel=1e-5)
    assert set(found.sums) == set(weights_of(module))


@pytest.mark.parametrize("make", [lambda: DpPca(sigma=-1.0), lambda: DpPca(clip=0.0), lambda: Codebook(words=1)])
def test_wrong_settings_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()
