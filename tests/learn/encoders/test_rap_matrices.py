import numpy as np
import pytest

from laconic.learn.encoders.rap import Gaussian, Orthogonal


def chance_to_keep(width, error):
    """At least how likely a scaled Gaussian matrix keeps one squared distance within `error` of it (Corollary 2)."""
    return max(0.0, 1.0 - 2.0 * np.exp(-width * (3 * error**2 - 2 * error**3) / 12))


def test_an_orthogonal_matrix_keeps_every_distance():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 14))
    mixed = rows @ Orthogonal().draw(14, rng)
    before = np.linalg.norm(rows[:, None] - rows, axis=2)
    after = np.linalg.norm(mixed[:, None] - mixed, axis=2)
    assert np.allclose(before, after, atol=1e-10)


def test_orthogonal_draws_are_not_biased_in_sign():
    rng = np.random.default_rng(0)
    corners = [Orthogonal().draw(3, rng)[0, 0] > 0 for _ in range(400)]
    assert 0.4 < np.mean(corners) < 0.6  # four standard deviations of 400 fair coins


@pytest.mark.parametrize(("width", "error"), [(54, 0.5), (100, 0.4), (28, 0.7)])
def test_a_gaussian_matrix_keeps_distances_at_least_as_often_as_stated(width, error):
    rng = np.random.default_rng(0)
    gap = rng.standard_normal(width)
    kept = [
        abs(np.sum((gap @ Gaussian(scaled=True).draw(width, rng)) ** 2) / np.sum(gap**2) - 1) <= error
        for _ in range(500)
    ]
    assert 0 < chance_to_keep(width, error) <= np.mean(kept)


def test_the_statement_on_distances_is_empty_for_few_columns():
    assert chance_to_keep(16, 0.5) == 0.0
    assert chance_to_keep(54, 0.5) == pytest.approx(0.789, abs=1e-3)  # Corollary 2 by hand: 1 - 2 exp(-54 * 0.5 / 12)


def test_gaussian_matrices_are_badly_conditioned_where_orthogonal_ones_are_not():
    rng = np.random.default_rng(0)
    gaussian = [np.linalg.cond(Gaussian().draw(14, rng)) for _ in range(200)]
    assert np.median(gaussian) > 20
    assert np.linalg.cond(Orthogonal().draw(14, rng)) == pytest.approx(1.0)
