"""Find known rows among mixed ones though nobody said where they are; shuffling rows in secret does not help."""

import numpy as np

from laconic.audit.whitening import whiten
from laconic.core.values import Array

_CANDIDATES = 250
"""How many rows of about the right length are thought of for each known row."""

_BEAM = (8000, 200)
"""How many partial matchings are followed at once: of up to eight rows, and of more, when few are left that fit."""

_CLOSE = 0.05
"""How far lengths and angles are usually off, as the population's spread is known from a sample only."""


def match_by_leverage(sent: Array, known: Array, public: Array) -> tuple[Array, Array]:
    """Which rows of one party's upload some known rows are.

    A row's leverage, its length in units of the population's spread, is the same under every invertible mixing, and so
    are angles between rows. The known rows that stand out most are matched to rows of their lengths that have the
    same angles to each other. That gives the map between the two whitened spaces, and the map gives the rows nearest
    to all other known rows.

    Args:
        sent: rows by mixed columns, in an unknown order.
        known: rows known in full, in the party's own columns; a few hundred, so that some stand out.
        public: a sample of the population in the same columns, for its mean and spread.

    Returns:
        Positions in `known`, and for each the position in `sent` it was matched to: the better half of all known rows.
    """
    there = whiten(sent)
    here = whiten(known, like=public)
    first = np.argsort(-_lengths(here))[: max(12, here.shape[1] + 2)]
    mapping = _rotation(here[first], there[_rows_with_these_angles(here[first], there)])
    for _ in range(15):
        nearest, distances = _nearest(here @ mapping, there)
        best = np.argsort(distances / np.maximum(_lengths(here), 1e-9))[: max(len(here) // 2, 1)]
        mapping = np.linalg.lstsq(here[best], there[nearest[best]], rcond=None)[0]
    return best, nearest[best]


def _rows_with_these_angles(here: Array, there: Array) -> Array:
    """For each row here one row there, found one after the other by following the best partial matchings."""
    lengths, wanted = _lengths(there), _lengths(here)
    cosines = here @ here.T / np.outer(wanted, wanted)
    candidates = np.stack([np.argsort(np.abs(lengths - length))[:_CANDIDATES] for length in wanted])
    paths = candidates[0][:, None]
    costs = _surprise(lengths[paths[:, 0]] / wanted[0] - 1)
    for i in range(1, len(here)):
        rows = candidates[i]
        steps = costs[:, None] + _surprise(lengths[rows] / wanted[i] - 1)
        for j in range(i):
            found = _cosine_table(there, candidates[j], rows)[np.searchsorted(np.sort(candidates[j]), paths[:, j])]
            steps += _surprise(found - cosines[i, j])
        kept = np.argsort(steps, axis=None)[: _BEAM[i >= 8]]
        came, went = np.unravel_index(kept, steps.shape)
        paths, costs = np.column_stack([paths[came], rows[went]]), steps[came, went]
    return np.asarray(paths[0])


def _cosine_table(there: Array, some: Array, others: Array) -> Array:
    """Cosines between some rows, in rising order of their positions, and others."""
    one, other = there[np.sort(some)], there[others]
    return np.asarray(one @ other.T / np.outer(_lengths(one), _lengths(other)))


def _surprise(off: Array) -> Array:
    """How badly a length or an angle fits; at most so badly that one bad fit does not end a good matching."""
    return np.minimum((off / _CLOSE) ** 2, 9.0)


def _rotation(here: Array, there: Array) -> Array:
    """The rotation that brings rows here nearest to those there (Procrustes)."""
    left, _, right = np.linalg.svd(here.T @ there, full_matrices=False)
    return np.asarray(left @ right)


def _nearest(points: Array, rows: Array) -> tuple[Array, Array]:
    squared = (points**2).sum(axis=1)[:, None] - 2 * points @ rows.T + (rows**2).sum(axis=1)
    found = squared.argmin(axis=1)
    return found, np.sqrt(np.maximum(squared[np.arange(len(points)), found], 0))


def _lengths(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1))
