"""Matrices filled up with zeros to full lanes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laconic.learn.kernels import LANES, widen, widened


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), tall=st.booleans())
def test_numbers_stay_and_the_rest_is_zero(rows, columns, tall):
    values = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    wide = widen(values, rows=tall).numpy()
    assert wide.shape == (widened(rows) if tall else rows, widened(columns))
    assert (wide[:rows, :columns] == values).all()
    assert np.count_nonzero(wide) == np.count_nonzero(values)


@given(count=st.integers(1, 1000))
def test_the_next_multiple_is_the_nearest_from_above(count):
    assert widened(count) % LANES == 0
    assert 0 <= widened(count) - count < LANES
