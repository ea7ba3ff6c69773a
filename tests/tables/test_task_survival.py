"""Times to an event: signs, concordance and Brier by hand, and what cannot be such labels."""

import numpy as np
import pytest

from laconic.errors import DataError
from laconic.tables import Column, LabelScale, Table, Task
from laconic.tables.task import brier, events_of, headline, metrics, pairs_of, resample, signed_times, still_watched

DAYS = Task(kind="survival", label="days", event="died", scale=LabelScale(4.0, 1.0))


def test_a_time_of_zero_keeps_whether_the_event_came():
    assert events_of(signed_times(np.array([0.0, 0.0, 3.0]), np.array([1, 0, 0]))).tolist() == [True, False, False]


def test_concordance_counts_known_pairs_and_ties_by_half():
    # The event at 2 comes before all three others, that at 5 before 7 alone: four pairs; 4 is lost to view before 5.
    y = np.array([2.0, -4.0, 5.0, -7.0])
    assert pairs_of(y, np.array([3.0, 1.0, 2.0, 0.0])).share == 1.0
    assert pairs_of(y, np.array([3.0, 1.0, 0.0, 2.0])).share == 3 / 4
    assert pairs_of(y, np.array([3.0, 3.0, 0.0, 2.0])).share == 2.5 / 4


def test_of_equal_times_only_an_event_and_a_censored_row_are_a_pair():
    assert pairs_of(np.array([3.0, 3.0]), np.array([1.0, 2.0])).known.sum() == 0
    assert pairs_of(np.array([3.0, -3.0]), np.array([1.0, 2.0])).share == 0.0


def test_concordance_is_one_half_where_no_pair_is_known():
    assert pairs_of(np.array([-1.0, -2.0]), np.array([1.0, 2.0])).share == 0.5


def test_concordance_in_pieces_is_that_of_all_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    y, risk = np.round(rng.normal(size=80) * 9), rng.normal(size=80)
    whole = pairs_of(y, risk)
    monkeypatch.setattr("laconic.tables.task._AT_ONCE", 100)
    assert pairs_of(y, risk).right == pytest.approx(whole.right)


def test_the_chance_to_be_watched_still_falls_with_each_row_lost():
    # Four rows; one of three is lost at 2, and the last at 4.
    y = np.array([1.0, -2.0, 3.0, -4.0])
    assert still_watched(y, np.array([1.9, 2.0, 4.0])).tolist() == pytest.approx([1.0, 2 / 3, 0.0])
    assert still_watched(y, np.array([2.0, 3.0]), before=True).tolist() == pytest.approx([1.0, 2 / 3])


def test_brier_weighs_rows_by_who_was_lost_to_view():
    # At 2.5: the event at 1 counts once (nobody was lost before), 3 and 4 count 1 / (2 / 3), the one lost at 2 not.
    y, chance = np.array([1.0, -2.0, 3.0, -4.0]), np.array([0.2, 0.9, 0.6, 0.8])
    expected = (0.2**2 + 1.5 * (0.4**2 + 0.2**2)) / 4
    assert brier(y, np.log(-np.log(chance)), 2.5) == pytest.approx(expected)


def test_survival_is_scored_by_concordance_and_brier():
    y = np.array([2.0, -4.0, 5.0, -7.0])
    found = metrics(DAYS, y, np.array([1.0, 0.0, -1.0, -2.0]))
    assert found.keys() == {"concordance", "brier"}
    assert headline(DAYS, found).metric == "concordance"
    assert DAYS.decide(np.array([0.0])) == pytest.approx(1 - np.exp(-1))


def test_resamples_are_about_the_concordance():
    rng = np.random.default_rng(1)
    risk = rng.normal(size=300)
    y = signed_times(rng.exponential(np.exp(-risk)), rng.random(300) < 0.6)
    drawn = resample(DAYS, y, risk)
    direct = []
    for _ in range(100):
        some = rng.integers(300, size=300)
        direct.append(pairs_of(y[some], risk[some]).share)
    assert drawn.mean() == pytest.approx(pairs_of(y, risk).share, abs=0.01)
    # To first order; a hundred draws show the spread to about a tenth of it.
    assert drawn.std() == pytest.approx(np.std(direct), rel=0.35)


def test_rows_of_which_none_had_the_event_are_refused():
    x = np.arange(6.0)[:, None]
    with pytest.raises(DataError, match=r"none of 6 training rows had the event \(died\).*give it more rows"):
        Table(x, [Column("age")], y=-np.arange(1.0, 7.0), task=DAYS, party="north")


def test_events_that_are_all_held_out_are_said_to_be():
    y = np.array([-1.0, -2.0, -3.0, 4.0, 5.0, -6.0])
    cuts = {"train": np.arange(3), "test": np.arange(3, 6)}
    with pytest.raises(DataError, match=r"all 2 are among the rows held out, so hold out fewer \(data.test\)"):
        Table(np.arange(6.0)[:, None], [Column("age")], y=y, task=DAYS, party="north", cuts=cuts)


def test_the_horizon_is_the_mean_time_watched():
    task = Task(kind="survival", label="days", event="died")
    table = Table(np.arange(4.0)[:, None], [Column("age")], y=np.array([1.0, -2.0, 3.0, -6.0]), task=task)
    assert table.task is not None
    assert table.task.horizon == 3.0
