import numpy as np
import pytest

from laconic.methods.families.guided import in_bins


def test_numbers_are_put_into_bins_of_about_equally_many_rows():
    codes, count = in_bins(np.array([5.0, 1.0, 2.0, 8.0, 7.0, 3.0]), 3)
    assert codes.tolist() == [1, 0, 0, 2, 2, 1]
    assert count == 3


def test_shared_rows_that_all_have_the_same_number_are_refused():
    with pytest.raises(ValueError, match=r"all 4 shared rows have the same label, 2\.5, .* share more rows"):
        in_bins(np.full(4, 2.5), 8)
