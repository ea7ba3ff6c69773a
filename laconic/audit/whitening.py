"""Rows in units of their population's spread: what no invertible mixing of columns can hide."""

import numpy as np

from laconic.core.values import Array


def whiten(rows: Array, like: Array | None = None) -> Array:
    """Rows less the mean, turned and scaled to unit spread in every direction.

    Lengths of whitened rows and angles between them are the same before and after any invertible mixing of columns.

    Args:
        like: the rows whose mean and spread to use; None takes these rows themselves.
    """
    like = (rows if like is None else like).astype(np.float64)
    mean = like.mean(axis=0)
    spreads, directions = np.linalg.eigh(np.cov(like - mean, rowvar=False).reshape(like.shape[1], -1))
    carries = spreads > 1e-9 * spreads[-1]
    return np.asarray((rows - mean) @ (directions[:, carries] / np.sqrt(spreads[carries])))


def standardise(values: Array) -> Array:
    """Each column less its mean, over its standard deviation."""
    away = values.astype(np.float64) - values.mean(axis=0)
    return np.asarray(away / np.maximum(away.std(axis=0), 1e-12))
