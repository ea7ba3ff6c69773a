"""Sums of columns: the same scaling as of all rows in one place, and nothing of few rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from laconic.data.schema_agreement import LEAST, add_sums, agree_task, recipe_from, released_columns, sums_of
from laconic.errors import DataError
from laconic.tables import Column, Recipe, Scaled, Table, Task, apply_recipe, fit_recipe

TASK = Task(kind="binary", classes=("no", "yes"))
NUMBERS = (Column("a"), Column("b"))


def party(raw, columns=NUMBERS):
    raw = np.asarray(raw, dtype=np.float64)
    return Table(
        raw,
        columns,
        y=np.zeros(len(raw)),
        task=TASK,
        cuts={"train": np.arange(len(raw))},
        party="north",
        recipe=Recipe(columns=tuple(columns)),
    )


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (30, 2), elements=st.floats(-1e6, 1e6)), st.integers(LEAST, 30 - LEAST))
def test_sums_of_two_parties_scale_as_all_rows_in_one_place_do(raw, cut):
    together = sums_of(party(raw))
    added = add_sums([sums_of(party(raw[:cut])), sums_of(party(raw[cut:]))])
    # Adding in another order rounds otherwise, in the last of some fifteen digits.
    np.testing.assert_allclose(added, together, rtol=1e-9, atol=1e-9 * (1 + (raw**2).sum()))


def test_a_column_that_is_mostly_0_is_scaled_as_rows_in_one_place_are():
    raw = np.zeros((40, 2))
    raw[:6, 0] = [50, 60, 70, 80, 90, 100]
    raw[:, 1] = np.arange(40)
    recipe = recipe_from(NUMBERS, add_sums([sums_of(party(raw[:20])), sums_of(party(raw[20:]))]))
    np.testing.assert_allclose(
        apply_recipe(recipe, raw), apply_recipe(fit_recipe(raw, NUMBERS, np.arange(40)), raw), rtol=1e-6
    )


def test_a_constant_is_dropped_however_large_it_is():
    raw = np.column_stack([np.full(21, 1e9 + 0.1), np.arange(21)])
    recipe = recipe_from(NUMBERS, add_sums([sums_of(party(raw[:10])), sums_of(party(raw[10:]))]))
    assert "a" not in recipe.sources


def test_a_column_that_few_rows_know_is_not_told():
    raw = np.column_stack([np.arange(20.0), np.arange(20.0)])
    raw[LEAST - 1 :, 0] = np.nan
    assert not sums_of(party(raw))[0].any()
    assert sums_of(party(raw))[1].any()


def test_a_level_that_few_rows_have_is_not_told():
    column = Column("ward", "categorical", ("A", "B", "C"))
    raw = np.array([[0.0]] * 10 + [[1.0]] * (LEAST - 1) + [[2.0]] * LEAST + [[3.0]] * 9)
    assert released_columns(party(raw, (column,)))[0].levels == ("A", "C")


def test_missing_cells_get_a_flag_by_their_share():
    raw = np.column_stack([np.arange(20.0), np.arange(20.0)])
    raw[:5, 0] = np.nan
    recipe = recipe_from(NUMBERS, sums_of(party(raw)))
    assert recipe.names == ("a", "a is missing", "b")
    assert recipe.parts[0] == Scaled(name="a", source=0, centre=12.0, scale=pytest.approx(np.arange(5, 20).std()))
    assert recipe.parts[1].share == 0.25


def test_rows_of_which_nothing_is_told_are_refused():
    with pytest.raises(DataError, match="no column varies among the training rows of all parties"):
        recipe_from(NUMBERS, sums_of(party(np.ones((30, 2)))))


def test_only_levels_are_counted_whatever_numbers_a_column_holds():
    raw = np.column_stack([np.linspace(-5, 5, 20), np.linspace(0, 1e13, 20)])
    assert [column.levels for column in released_columns(party(raw))] == [(), ()]


@pytest.mark.parametrize("unit", [1e13, 1e120, 1e149, 1e200, 1e307])
def test_huge_numbers_can_be_added_up_and_scaled(unit):
    raw = np.column_stack([np.random.default_rng(0).uniform(-17, 17, 40) * unit, np.arange(40)])
    x = apply_recipe(recipe_from(NUMBERS, add_sums([sums_of(party(raw[:20])), sums_of(party(raw[20:]))])), raw)
    assert 0.5 < np.abs(x[:, 0]).mean() < 2
    assert (np.sign(x[:, 0]) == np.sign(raw[:, 0])).mean() > 0.9


def test_a_single_huge_cell_does_not_stop_anything():
    raw = np.column_stack([np.random.default_rng(0).uniform(0, 1, 40), np.arange(40)])
    raw[3, 0] = 1e300
    assert np.isfinite(apply_recipe(recipe_from(NUMBERS, sums_of(party(raw))), raw)).all()


def test_all_parties_must_mean_counts():
    with pytest.raises(DataError, match="is a count at 'north' and a quantity at 'south'"):
        agree_task({"north": Task.said("counts"), "south": Task(kind="regression")})
