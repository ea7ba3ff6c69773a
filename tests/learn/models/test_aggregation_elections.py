"""Votes: who counts, how ties are drawn, classes that come as often as they should, and noise that averages out."""

import numpy as np
import pytest

from laconic.learn.models.aggregation import (
    count_consistent,
    count_votes,
    cut_at_shares,
    fall_back,
    smooth_votes,
    winners,
)

# Two parties with two models each, four rows: both agree, one agrees, none agrees, they contradict.
FIRST = np.array([[0, 0, 0, 0], [0, 0, 1, 0]])
SECOND = np.array([[0, 1, 1, 1], [0, 0, 0, 1]])


def test_votes_are_counted_by_class():
    assert count_votes(FIRST, 3).tolist() == [[2, 0, 0], [2, 0, 0], [1, 1, 0], [2, 0, 0]]


def test_a_party_counts_as_many_votes_as_it_has_models_only_where_they_agree():
    assert count_consistent([FIRST, SECOND], 2).tolist() == [[4, 0], [2, 0], [0, 0], [2, 2]]


def test_rows_nobody_agrees_on_fall_back_to_plain_votes_then_to_the_commoner_class():
    counts = fall_back(count_consistent([FIRST, SECOND], 2), [FIRST, SECOND])
    assert counts[:2].tolist() == [[4, 0], [2, 0]]
    assert counts[2, 0] > counts[2, 1]
    assert abs(counts[2] - 2).max() < 1


def test_ties_are_drawn_from_and_not_decided_by_their_order():
    found = winners(np.tile([3, 3, 1], (4000, 1)), np.random.default_rng(0))
    # Standard error of a share of one half among 4,000 draws: 0.008.
    assert abs((found == 0).mean() - 0.5) < 0.04
    assert set(found.tolist()) == {0, 1}


def test_the_most_votes_win():
    assert winners(np.array([[1, 5, 2], [9, 0, 0]]), np.random.default_rng(0)).tolist() == [1, 0]


def test_groups_may_count_by_weight():
    assert count_consistent([FIRST, SECOND], 2, np.array([5.0, 1.0])).tolist() == [[6, 0], [5, 0], [0, 0], [5, 1]]


def test_the_rows_that_lead_most_get_a_class_that_votes_name_too_seldom():
    # Class 1 wins nowhere, yet a quarter of the rows are of it: those where it is least behind.
    behind = np.arange(100.0)
    found = cut_at_shares(
        np.stack([100 + behind, np.zeros(100)], axis=1), np.array([0.75, 0.25]), np.random.default_rng(0)
    )
    assert np.flatnonzero(found).tolist() == list(range(25))


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [0.0, 0.9, 0.1], [1 / 3] * 3])
def test_several_classes_come_nearly_as_often_as_they_should(shares):
    scores = np.random.default_rng(0).normal(size=(600, 3)) + np.array([3, 0, 0])
    found = np.bincount(cut_at_shares(scores, np.array(shares), np.random.default_rng(1)), minlength=3)
    assert np.abs(found / 600 - shares).max() < 0.01


def test_equal_votes_are_still_cut_at_the_share():
    found = cut_at_shares(np.zeros((1000, 2)), np.array([0.9, 0.1]), np.random.default_rng(0))
    assert found.sum() == 100


def test_smoothing_takes_most_noise_off():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    votes = np.stack([25 - 10 * x[:, 0], 25 + 10 * x[:, 0]], axis=1)
    noisy = votes[:300] + rng.normal(size=(300, 2)) * 40
    smooth = smooth_votes(noisy, x[:300], x, 40.0)
    right = votes.argmax(axis=1)
    assert (noisy.argmax(axis=1) == right[:300]).mean() < 0.65
    assert (smooth.argmax(axis=1) == right).mean() > 0.8


def test_smoothing_pure_noise_says_the_same_of_all_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 20))
    smooth = smooth_votes(rng.normal(size=(200, 2)) * 10, x[:200], x, 10.0)
    assert np.ptp(smooth) < 10
