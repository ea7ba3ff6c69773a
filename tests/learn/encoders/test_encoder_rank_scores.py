"""Rank scores keep the order of cells, and few columns are found that stand for all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laconic.learn.encoders.encoder import KNOTS, build_beside, choose_columns, fit_scores, score
from laconic.learn.nets.nets import load, to_array, to_tensor
from laconic.values import Array


def column(cells: list[float] | Array) -> Array:
    return np.asarray(cells, dtype=np.float32)[:, None]


@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=200), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_a_larger_cell_never_has_a_lower_score(cells: list[int], power: int) -> None:
    x = column(np.sign(cells) * np.abs(np.array(cells, dtype=np.float64)) ** (power / 10))
    found = score(x, *fit_scores(x))[:, 0]
    assert np.isfinite(found).all()
    assert (np.diff(found[np.argsort(x[:, 0], kind="stable")]) >= 0).all()


def test_the_layer_and_the_function_give_the_same_scores() -> None:
    x = np.exp(np.random.default_rng(0).standard_normal((500, 3))).astype(np.float32)
    knots, heights = fit_scores(x)
    weights = {
        "scores.heights": heights[[2, 0]],
        "sums.weight": np.zeros((0, 3), np.float32),
        "sums.bias": np.zeros(0, np.float32),
        "scores.knots": knots[[2, 0]],
        "scores.columns": np.array([2, 0]),
    }
    new = np.concatenate([x, x * 5, x - 3]).astype(np.float32)  # also beyond both ends
    found = to_array(load(build_beside(3, weights), weights)(to_tensor(new)))
    assert found == pytest.approx(score(new, knots, heights)[:, [2, 0]], abs=1e-5)


def test_a_tail_after_many_equal_cells_keeps_its_order() -> None:
    cells = np.concatenate([np.zeros(900), np.random.default_rng(0).pareto(1.0, 100) * 1000])
    x = column(cells)
    found = score(x, *fit_scores(x))[:, 0]
    assert len(np.unique(found[900:].round(6))) > 90


def test_few_values_have_a_knot_each_and_two_values_stay_as_they_are() -> None:
    knots, heights = fit_scores(column([5.0, 5.0, -2.0, 5.0]))
    assert np.array_equal(knots, heights)
    assert set(knots[0]) == {-2.0, 5.0}
    assert len(np.unique(fit_scores(column(np.arange(KNOTS)))[0])) == KNOTS


def test_columns_that_say_most_of_the_others_come_first() -> None:
    rng = np.random.default_rng(0)
    one, other, lonely = rng.standard_normal((3, 1000))
    table = np.column_stack([one + 0.5 * rng.standard_normal(1000), one, one, lonely, other, other])
    assert choose_columns(table, 3) == [1, 4, 3]


def test_no_more_columns_are_chosen_than_say_something_new() -> None:
    one = np.random.default_rng(0).standard_normal(100)
    assert choose_columns(np.column_stack([one, 2 * one, one]), 3) == [0]
    assert choose_columns(np.zeros((10, 2)), 2) == [0]
