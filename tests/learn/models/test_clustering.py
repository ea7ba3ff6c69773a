"""Mixtures that stand for rows: what is drawn from them is like the rows."""

import numpy as np
import pytest

from laconic.learn.models.clustering import draw_rows, fit_mixture, nearest_covariance, one_gaussian


@pytest.mark.parametrize(("covariance", "close"), [("full", 0.15), ("diagonal", 0.15), ("spherical", 0.6)])
def test_rows_drawn_from_a_mixture_are_like_those_it_was_fitted_to(covariance, close):
    rng = np.random.default_rng(0)
    truth = rng.multivariate_normal([3.0, -1.0], [[2.0, 0.0], [0.0, 1.0]], size=4000)
    drawn = draw_rows(fit_mixture(truth, 2, covariance, rng), covariance, 4000, rng)
    assert drawn.mean(axis=0) == pytest.approx([3.0, -1.0], abs=0.1)
    # Round Gaussians share one variance between both columns.
    assert drawn.var(axis=0) == pytest.approx([2.0, 1.0], abs=close)


def test_one_gaussian_keeps_how_columns_vary_together():
    rng = np.random.default_rng(0)
    wanted = np.array([[1.0, 0.8], [0.8, 1.0]])
    drawn = draw_rows(one_gaussian(np.zeros(2), wanted), "full", 20_000, rng)
    assert np.cov(drawn.T) == pytest.approx(wanted, abs=0.05)
    assert np.linalg.eigvalsh(nearest_covariance(np.diag([1.0, -3.0]), 0.1)) == pytest.approx([0.1, 1.0])
