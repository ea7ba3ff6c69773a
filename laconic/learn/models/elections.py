"""Elections: how models' votes on public rows become the classes that the next model learns.

Votes are counted as FedKT counts them (Li, He, Song 2021): a group of models counts for a row only where all agree.
Two things are ours. `cut_at_shares` lets classes win as often as they come, which plain majorities miss where most
voters hold few rows of a class. `smooth_votes` learns from noisy counts themselves instead of from who seems to have
won, so that the noise on many rows averages out; both use nothing but counts and public rows.
"""

import numpy as np

from laconic.values import Array, Rng, flat

_SWEEPS = 20
_PENALTIES = np.logspace(-3, 6, 55)


def count_votes(votes: Array, classes: int) -> Array:
    """How many models say each class of each row, from class codes of shape (models, rows)."""
    return np.asarray((votes[:, :, None] == np.arange(classes)).sum(axis=0))


def count_consistent(groups: list[Array], classes: int, weights: Array | None = None) -> Array:
    """As `count_votes` over groups of models, but a group counts for a row only if all its models agree on it.

    An agreeing group gives as many votes as it has models, or as `weights` says for each group.
    """
    counts = np.zeros((groups[0].shape[1], classes), dtype=np.int64 if weights is None else np.float64)
    for place, votes in enumerate(groups):
        agreed = np.flatnonzero((votes == votes[:1]).all(axis=0))
        counts[agreed, votes[0, agreed]] += len(votes) if weights is None else weights[place]
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


def cut_at_shares(scores: Array, shares: Array, rng: Rng) -> Array:
    """A class per row, so that each comes as often as `shares` says: those rows that lead most get it.

    Every class gets a handicap, the same for all rows. With two classes the shares are kept to a row; with more, the
    handicaps are set in turn until they hold nearly.

    Args:
        scores: for example votes, shape (rows, classes); equal ones are drawn from.
        shares: how often each class should come; they add up to 1.
        rng: for rows that are equal.
    """
    spread = max(float(np.ptp(scores)), 1e-12)
    scores = scores + 1e-6 * spread * rng.random(scores.shape)
    wanted = np.round(shares / np.sum(shares) * len(scores)).astype(np.int64)
    handicap = np.zeros(len(shares))
    for _ in range(_SWEEPS):
        for one, count in enumerate(wanted):
            others = np.delete(scores + handicap, one, axis=1).max(axis=1)
            lead = np.sort(scores[:, one] - others)[::-1]
            edges = np.concatenate([[lead[0] + spread], lead, [lead[-1] - spread]])
            handicap[one] = -(edges[count] + edges[count + 1]) / 2
    return np.asarray((scores + handicap).argmax(axis=1))


def smooth_votes(counts: Array, asked: Array, rows: Array, noise: float) -> Array:
    """What a ridge regression of noisy counts on columns says of all rows, shape (rows, classes).

    Its penalty has the least squared error that can be expected under noise of this size (Mallows 1973).

    Args:
        counts: noisy, shape (rows asked about, classes).
        asked: the prepared columns of the rows asked about.
        rows: the prepared columns of the rows to be labelled.
        noise: the standard deviation of the noise on each count.
    """
    x, everything = flat(asked).astype(np.float64), flat(rows).astype(np.float64)
    centre, level = x.mean(axis=0), counts.mean(axis=0)
    left, lengths, right = np.linalg.svd(x - centre, full_matrices=False)
    turned = left.T @ (counts - level)
    kept = lengths[:, None] ** 2 / (lengths[:, None] ** 2 + _PENALTIES)
    errors = [(((1 - one[:, None]) * turned) ** 2).sum() + 2 * turned.shape[1] * noise**2 * one.sum() for one in kept.T]
    best = _PENALTIES[int(np.argmin(errors))]
    coefficients = right.T @ (turned * (lengths / (lengths**2 + best))[:, None])
    return np.asarray((everything - centre) @ coefficients + level)
