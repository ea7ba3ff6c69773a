"""K-means: rows in, a cluster number a row out. Started by k-means++ several times; the tightest result is kept."""

import numpy as np

from laconic.core.values import Array, Rng


def cluster(
    rows: Array, count: int, rng: Rng, *, normalise: bool = True, restarts: int = 10, iterations: int = 100
) -> Array:
    """Put each row into one of `count` clusters, numbered from 0 in no special order.

    Args:
        rows: shape (rows, numbers).
        count: how many clusters; fewer come out if there are fewer different rows.
        rng: chance for the starting points.
        normalise: give every row length 1 first, so that direction alone counts. Gradients need this: those of rows
            that a model already gets right point where they should, but are short.
        restarts: how many starts to try.
        iterations: how long one start goes on at most.
    """
    if count < 1:
        raise ValueError(f"count must be 1 cluster or more, not {count}")
    points = np.asarray(rows, dtype=np.float64)
    if normalise:
        points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-30)
    tries = [_settle(points, _plus_plus(points, count, rng), iterations) for _ in range(restarts)]
    return min(tries, key=lambda one: one[0])[1]


def purity(clusters: Array, labels: Array) -> float:
    """The share of rows whose label is the commonest one of their cluster."""
    right = [np.bincount(labels[clusters == one].astype(int)).max() for one in np.unique(clusters)]
    return float(sum(right) / len(labels))


def _plus_plus(points: Array, count: int, rng: Rng) -> Array:
    """Starting centres, each drawn the likelier the farther it is from those before (Arthur, Vassilvitskii 2007)."""
    chosen = [int(rng.integers(len(points)))]
    away = _squared(points, points[chosen]).min(axis=1)
    while len(chosen) < count:
        total = away.sum()
        # All rows are on a centre already: any row will do.
        chances = away / total if total > 0 else None
        chosen.append(int(rng.choice(len(points), p=chances)))
        away = np.minimum(away, _squared(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _settle(points: Array, centres: Array, iterations: int) -> tuple[float, Array]:
    """Lloyd's iterations until no row changes its cluster: the squared distances' sum, and the clusters."""
    owner = np.full(len(points), -1)
    for _ in range(iterations):
        nearest = _squared(points, centres).argmin(axis=1)
        if (nearest == owner).all():
            break
        owner = nearest
        members = owner[:, None] == np.arange(len(centres))
        counts = members.sum(axis=0)[:, None]
        # A centre that lost all its rows stays where it is.
        centres = np.where(counts > 0, members.T.astype(np.float64) @ points / np.maximum(counts, 1), centres)
    return float(_squared(points, centres).min(axis=1).sum()), owner


def _squared(points: Array, centres: Array) -> Array:
    crossed = points @ centres.T
    found = (points**2).sum(axis=1)[:, None] - 2 * crossed + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(found, 0.0))
