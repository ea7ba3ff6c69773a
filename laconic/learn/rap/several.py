"""Several columns: one secret matrix mixes them all.

Categories come as one column for each level (the table's recipe made them), so they are mixed with the numbers.
"""

from collections.abc import Callable

import numpy as np

from laconic.core.values import Array, Rng, Weights
from laconic.learn.rap.matrices import AnyMatrix

_BLOCK = 65_536


def draw_several(width: int, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret for rows of `width` numbers."""
    return {"matrix": matrix.draw(width, rng).astype(np.float32)}


def project_several(secret: Weights, x: Array, at: Array) -> Array:
    """The rows `at` of the table `x`, mixed; float32."""
    return in_blocks(at, secret["matrix"].shape[1], lambda rows: _flat(x, rows) @ secret["matrix"])


def in_blocks(at: Array, width: int, work: Callable[[Array], Array]) -> Array:
    """What `work` makes of some rows at a time: beside the table, only the result is ever whole in memory."""
    out = np.empty((len(at), width), np.float32)
    for start in range(0, len(at), _BLOCK):
        out[start : start + _BLOCK] = work(at[start : start + _BLOCK])
    return out


def _flat(x: Array, rows: Array) -> Array:
    return x[rows].reshape(len(rows), -1)
