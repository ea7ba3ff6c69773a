"""A numeric label: a pseudo label with its mean and variance beside it, mixed by a 2 x 2 matrix.

What is sent are two numbers a row. A model predicts both; the inverse of the matrix gives the label back.
"""

import numpy as np

from laconic.core.values import Array, Rng, Weights
from laconic.learn.rap.matrices import AnyMatrix


def draw_numeric(y: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """The label holder's secret, given its training labels."""
    sd = float(y.std(dtype=np.float64))
    return {
        "matrix": matrix.draw(2, rng),
        "mean": np.array([y.mean(dtype=np.float64)]),
        "sd": np.array([sd if sd > 0 else 1.0]),
    }


def hide_numbers(secret: Weights, y: Array, rng: Rng) -> Array:
    """Two numbers for each label, float32; send a row once only, as the pseudo label is drawn anew."""
    own = (y - secret["mean"]) / secret["sd"]
    return np.asarray(np.column_stack([own, rng.standard_normal(len(y))]) @ secret["matrix"]).astype(np.float32)


def reveal_numbers(secret: Weights, predicted: Array) -> Array:
    """The labels, in their own unit, that belong to predictions of both numbers."""
    mixed = predicted.astype(np.float64) @ np.linalg.inv(secret["matrix"])
    return np.asarray(mixed[:, 0] * secret["sd"] + secret["mean"])
