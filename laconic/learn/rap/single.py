"""A single column: a pseudo column with its mean and variance is put beside it, and a 2 x 2 matrix mixes both.

Scaling one column by one secret number would hide nothing from who knows its mean. The pseudo column is there to
confuse; it does not (see `laconic.audit.rap`).
"""

import numpy as np

from laconic.core.values import Array, Rng, Weights
from laconic.learn.rap.matrices import AnyMatrix
from laconic.learn.rap.several import in_blocks


def draw_single(column: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret, given its one column for the training rows."""
    return {
        "matrix": matrix.draw(2, rng).astype(np.float32),
        "mean": np.array([column.mean(dtype=np.float64)]),
        "sd": np.array([column.std(dtype=np.float64)]),
        "seed": rng.integers(2**32, size=4),
    }


def project_single(secret: Weights, x: Array, at: Array) -> Array:
    """The rows `at` of the one-column table `x`, each mixed with its pseudo value; float32.

    A row's pseudo value is the same whenever it is sent: two would differ by a multiple of one row of the matrix.
    """
    chance = np.random.default_rng(secret["seed"].tolist())
    pseudo = chance.normal(secret["mean"][0], secret["sd"][0], len(x)).astype(np.float32)

    def mix(rows: Array) -> Array:
        return np.asarray(np.column_stack([x[rows, 0], pseudo[rows]]) @ secret["matrix"])

    return in_blocks(at, 2, mix)
