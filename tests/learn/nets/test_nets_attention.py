import numpy as np
import pytest
import torch

from laconic.learn.nets.nets import Attention, attend, best_sharpness


def test_a_row_that_equals_a_known_one_gets_its_numbers_when_attention_is_sharp():
    known = np.eye(4, dtype=np.float32)
    missing = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = Attention(sharpness=50.0).estimate(known[[2, 0]], known, missing)
    assert found == pytest.approx(missing[[2, 0]], abs=1e-3)


def test_without_sharpness_every_guess_is_the_mean():
    rng = np.random.default_rng(0)
    known, missing = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    found = Attention(sharpness=0.0).estimate(known[:5], known, missing)
    assert found == pytest.approx(np.tile(missing.mean(axis=0), (5, 1)), abs=1e-5)


def test_one_row_worked_out_by_hand():
    # Keys centre to (1, 0) and (-1, 0); the query lies on the first, so that weights are e^1 and e^-1.
    keys, values = torch.tensor([[2.0, 5.0], [0.0, 5.0]]), torch.tensor([[1.0], [0.0]])
    found = attend(torch.tensor([[4.0, 5.0]]), keys, values, sharpness=1.0)
    assert float(found) == pytest.approx(np.e / (np.e + 1 / np.e), abs=1e-6)


def test_the_sharpness_found_guesses_better_than_the_mean():
    rng = np.random.default_rng(1)
    known = rng.standard_normal((200, 4)).astype(np.float32)
    missing = known[:, :2] ** 3
    rows = rng.standard_normal((100, 4)).astype(np.float32)
    error = np.mean((Attention().estimate(rows, known, missing) - rows[:, :2] ** 3) ** 2)
    assert error < 0.8 * np.mean((missing.mean(axis=0) - rows[:, :2] ** 3) ** 2)


def test_rows_that_say_nothing_of_each_other_get_little_sharpness():
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(300, 8, generator=generator), torch.randn(300, 2, generator=generator)
    assert best_sharpness(keys, values) <= 2.0


def test_sharpness_below_zero_is_refused():
    with pytest.raises(ValueError, match="must be 0 or more, not -1"):
        Attention(sharpness=-1.0)
