"""Who has which label? Gradients that go down to a party fall into clusters, one a class."""

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
        knows="the gradients of one batch, and how many classes there are",
        measure="share of rows in a cluster of mostly their own class",
        success=purity(found, np.searchsorted(classes, y)),
        chance=float(max((y == one).mean() for one in classes)),
    )
