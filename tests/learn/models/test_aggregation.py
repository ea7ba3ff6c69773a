"""Averages of models, by numbers worked out by hand."""

import numpy as np
import pytest

from laconic.learn import Krum, Mean, Median, TrimmedMean

MODELS = [{"w": np.array([value], np.float32)} for value in (1.0, 2.0, 3.0, 1000.0)]
ROWS = [10.0, 10.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("average", "expected"),
    [(Mean(), 251.5), (Median(), 2.5), (TrimmedMean(bad=1), 2.5), (Krum(bad=1), 2.0), (Krum(bad=1, keep=1), 1.0)],
)
def test_one_weight_of_four_models(average, expected):
    found = average.combine(MODELS, ROWS)["w"]
    assert found[0] == expected and found.dtype == np.float32


@pytest.mark.parametrize("average", [Median(), TrimmedMean(), Krum()])
def test_stated_numbers_of_rows_give_nobody_more_say(average):
    found = average.combine(MODELS, [1.0, 1.0, 1.0, 1e12])["w"]
    assert found == average.combine(MODELS, ROWS)["w"]


@pytest.mark.parametrize("average", [Mean(), Median(), TrimmedMean(), Krum()])
def test_a_party_without_rows_counts_for_nothing(average):
    five = [*MODELS, {"w": np.array([-1e6], np.float32)}]
    assert average.combine(five, [*ROWS, 0.0])["w"] == average.combine(MODELS, ROWS)["w"]


@pytest.mark.parametrize("average", [Mean(), Median(), TrimmedMean(), Krum()])
def test_nobody_with_rows_is_an_error(average):
    with pytest.raises(ValueError, match="no party has any rows"):
        average.combine(MODELS, [0.0] * 4)


@pytest.mark.parametrize("average", [TrimmedMean(bad=2), Krum(bad=2)])
def test_too_few_models_for_so_many_bad_ones_are_refused(average):
    with pytest.raises(ValueError, match="needs the models of 5 parties"):
        average.combine(MODELS, ROWS)


def test_nobody_bad_is_refused():
    with pytest.raises(ValueError, match="bad must be 1 or more"):
        Krum(bad=0)


def test_outputs_are_averaged_as_models_are():
    outputs = [model["w"] for model in MODELS]
    assert Mean().mean_outputs(outputs) == 251.5 and Median().mean_outputs(outputs) == 2.5
