"""Bins and weights of evidence: fitted on training rows, kept as plain values, the same for rows that come later."""

import msgspec
import numpy as np
import pytest

from laconic.errors import DataError
from laconic.tables.columns import Column, Recipe, apply_recipe, fit_bins, fit_recipe, fit_weights
from laconic.tables.table import Table
from laconic.tables.task import Task


def test_quantile_bins_hold_equally_many_training_rows_and_every_row_is_in_one():
    cells = np.random.default_rng(0).normal(size=1000)
    bins = list(fit_bins("x", 0, cells))
    assert len(bins) == 10
    flags = np.column_stack([part.apply(cells) > 0 for part in bins])
    assert flags.sum(axis=1).tolist() == [1] * 1000
    assert flags.sum(axis=0).tolist() == [100] * 10
    beyond = np.array([-99.0, 99.0, np.nan])
    assert np.column_stack([part.apply(beyond) > 0 for part in bins]).sum(axis=1).tolist() == [1, 1, 0]


def test_a_number_that_many_rows_have_is_one_bin():
    bins = list(fit_bins("x", 0, np.r_[np.zeros(700), np.arange(1.0, 301)]))
    assert bins[0].name == "x <= 0"
    assert bins[0].share == 0.7


def test_the_weight_of_evidence_is_that_worked_out_by_hand():
    # 100 rows: level 0 has 30 positive of 40, level 1 has 10 positive of 60.
    cells = np.r_[np.zeros(40), np.ones(60)]
    positive = np.r_[np.ones(30), np.zeros(10), np.ones(10), np.zeros(50)].astype(bool)
    (part,) = fit_weights("town", 0, cells, positive, levels=True)
    # Half a row is added to each of the four counts of each class: two levels, rare levels, missing cells.
    ups, downs = 40 + 2, 60 + 2
    expected = [np.log(30.5 / ups) - np.log(10.5 / downs), np.log(10.5 / ups) - np.log(50.5 / downs)]
    np.testing.assert_allclose(part.weights, expected)
    assert (part.missing, part.other) == (0, 0)
    prepared = part.apply(cells)
    assert abs(prepared.mean()) < 1e-9
    assert abs(prepared.std() - 1) < 1e-9


def test_rare_and_unseen_levels_share_a_weight_and_missing_cells_have_their_own():
    rng = np.random.default_rng(1)
    cells = np.r_[np.zeros(500), np.ones(400), np.arange(2.0, 52), np.full(50, np.nan)]
    positive = rng.random(1000) < np.r_[np.full(900, 0.2), np.full(50, 0.9), np.full(50, 0.6)]
    (part,) = fit_weights("town", 0, cells, positive, levels=True)
    assert part.codes == (0, 1)
    assert part.other > part.missing > max(part.weights)
    assert part.weigh(np.array([7.0, 999.0, np.nan])).tolist() == [part.other, part.other, part.missing]


def test_numbers_are_weighed_by_their_bin():
    cells = np.linspace(0, 1, 1000)
    (part,) = fit_weights("x", 0, cells, cells > 0.5, levels=False)
    assert len(part.weights) == 10
    assert np.all(np.diff(part.weights)[4] > 5)
    assert part.weigh(np.array([-5.0, 5.0])).tolist() == [part.weights[0], part.weights[-1]]
    assert part.weigh(np.array([np.nan])).tolist() == [0]


def table(y, prepare="woe", levels=("a", "b", "c")):
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.integers(3, size=200), rng.normal(size=200)])
    columns = [Column("town", "categorical", levels, prepare), Column("income", prepare=prepare)]
    cuts = {"train": np.arange(150), "test": np.arange(150, 200)}
    return Table(
        raw, columns, y=y, task=Task(kind="binary", classes=("no", "yes"), label="left"), cuts=cuts, party="bank"
    )


def test_labels_of_held_out_rows_do_not_enter_the_weights():
    y = np.random.default_rng(3).integers(2, size=200)
    other = np.r_[y[:150], 1 - y[150:]]
    assert table(y).recipe == table(other).recipe
    assert table(y).recipe != table(np.r_[1 - y[:150], y[150:]]).recipe
    assert table(y).x.shape == (200, 2)


def test_a_recipe_with_bins_and_weights_is_plain_values_and_prepares_new_rows_alike():
    made = table(np.random.default_rng(3).integers(2, size=200))
    stored = msgspec.json.decode(msgspec.json.encode(made.recipe), type=Recipe)
    assert stored == made.recipe
    np.testing.assert_array_equal(apply_recipe(stored, made.raw[150:]), made.x[150:])
    assert made.recipe.names == ("town (weight of evidence)", "income (weight of evidence)")


def test_weights_of_evidence_without_labels_are_refused():
    with pytest.raises(DataError, match="party 'shop', column 'x': a weight of evidence needs labels of two classes"):
        fit_recipe(np.arange(9.0)[:, None], [Column("x", prepare="woe")], np.arange(9), party="shop")
