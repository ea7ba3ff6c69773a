"""A lower bound on epsilon by experiment: plant a row, run a mechanism many times, and see how well it is detected.

A mechanism that keeps (epsilon, delta) limits any test: its hits can be at most exp(epsilon) times its false alarms,
plus delta. So counted hits and false alarms, with their confidence limits, give an epsilon that the mechanism certainly
exceeds. Jagielski, Ullman, Oprea: Auditing differentially private machine learning (2020); Nasr, Song,
Thakurta, Papernot, Carlini: Adversary instantiation (2021).
"""

from collections.abc import Callable
from math import log
from typing import TypeAlias

import msgspec
import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor

from laconic.audit.attacks import Finding
from laconic.core.party import Party
from laconic.learn.device import device_now
from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import weights_of
from laconic.privacy.encoders import Codebook, DpNat, DpPca
from laconic.privacy.mechanisms.rows import ClippedGaussian
from laconic.privacy.private_sgd import DpSgd
from laconic.tables.table import Table
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Weights

Mechanism: TypeAlias = Callable[[bool, Rng], float]
"""Run a mechanism once, with the canary or without, and give the attacker's score: high means "it was there"."""


@limit_threads()
def canary_attack(mechanism: Mechanism, claim: float, delta: float, trials: int, rng: Rng, *, what: str) -> Finding:
    """Play the game `trials` times with the canary and as often without; success is the epsilon certainly exceeded.

    Args:
        claim: the epsilon that the mechanism is said to keep.
        delta: the probability that it may fail.
        trials: how often to play each side; the bound cannot pass the logarithm of about a sixth of this.
        what: the mechanism's name.
    """
    present, absent = (np.array([mechanism(there, rng) for _ in range(trials)]) for there in (True, False))
    return Finding(
        attack=f"canary against {what}",
        knows="all rows but one, the mechanism, and everything but its noise",
        measure=f"epsilon certainly exceeded, where {claim:.3g} is claimed",
        success=epsilon_lower_bound(present, absent, delta),
        baseline=claim,
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
    """The greater of two bounds: how much more often "there" is said if it was, and "not there" if it was not."""
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


_ROWS, _WIDTH = 40, 5


def sgd_game(settings: DpSgd, rows: int = _ROWS) -> Mechanism:
    """Rows that push nowhere, and a canary that always pushes the same way."""

    def play(there: bool, rng: Rng) -> float:
        module = Linear(2, 1)
        for values in module.parameters():
            torch.nn.init.zeros_(values)
        x, y = (torch.zeros(*shape, device=device_now()) for shape in ((rows, 2), (rows,)))
        x[0, 0], y[0] = 1e6, float(there)
        settings.fit(module, [x], y, _push, rng)
        return float(weights_of(module)["weight"][0, 0])

    return play


def pca_game(settings: DpPca, rows: int = _ROWS) -> Mechanism:
    """Rows of zeros, and a canary as long as clipping lets it be."""

    def play(there: bool, rng: Rng) -> float:
        x = np.zeros((rows, _WIDTH))
        x[0, 0] = 1e6 * there
        return float(settings.noised_squares(x, rng)[0, 0])

    return play


def rows_game(settings: ClippedGaussian) -> Mechanism:
    """A representation of zeros, and a canary's of the greatest length."""

    def play(there: bool, rng: Rng) -> float:
        party = Party("audited", Table.without_rows("audited"), seed=0)
        party.rng = rng
        values = np.zeros((2, _WIDTH), np.float32)
        values[0, 0] = 1e6 * there
        return float(settings.put_on_rows(values, party, "train", ()).value[0, 0])

    return play


def encoder_game(settings: Codebook | DpNat, rows: int = 64, tries: int = 20) -> Mechanism:
    """Normal rows, and of several canaries the one that moves the weights most, in a direction the attacker knows.

    First weights, targets and code words are the same in every play and known to the attacker, as the proof allows.
    """
    rng = np.random.default_rng(0)
    others = rng.standard_normal((rows, _WIDTH)).astype(np.float32)
    crowds = [np.concatenate([others, 3 * rng.standard_normal((1, _WIDTH))], dtype=np.float32) for _ in range(tries)]
    # With hardly any learning rate, it keeps its first weights.
    still = msgspec.structs.replace(settings, trainer=msgspec.structs.replace(settings.trainer, sigma=0.0, lr=1e-30))
    first = _flat(still.fit(others, np.random.default_rng(1)))

    def moved(how: Codebook | DpNat, x: Array) -> Array:
        # Times the expected number of rows: as every row is drawn, this is the sum that got noise.
        return (_flat(how.fit(x, np.random.default_rng(1))) - first) * len(x)

    moves = [moved(settings.with_sigma(0.0), crowd) - moved(settings.with_sigma(0.0), others) for crowd in crowds]
    strongest = int(np.argmax([np.linalg.norm(move) for move in moves]))

    def play(there: bool, _: Rng) -> float:
        return float(moved(settings, crowds[strongest] if there else others) @ moves[strongest])

    return play


def _flat(weights: Weights) -> Array:
    return np.concatenate([values.ravel() for values in weights.values()]).astype(np.float64)


def _push(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is the row itself where the target is 1, and nothing where it is 0."""
    return -(outputs.squeeze(1) * targets).mean()
