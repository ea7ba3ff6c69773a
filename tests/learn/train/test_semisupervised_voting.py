"""Votes: a party counts only where its models agree, and ties are drawn."""

import numpy as np

from laconic.learn.train.semisupervised import count_consistent, count_votes, fall_back, winners

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
