"""What Gaussian noise is worth: the exact trade between epsilon and delta, and how releases add up.

Dong, Roth, Su: Gaussian Differential Privacy (2019). A release with sensitivity s and noise of standard deviation d is
mu-GDP with mu = s / d; releases one after the other, each chosen knowing those before, add up as the root of the sum of
squares.
"""

from collections.abc import Iterable
from math import inf, log, sqrt

from scipy.optimize import brentq

from laconic.privacy.local import gaussian_delta


def compose(mus: Iterable[float]) -> float:
    """The mu of several releases together."""
    return sqrt(sum(mu * mu for mu in mus))


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta for which a mu-GDP release is (epsilon, delta)-DP."""
    if mu == 0:
        return 0.0
    if mu == inf:
        return 1.0
    return gaussian_delta(epsilon, 1.0, mu)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon for which a mu-GDP release is (epsilon, delta)-DP, exactly; infinite where mu is."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, not {delta}")
    if mu == inf:
        return inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * sqrt(2 * log(1 / delta))  # where the plain tail bound of a Gaussian already suffices
    return float(brentq(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, most, xtol=1e-10))


def mu_of(epsilon: float, delta: float) -> float:
    """The greatest mu whose releases are still (epsilon, delta)-DP."""
    if epsilon <= 0:
        raise ValueError(f"epsilon must be above 0, not {epsilon}")
    high = 1.0
    while epsilon_of(high, delta) < epsilon:
        high *= 2
    return float(brentq(lambda mu: epsilon_of(mu, delta) - epsilon, 1e-9, high, xtol=1e-12))
