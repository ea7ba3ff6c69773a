"""Principal components: the directions in which rows differ most, plain or scaled to unit variance."""

import numpy as np

from laconic.core.values import Array, Rng, Weights
from laconic.learn.linear import LinearEncoder, as_layer, flat


class Pca(LinearEncoder, frozen=True):
    """The first `dim` principal components, in units of the columns."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and components; takes no chance."""
        mean, components, _ = principal_components(x, self.dim_for(x.shape[1:]))
        return as_layer(mean, components)


class WhitenedPca(LinearEncoder, frozen=True):
    """The first `dim` principal components, each scaled to unit variance; those without variance become zeros."""

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Find mean and scaled components; takes no chance."""
        mean, components, variances = principal_components(x, self.dim_for(x.shape[1:]))
        carries = variances > 1e-9 * max(variances[0], np.finfo(np.float64).tiny)
        scales = np.where(carries, 1 / np.sqrt(np.where(carries, variances, 1.0)), 0.0)
        return as_layer(mean, components * scales)


def principal_components(x: Array, count: int) -> tuple[Array, Array, Array]:
    """The mean, the first `count` components as columns, and their variances, largest first.

    A component's sign is chosen so that its largest entry is positive: the sign that a solver happens to
    return may differ from machine to machine.
    """
    rows = flat(x)
    mean = rows.mean(axis=0)
    rows = rows - mean
    covariance = rows.T @ rows / max(len(rows) - 1, 1)
    variances, components = np.linalg.eigh(covariance)
    components = components[:, ::-1][:, :count]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, np.arange(components.shape[1])])
    return mean, np.ascontiguousarray(components * signs), variances[::-1][:count].clip(min=0)
