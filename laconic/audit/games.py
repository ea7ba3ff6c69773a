"""Canary games for every mechanism that has a price: the worst rows we know of, played against the real code.

Each game gives a `Mechanism` for `canary_attack`. The canary is a row that pushes as hard as clipping lets it, where
the other rows push in no direction or in a known one; the attacker knows all but the noise.
"""

import msgspec
import numpy as np
import torch
from torch import Tensor

from laconic.audit.canary import Mechanism
from laconic.core.party import Party
from laconic.core.table import Table
from laconic.core.values import Array, Rng, Weights
from laconic.learn.layers import Linear
from laconic.learn.nets import weights_of
from laconic.privacy.codebook import Codebook
from laconic.privacy.dpnat import DpNat
from laconic.privacy.dppca import DpPca
from laconic.privacy.dpsgd import DpSgd
from laconic.privacy.noise import ClippedGaussian

_ROWS, _WIDTH = 40, 5


def sgd_game(settings: DpSgd, rows: int = _ROWS) -> Mechanism:
    """Rows that push nowhere, and a canary that always pushes the same way."""

    def play(there: bool, rng: Rng) -> float:
        module = Linear(2, 1)
        for values in module.parameters():
            torch.nn.init.zeros_(values)
        x, y = torch.zeros(rows, 2), torch.zeros(rows)
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
    """Normal rows, and of several canaries the one that moves the weights most; the attacker knows which way.

    First weights, targets and code words are the same in every play and known to the attacker, as the proof allows.
    """
    rng = np.random.default_rng(0)
    others = rng.standard_normal((rows, _WIDTH)).astype(np.float32)
    crowds = [np.concatenate([others, 3 * rng.standard_normal((1, _WIDTH))], dtype=np.float32) for _ in range(tries)]
    first = _flat(_standing_still(settings).fit(others, np.random.default_rng(1)))

    def moved(how: Codebook | DpNat, x: Array) -> Array:
        # Times how many rows were expected: with rows drawn surely, this is the sum that was noised.
        return (_flat(how.fit(x, np.random.default_rng(1))) - first) * len(x)

    moves = [moved(settings.with_sigma(0.0), crowd) - moved(settings.with_sigma(0.0), others) for crowd in crowds]
    strongest = int(np.argmax([np.linalg.norm(move) for move in moves]))

    def play(there: bool, _: Rng) -> float:
        return float(moved(settings, crowds[strongest] if there else others) @ moves[strongest])

    return play


def _standing_still(settings: Codebook | DpNat) -> Codebook | DpNat:
    """The same, but it keeps its first weights."""
    return msgspec.structs.replace(settings, trainer=msgspec.structs.replace(settings.trainer, sigma=0.0, lr=1e-30))


def _flat(weights: Weights) -> Array:
    return np.concatenate([values.ravel() for values in weights.values()]).astype(np.float64)


def _push(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is the row itself where the target is 1, and nothing where it is 0."""
    return -(outputs.squeeze(1) * targets).mean()
