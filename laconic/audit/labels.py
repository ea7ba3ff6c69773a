"""Who has which label? Gradients that go down to a party fall into clusters, one a class; or labels go down as such."""

import numpy as np

from laconic.audit.finding import Finding
from laconic.core.values import Array, Rng
from laconic.learn.kmeans import cluster, purity


def infer_labels(gradients: Array, y: Array, rng: Rng, *, whose: str = "a party") -> Finding:
    """Cluster the gradients that a party received for its rows, and see how well clusters and classes agree.

    Args:
        gradients: a row each.
        y: the classes of the same rows; used to judge the attack only.
        rng: chance for the clustering.
        whose: the party that received them.
    """
    classes = np.unique(y)
    found = cluster(gradients.reshape(len(gradients), -1), len(classes), rng)
    return Finding(
        attack=f"labels from the gradients sent to {whose}",
        knows="the gradients that it was sent first, and how many classes there are",
        measure="share of rows in a cluster of mostly their own class",
        success=purity(found, np.searchsorted(classes, y)),
        chance=_commonest(y),
    )


def compare_labels(told: Array, y: Array, *, whose: str = "a party") -> Finding:
    """See how well the classes that a party was told, under whatever numbers, agree with the true ones.

    Args:
        told: a number for each row's class, with lies if any.
        y: the true classes of the same rows.
        whose: the party that was told.
    """
    return Finding(
        attack=f"labels told to {whose}",
        knows="what it was told",
        measure="share of rows whose class is that of most rows told alike",
        success=purity(told, np.unique(y, return_inverse=True)[1]),
        chance=_commonest(y),
    )


def _commonest(y: Array) -> float:
    return float(np.unique(y, return_counts=True)[1].max() / len(y))
