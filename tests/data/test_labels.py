"""Labels as a model takes them: whole codes of classes, whoever reads them."""

import pandas as pd
import pytest

from laconic.data.labels import read_labels
from laconic.tables import Task


@pytest.mark.parametrize("words", [["yes", "no", "yes"], ["1", "0", "1.0"], []])
def test_classes_are_whole_codes_also_for_labels_that_are_added_later(words):
    task = Task(kind="binary", classes=("0", "1") if "0" in words else ("no", "yes"), label="sick")
    codes, _ = read_labels(pd.Series(words, name="sick", dtype="string"), task, "ward")
    assert codes.dtype.kind == "i"
    assert codes.tolist() == [1, 0, 1][: len(words)]
