"""Votes of many models on the same rows: counting them, agreeing within a group, and naming a winner."""

import numpy as np

from laconic.core.values import Array, Rng


def count_votes(votes: Array, classes: int) -> Array:
    """How many models say each class of each row, from class codes of shape (models, rows)."""
    return np.asarray((votes[:, :, None] == np.arange(classes)).sum(axis=0))


def count_consistent(groups: list[Array], classes: int) -> Array:
    """As `count_votes` over groups of models, but a group counts for a row only if all its models agree on it.

    An agreeing group gives as many votes as it has models.
    """
    rows = groups[0].shape[1]
    counts = np.zeros((rows, classes), dtype=np.int64)
    for votes in groups:
        agreed = np.flatnonzero((votes == votes[:1]).all(axis=0))
        counts[agreed, votes[0, agreed]] += len(votes)
    return counts


def fall_back(counts: Array, groups: list[Array]) -> Array:
    """Counts in which rows that nobody agreed on get the plain votes of all models.

    Where those are equal too, the class that is commoner in all votes on all rows comes first.
    """
    plain = count_votes(np.concatenate(groups), counts.shape[1])
    commonness = plain.sum(axis=0) / (plain.sum() + 1.0)
    return np.where(counts.sum(axis=1, keepdims=True) == 0, plain + commonness, counts)


def winners(counts: Array, rng: Rng) -> Array:
    """The class with the most votes of each row; equal ones are drawn from, not decided by their order."""
    ties = rng.random(counts.shape)
    return np.asarray(np.where(counts == counts.max(axis=1, keepdims=True), ties, -1.0).argmax(axis=1))
