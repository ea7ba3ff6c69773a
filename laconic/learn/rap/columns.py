"""Columns of any kind: which transform suits a party's table."""

from math import prod

from laconic.core.values import Array, Rng, Weights
from laconic.learn.rap.matrices import AnyMatrix
from laconic.learn.rap.several import draw_several, project_several
from laconic.learn.rap.single import draw_single, project_single


def draw_secret(x: Array, training: Array, matrix: AnyMatrix, rng: Rng) -> Weights:
    """A party's secret for its prepared table `x`, of which the rows `training` may be learnt from."""
    width = prod(x.shape[1:])
    return draw_single(x[training], matrix, rng) if width == 1 else draw_several(width, matrix, rng)


def project(secret: Weights, x: Array, at: Array) -> Array:
    """The rows `at` of the prepared table `x` as they may be sent, float32: as wide as `x`, but at least 2."""
    return (project_single if "seed" in secret else project_several)(secret, x, at)
