"""The recipe: statistics of training rows only, safe on rows it has never seen."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from laconic.errors import DataError
from laconic.tables.columns import MOST_LEVELS, Column, Recipe, apply_recipe, fit_recipe

NUMBER = Column("age")
TOWN = Column("town", "categorical", ("Bonn", "Kiel", "Ulm"))
CELLS = st.one_of(st.floats(-1e9, 1e9), st.just(float("nan")))
TABLES = npst.arrays(np.float64, st.tuples(st.integers(3, 40), st.integers(1, 4)), elements=CELLS)


def prepared(cells, column=NUMBER, rows=None):
    raw = np.array(cells, dtype=float)[:, np.newaxis]
    recipe = fit_recipe(raw, [column], np.arange(len(raw)) if rows is None else np.array(rows), party="bank")
    return recipe, apply_recipe(recipe, raw)


@settings(max_examples=60, deadline=None)
@given(TABLES)
def test_prepared_training_rows_have_mean_zero_and_are_finite(raw):
    columns = [Column(f"c{i}") for i in range(raw.shape[1])]
    try:
        recipe = fit_recipe(raw, columns, np.arange(len(raw)))
    except DataError:
        return
    x = apply_recipe(recipe, raw)
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    assert np.abs(x.mean(axis=0, dtype=np.float64)).max() < 1e-4


@settings(max_examples=60, deadline=None)
@given(TABLES, st.integers(1, 20))
def test_new_rows_have_the_same_width_and_are_finite(raw, count):
    columns = [NUMBER, TOWN, Column("x"), Column("y")][: raw.shape[1]]
    if len(columns) > 1:
        raw[:, 1] = np.abs(raw[:, 1]) % 3 // 1
    try:
        recipe = fit_recipe(raw, columns, np.arange(len(raw)))
    except DataError:
        return
    new = np.random.default_rng(count).normal(scale=1e30, size=(count, len(columns)))
    x = apply_recipe(recipe, new)
    assert x.shape == (count, len(recipe.names))
    assert np.isfinite(x).all()


def test_other_rows_do_not_touch_the_statistics():
    raw = np.random.default_rng(0).normal(size=(50, 2))
    changed = raw.copy()
    changed[30:] = 1e6
    columns = [Column("a"), Column("b")]
    assert fit_recipe(raw, columns, np.arange(30)) == fit_recipe(changed, columns, np.arange(30))


def test_numbers_are_standardised():
    _, x = prepared([1, 2, 3, 4, 10])
    assert x[:, 0] == pytest.approx((np.array([1, 2, 3, 4, 10]) - 4) / np.std([1, 2, 3, 4, 10]))


def test_a_rare_flag_does_not_become_a_huge_number():
    _, x = prepared([0] * 999 + [1])
    assert x.max() == pytest.approx(2, abs=0.01)


def test_two_values_are_divided_by_half_their_distance_whatever_their_unit():
    _, x = prepared([1000, 1000, 3000, 3000])
    assert x[:, 0].tolist() == [-1, -1, 1, 1]


def test_a_number_that_is_nearly_always_the_same_does_not_become_huge():
    _, x = prepared([-105] * 997 + [-60, -70, -80])
    assert 1.5 < x.max() < 3


def test_missing_numbers_become_the_mean_and_a_flag():
    recipe, x = prepared([1, 2, 3, np.nan])
    assert recipe.names == ("age", "age is missing")
    assert recipe.sources == ("age", "age")
    assert x[3].tolist() == [0, 1.5]
    assert x[0, 1] == -0.5


def test_no_flag_when_training_rows_had_no_gaps():
    recipe, x = prepared([1, 2, 3, np.nan], rows=[0, 1, 2])
    assert recipe.names == ("age",)
    assert x[3].tolist() == [0]


def test_a_constant_column_is_dropped_and_named():
    raw = np.column_stack([np.ones(4), np.arange(4)])
    recipe = fit_recipe(raw, [Column("same"), Column("varied")], np.arange(4))
    assert recipe.names == ("varied",)
    assert "same" not in recipe.sources


def test_a_constant_with_gaps_keeps_the_flag_alone():
    recipe, x = prepared([5, np.nan, 5, 5])
    assert recipe.names == ("age is missing",)
    assert x[:, 0].tolist() == [-0.5, 1.5, -0.5, -0.5]


def test_a_party_left_without_columns_is_told_so():
    with pytest.raises(DataError, match=r"'bank'.*no column varies.*age"):
        prepared([7, 7, 7])


@pytest.mark.parametrize("endless", [np.inf, -np.inf])
def test_infinity_is_refused_with_column_and_row(endless):
    with pytest.raises(DataError, match=r"'bank', column 'age'.*row 2"):
        prepared([1, endless, 3])


def test_the_largest_numbers_are_scaled_without_overflow():
    _recipe, x = prepared([1.7e308, -1.7e308, 4.1e299, 0])
    assert np.isfinite(x).all()
    assert np.allclose(x.ravel(), [2**0.5, -(2**0.5), 0, 0], atol=1e-6)
    assert apply_recipe(prepared([1, 2, 3])[0], np.array([[1.7e308]])).tolist() == [[1e4]]


def test_infinity_in_new_rows_is_refused():
    recipe, _ = prepared([1, 2, 3])
    with pytest.raises(DataError, match=r"'shop', column 'age': found inf in row 1"):
        apply_recipe(recipe, np.array([[np.inf]]), party="shop")


def test_each_level_becomes_a_flag():
    recipe, x = prepared([0, 0, 1, 2], TOWN)
    assert recipe.names == ("town=Bonn", "town=Kiel", "town=Ulm")
    assert x[0].tolist() == [1, -0.5, -0.5]


def test_a_missing_category_is_a_level_of_its_own():
    recipe, x = prepared([0, 1, np.nan, np.nan], TOWN)
    assert recipe.names == ("town=Bonn", "town=Kiel", "town is missing")
    assert x[2].tolist() == [-0.5, -0.5, 1]


def test_an_unseen_level_is_no_level_at_all():
    recipe, _ = prepared([0, 0, 1, 1], TOWN)
    assert apply_recipe(recipe, np.array([[2.0], [9.0]])).tolist() == [[-1, -1], [-1, -1]]


def test_rare_levels_share_one_column_and_unseen_ones_join_them():
    codes = [code for code in range(100) for _ in range(200 - code)]
    recipe, x = prepared(codes, Column("town", "categorical", tuple(f"t{i}" for i in range(100))))
    assert len(recipe.names) == MOST_LEVELS + 1
    assert recipe.names[:2] == ("town=t0", "town=t1")
    assert recipe.names[-1] == "town is other"
    assert x[-1, -1] > 0
    assert x.mean(axis=0, dtype=float) == pytest.approx(0, abs=1e-5)
    assert apply_recipe(recipe, np.array([[1234.0]]))[0, -1] == x[-1, -1]


def test_pixels_share_one_mean_and_one_spread():
    raw = np.random.default_rng(0).integers(0, 256, size=(20, 3, 4, 5)).astype(np.uint8)
    recipe = fit_recipe(raw, [Column("image", "pixels")], np.arange(10))
    x = apply_recipe(recipe, raw)
    assert x.shape == raw.shape
    assert x.dtype == np.float32
    assert x[:10].mean(dtype=float) == pytest.approx(0, abs=1e-5)
    assert x[:10].std(dtype=float) == pytest.approx(1, abs=1e-5)


def test_blank_images_are_refused():
    with pytest.raises(DataError, match="every pixel"):
        fit_recipe(np.zeros((4, 1, 2, 2), dtype=np.uint8), [Column("image", "pixels")], np.arange(4))


def test_a_recipe_is_the_same_after_writing_and_reading():
    raw = np.array([[1, 0], [2, 1], [np.nan, 2], [4, np.nan]])
    recipe = fit_recipe(raw, [NUMBER, TOWN], np.arange(4))
    again = msgspec.json.decode(msgspec.json.encode(recipe), type=Recipe)
    assert again == recipe
    assert (apply_recipe(again, raw) == apply_recipe(recipe, raw)).all()


def test_rows_of_another_width_are_refused():
    recipe, _ = prepared([1, 2, 3])
    with pytest.raises(DataError, match="fitted on 1 columns"):
        apply_recipe(recipe, np.zeros((2, 3)))


@pytest.mark.parametrize("unit", [1e13, 1e99, 1e120, 1e200, 1e307, 1e-90, 1e-120, 1e-300])
def test_huge_and_tiny_numbers_are_prepared_as_usual_ones_are(unit):
    usual = np.random.default_rng(0).uniform(-17, 17, 50)
    _, expected = prepared(usual)
    _, found = prepared(usual * unit)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
