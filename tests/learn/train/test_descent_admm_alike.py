"""Rows that are exactly alike."""

import numpy as np

from laconic.learn.train import descent as alike
from laconic.learn.train.descent import each_alone, find_duplicates


def _images():
    blank, dot, line = np.zeros((1, 2, 3), np.float32), np.eye(2, 3, dtype=np.float32)[None], np.ones((1, 2, 3), "f4")
    return np.stack([blank, dot, blank, line, dot, blank])


def test_rows_are_sorted_into_kinds():
    found = find_duplicates(_images())
    assert found.kind.tolist() == [0, 1, 0, 2, 1, 0]
    assert found.first.tolist() == [0, 1, 3]
    assert found.counts.tolist() == [3, 2, 1]
    assert (_images()[found.first][found.kind] == _images()).all()


def test_means_are_taken_within_a_kind():
    values = np.array([[1.0], [10.0], [2.0], [7.0], [20.0], [6.0]], np.float32)
    assert find_duplicates(_images()).means(values).tolist() == [[3.0], [15.0], [7.0]]


def test_rows_left_alone_are_a_kind_each():
    found = each_alone(3)
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert (found.means(values) == values).all()
    assert found.counts.tolist() == [1, 1, 1]


def test_rows_with_an_odd_number_of_columns_are_sorted_too():
    assert find_duplicates(np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3]], np.float32)).kind.tolist() == [0, 1, 0]


def test_rows_that_only_seem_alike_are_left_alone(monkeypatch):
    monkeypatch.setattr(alike, "_weights", lambda words: np.zeros(words, np.uint64))
    assert find_duplicates(_images()).first.tolist() == [0, 1, 2, 3, 4, 5]
