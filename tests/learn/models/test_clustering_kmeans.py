import numpy as np
import pytest

from laconic.learn.models.clustering import cluster, purity


def test_far_apart_groups_are_found_whole():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=300)
    rows = rng.standard_normal((5, 4))[labels] * 10 + rng.standard_normal((300, 4)) * 0.1
    assert purity(cluster(rows, 5, rng, normalise=False), labels) == 1.0


def test_directions_are_found_where_lengths_hide_them():
    """Purity on both: gradients of a trained classifier are of all lengths, and raw ones cluster by length."""
    rng = np.random.default_rng(3)
    labels = rng.integers(10, size=500)
    directions = rng.standard_normal((10, 16))[labels] + rng.standard_normal((500, 16)) * 0.15
    gradients = directions * np.exp(3 * rng.standard_normal((500, 1)))
    assert purity(cluster(gradients, 10, rng, normalise=True), labels) > 0.99
    assert purity(cluster(gradients, 10, rng, normalise=False), labels) < 0.6


def test_more_starts_are_never_looser():
    rows = np.random.default_rng(1).standard_normal((200, 2))

    def spread(restarts):
        owner = cluster(rows, 8, np.random.default_rng(4), normalise=False, restarts=restarts)
        return sum(((rows[owner == one] - rows[owner == one].mean(axis=0)) ** 2).sum() for one in np.unique(owner))

    assert spread(10) <= spread(1)


def test_fewer_different_rows_than_clusters_are_no_trouble():
    rows = np.repeat(np.eye(2), 5, axis=0)
    owner = cluster(rows, 4, np.random.default_rng(0))
    assert purity(owner, np.repeat([0, 1], 5)) == 1.0


def test_no_clusters_are_refused():
    with pytest.raises(ValueError, match="1 cluster or more, not 0"):
        cluster(np.eye(3), 0, np.random.default_rng(0))


def test_purity_counts_the_commonest_label_of_each_cluster():
    assert purity(np.array([0, 0, 0, 1, 1]), np.array([2, 2, 1, 1, 1])) == 0.8
