"""Which rows were these sums of? What a receiver of a party's sums finds out, if the rows are few.

The Gram matrix of n rows is `X'X`, so it gives the rows but for a rotation: `X = R V`, with V known and R orthogonal, n
by n. Three ways lead on from there. A row that is alone in its class needs none: the moment of its class is the row.
Columns of zeros and ones leave few rows in the span of V that hold nothing else. And rows far from normal can be turned
back by independent component analysis (Hyvarinen, Oja 2000), the rows as sources and the columns as samples.

Whoever has a row at hand need not rebuild it: while rows are fewer than features, it lies in their span if it is one of
them, and else does not.
"""

import warnings

import numpy as np
from scipy.linalg import qr

from laconic.audit.attacks import Finding
from laconic.learn.models.least_squares import Sums, unpack
from laconic.threads import limit_threads
from laconic.values import Array, Rng

_FOUND = 0.9
"""From this correlation with the true row on, a guess counts as the row."""

_MOST_TRIED = 16
"""Zeros and ones are tried for so many rows at most: two to the power of it."""


@limit_threads()
def rebuild_rows(sums: Sums, truth: Array, rng: Rng, *, whose: str = "a party") -> Finding:
    """Guess the rows behind sums of features in every way there is, and see how many of them are found.

    Args:
        sums: what was sent.
        truth: the features of the rows; used to judge the attack only.
        rng: randomness for where the search starts.
        whose: the party's name.
    """
    mixed = _mixed_rows(sums, len(truth))
    guesses = np.concatenate([lone_rows(sums), zero_one_rows(mixed), rotated_rows(mixed, rng)])
    return Finding(
        attack=f"rows of {whose} rebuilt from its sums",
        knows=f"the sums that {whose} sent",
        measure=f"share of rows guessed to a correlation above {_FOUND}",
        success=share_found(guesses, truth),
        baseline=share_found(truth.mean(axis=0, keepdims=True), truth),
    )


@limit_threads()
def tell_members(sums: Sums, members: Array, outsiders: Array, *, whose: str = "a party") -> Finding:
    """Say of rows whether they are among those summed, by how far they are outside of the span of the sums.

    Args:
        sums: what was sent.
        members: features of rows that were summed.
        outsiders: features of rows of the same kind that were not.
        whose: the party's name.
    """
    from sklearn.metrics import roc_auc_score

    strengths, turn = np.linalg.eigh(unpack(sums.gram)[:-1, :-1])
    outside = turn[:, strengths <= 1e-6 * strengths[-1]]

    def inside(rows: Array) -> Array:
        return np.asarray(-np.linalg.norm(rows @ outside, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))

    labels = np.repeat([1, 0], [len(members), len(outsiders)])
    return Finding(
        attack=f"membership in the sums of {whose}",
        knows=f"the sums that {whose} sent, and rows in full",
        measure="probability to tell a row that was summed from another (AUC)",
        success=float(roc_auc_score(labels, np.concatenate([inside(members), inside(outsiders)]))),
        baseline=0.5,
    )


def lone_rows(sums: Sums) -> Array:
    """The rows that are alone in their class, of several classes: each stands in the moments as it is."""
    alone = np.abs(sums.moments[-1] - 1) < 1e-3
    return np.asarray(sums.moments[:-1, alone if len(alone) > 1 else []].T)


def zero_one_rows(mixed: Array) -> Array:
    """All rows in the span of these that hold nothing but zeros and ones, if there are few enough to try."""
    count = len(mixed)
    if not 1 <= count <= _MOST_TRIED:
        return mixed[:0]
    pivots = qr(mixed, mode="r", pivoting=True)[1][:count]
    values = (np.arange(1, 2**count)[:, None] >> np.arange(count) & 1).astype(np.float64)
    tried = np.linalg.solve(mixed[:, pivots].T, values.T).T @ mixed
    return np.asarray(tried[(np.minimum(np.abs(tried), np.abs(tried - 1)) < 0.05).all(axis=1)])


def rotated_rows(mixed: Array, rng: Rng) -> Array:
    """Guesses of as many rows as there are here, each up to its sign and length."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    if len(mixed) < 2:
        return mixed
    finder = FastICA(whiten="unit-variance", random_state=int(rng.integers(2**31)), max_iter=500)
    with warnings.catch_warnings():
        # An attack that does not settle has failed, and its guesses are scored as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with limit_threads():
            return np.asarray(finder.fit_transform(mixed.T).T)


def _mixed_rows(sums: Sums, rows: int) -> Array:
    """V above: rows of the same Gram matrix as the true ones, as many as these span."""
    strengths, turn = np.linalg.eigh(unpack(sums.gram)[:-1, :-1])
    kept = [place for place in np.argsort(-strengths)[:rows] if strengths[place] > 1e-9 * strengths[-1]]
    return np.asarray((turn[:, kept] * np.sqrt(strengths[kept])).T)


def share_found(guesses: Array, truth: Array) -> float:
    """The share of true rows that some guess, up to sign, is like."""
    if not len(guesses):
        return 0.0

    def standard(values: Array) -> Array:
        away = values - values.mean(axis=1, keepdims=True)
        return np.asarray(away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12))

    return float((np.abs(standard(truth) @ standard(guesses).T).max(axis=1) > _FOUND).mean())
