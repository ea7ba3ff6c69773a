import numpy as np
import pytest

from laconic.learn.trees.distributed_trees import (
    begin_growth,
    begin_trees,
    best_splits,
    complete_pairs,
    first_margins,
    fit_bins,
    gradients,
    histograms_of,
    leaf_of,
    move,
    rows_of,
    sides,
    to_bins,
)
from laconic.tables import Task

pytest.importorskip("xgboost")


def test_bins_hold_about_equally_many_rows_and_every_cell_is_in_one():
    x = np.random.default_rng(0).normal(size=(4000, 2)).astype(np.float32)
    bins = fit_bins(x, 16)
    flat = to_bins(bins, x)
    assert bins["counts"].tolist() == [16, 16]
    assert np.bincount(flat.ravel()).min() > 4000 / 16 * 0.8


def test_a_column_is_cut_the_same_alone_and_beside_others():
    x = np.random.default_rng(1).normal(size=(500, 3)).astype(np.float32)
    together, alone = fit_bins(x, 8), fit_bins(x[:, 1:2], 8)
    assert together["edges"][8:16].tolist() == alone["edges"].tolist()


def test_cells_beyond_the_last_edge_are_in_the_last_bin():
    bins = {"edges": np.array([1.0, 2.0, 5.0, 6.0], np.float32), "counts": np.array([2, 2])}
    x = np.array([[0.0, 0.0], [1.0, 5.0], [9.0, 9.0]], np.float32)
    assert to_bins(bins, x).tolist() == [[0, 2], [1, 3], [1, 3]]


def test_the_best_split_is_the_one_worked_out_by_hand():
    """Gradients -2, -2 | 3, 3 in two bins, hessians 1: with penalty 1, 16/3 + 36/3 less 4/5 for the whole."""
    histogram = np.array([[[-4.0, 2.0], [6.0, 2.0], [2.0, 4.0]]])
    found = best_splits(histogram, np.array([2, 1]), np.array([[2.0, 4.0]]), penalty=1.0)
    assert (found.column[0], found.cut[0]) == (0, 0)
    assert found.gain[0] == pytest.approx(16 / 3 + 36 / 3 - 4 / 5)
    assert found.left[0].tolist() == [-4.0, 2.0]
    assert found.right[0].tolist() == [6.0, 2.0]


def test_a_node_too_light_for_two_children_is_not_split():
    histogram = np.array([[[-1.0, 0.6], [1.0, 0.6]]])
    found = best_splits(histogram, np.array([2]), np.array([[0.0, 1.2]]), penalty=1.0)
    assert found.gain[0] == -np.inf


def test_of_equally_good_columns_the_first_wins():
    histogram = np.array([[[-4.0, 2.0], [6.0, 2.0], [-4.0, 2.0], [6.0, 2.0]]])
    assert best_splits(histogram, np.array([2, 2]), np.array([[2.0, 4.0]]), penalty=1.0).column[0] == 0


def test_a_leaf_answers_with_the_penalised_mean():
    assert leaf_of(np.array([[-6.0, 2.0], [5.0, 0.5]]), penalty=1.0).tolist() == [2.0, 0.0]


def test_a_sibling_follows_from_its_parent():
    rng, depth = np.random.default_rng(2), 2
    state = begin_growth(rng.normal(size=(300, 4)).astype(np.float32), 8)
    state["gradients"] = rng.normal(size=(1, 300, 2)).astype(np.float32)
    begin_trees(state, 1, depth)
    root = np.array([0])
    complete_pairs(state, root[:0], root, histograms_of(state, root), depth)
    right = sides(state, root, np.array([1]), np.array([3]))
    move(state, root, right, depth)
    both = complete_pairs(state, root, np.array([2]), histograms_of(state, np.array([2])), depth)
    assert both == pytest.approx(histograms_of(state, np.array([1, 2])), abs=1e-12)
    assert len(rows_of(state, np.array([2]))[0]) == np.unpackbits(right).sum()


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(3)
    margins = rng.normal(size=(3, 50)).astype(np.float32)
    y = rng.integers(0, 3, 50)
    task = Task(kind="multiclass", classes=("a", "b", "c"))
    found = gradients(task, margins, y)
    assert found[:, :, 0].sum(axis=0) == pytest.approx(np.zeros(50), abs=1e-6)
    shifted = margins + np.array([[1e-3], [0], [0]], np.float32)

    def loss(values):
        values = values.astype(np.float64)
        return np.log(np.exp(values).sum(axis=0)) - values[y, np.arange(50)]

    assert (loss(shifted) - loss(margins)) / 1e-3 == pytest.approx(found[0, :, 0], abs=2e-3)
    assert first_margins(Task(kind="regression"), np.array([1.0, 3.0])).tolist() == [[2.0, 2.0]]
