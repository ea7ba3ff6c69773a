"""Curves of predictions: right by hand, and never of a single row."""

import numpy as np
import pytest

from laconic.tables import Task, metrics
from laconic.tables.task import bins_of, quality_of

BINARY = Task(kind="binary", classes=("no", "yes"))


def test_the_roc_curve_is_as_worked_out_by_hand():
    found = quality_of(BINARY, np.array([1, 0, 1, 0]), np.array([0.9, 0.7, 0.7, 0.1]))
    assert found.roc == ((0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0))
    assert found.area == 0.875 and found.bins == ()


def test_the_area_of_a_shortened_curve_is_near_the_auc():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5000)
    p = 1 / (1 + np.exp(-(y + rng.normal(size=5000))))
    found = quality_of(BINARY, y, p)
    assert len(found.roc) <= 62
    assert found.area == pytest.approx(metrics(BINARY, y, p)["auc"], abs=2e-3)


@pytest.mark.parametrize("rows", [9, 10, 57, 1000])
def test_no_bin_has_fewer_than_ten_rows_and_all_rows_count(rows):
    rng = np.random.default_rng(rows)
    p = np.round(rng.random(rows), 1)
    found = bins_of(p, rng.random(rows))
    assert all(one.rows >= 10 for one in found)
    assert sum(one.rows for one in found) == (rows if rows >= 10 else 0)


def test_one_class_has_no_curve_and_classes_are_calibrated_by_the_one_named():
    assert quality_of(BINARY, np.ones(40), np.linspace(0, 1, 40)).roc == ()
    task = Task(kind="multiclass", classes=("a", "b", "c"))
    p = np.tile([0.6, 0.3, 0.1], (40, 1))
    (only,) = quality_of(task, np.array([0, 1] * 20), p).bins
    assert (only.predicted, only.true, only.rows) == (0.6, 0.5, 40)
