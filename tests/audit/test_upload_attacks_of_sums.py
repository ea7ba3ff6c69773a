"""Sums of few rows give the rows away, sums of many do not."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from laconic.audit.upload_attacks import lone_rows, rebuild_rows, tell_members
from laconic.learn.models.least_squares import sum_up, targets_of
from laconic.tables import Task

DIGITS = Task(kind="multiclass", classes=tuple("0123456789"))


def yes_or_no(rows):
    return (np.random.default_rng(1).random((rows, 120)) < 0.2).astype(np.float64)


def sums_of(x):
    return sum_up(x, np.ones((len(x), 1)), exact=True)


@pytest.mark.parametrize(("rows", "least", "most"), [(2, 1.0, 1.0), (12, 1.0, 1.0), (60, 0.0, 0.1)])
def test_yes_or_no_rows_are_rebuilt_while_they_are_few(rows, least, most):
    x = yes_or_no(rows)
    assert least <= rebuild_rows(sums_of(x), x, np.random.default_rng(0)).success <= most


def test_also_from_sums_rounded_as_they_are_sent():
    x = yes_or_no(10)
    sums = sums_of(x)
    sent = type(sums)(gram=sums.gram.astype(np.float32), moments=sums.moments, squares=sums.squares, rows=10)
    assert rebuild_rows(sent, x, np.random.default_rng(0)).success == 1.0


def test_a_row_alone_in_its_class_stands_in_the_sums():
    x, y = load_digits(return_X_y=True)
    kept = [*np.flatnonzero(y != 7)[:300].tolist(), int(np.flatnonzero(y == 7)[0])]
    found = lone_rows(sum_up(x[kept], targets_of(DIGITS, y[kept]), exact=True))
    assert (found == x[kept[-1]]).all()


def test_members_are_told_from_others_while_rows_are_fewer_than_columns():
    x = np.random.default_rng(0).standard_normal((600, 40))
    assert tell_members(sums_of(x[:30]), x[:30], x[300:330]).success == 1.0
    assert abs(tell_members(sums_of(x[:300]), x[:300], x[300:]).success - 0.5) < 0.1
