"""A lower bound on epsilon by experiment: plant a row, run a mechanism many times, and see how well it can be told.

A mechanism that keeps (epsilon, delta) limits any test: its hits can be at most exp(epsilon) times its false alarms,
plus delta. Hits and false alarms that were counted, with their confidence limits, so give an epsilon that the mechanism
certainly exceeds. Jagielski, Ullman, Oprea: Auditing differentially private machine learning (2020); Nasr, Song,
Thakurta, Papernot, Carlini: Adversary instantiation (2021).
"""

from collections.abc import Callable
from math import log
from typing import TypeAlias

import numpy as np
from scipy.stats import beta

from laconic.audit.finding import Finding
from laconic.core.values import Array, Rng

Mechanism: TypeAlias = Callable[[bool, Rng], float]
"""Run a mechanism once, with the canary or without, and give the attacker's score: high means "it was there"."""


def canary_attack(mechanism: Mechanism, claim: float, delta: float, trials: int, rng: Rng, *, what: str) -> Finding:
    """Play the game `trials` times with the canary and as often without; success is the epsilon certainly exceeded.

    Args:
        mechanism: plays once.
        claim: the epsilon that it is said to keep.
        delta: the chance that it may fail.
        trials: how often to play each side; the bound cannot pass the logarithm of about a sixth of this.
        rng: chance that the mechanism may use.
        what: the mechanism's name.
    """
    present, absent = (np.array([mechanism(there, rng) for _ in range(trials)]) for there in (True, False))
    return Finding(
        attack=f"canary against {what}",
        knows="all rows but one, the mechanism, and everything but its noise",
        measure=f"epsilon certainly exceeded, where {claim:.3g} is claimed",
        success=epsilon_lower_bound(present, absent, delta),
        chance=claim,
    )


def epsilon_lower_bound(present: Array, absent: Array, delta: float, confidence: float = 0.95) -> float:
    """An epsilon that the mechanism exceeds with this confidence, from scores with the canary and without.

    The threshold is chosen on one half of the scores and judged on the other: choosing and judging on the same ones
    would find privacy losses where there are none.
    """
    best, at = 0.0, 0.0
    first_present, first_absent = present[::2], absent[::2]
    for threshold in np.unique(np.quantile(np.concatenate([first_present, first_absent]), np.linspace(0, 1, 200))):
        bound = _bound(first_present > threshold, first_absent > threshold, delta, confidence)
        if bound > best:
            best, at = bound, float(threshold)
    return _bound(present[1::2] > at, absent[1::2] > at, delta, confidence) if best > 0 else 0.0


def _bound(hits: Array, alarms: Array, delta: float, confidence: float) -> float:
    """The greater of two bounds: by how much "there" is said more often if it was, and "not there" if it was not."""
    each = (1 - confidence) / 4
    one = _ratio(hits.sum(), len(hits), alarms.sum(), len(alarms), delta, each)
    other = _ratio((~alarms).sum(), len(alarms), (~hits).sum(), len(hits), delta, each)
    return max(one, other, 0.0)


def _ratio(often: int, of_often: int, seldom: int, of_seldom: int, delta: float, doubt: float) -> float:
    """The logarithm of (a share that is at least so large, less delta) over (a share that is at most so small)."""
    # Clopper and Pearson's exact limits of a share.
    low = float(beta.ppf(doubt, often, of_often - often + 1)) if often else 0.0
    high = float(beta.ppf(1 - doubt, seldom + 1, of_seldom - seldom)) if seldom < of_seldom else 1.0
    return log((low - delta) / high) if low > delta else 0.0
