"""Gradients that parties add up without reading them: how they become whole numbers, and how sums are read back."""

from math import ceil, log2, sqrt

import msgspec
import numpy as np

from laconic.core.values import Array, Settings
from laconic.privacy.bfv import COEFFICIENTS, MODULUS, Bfv

_EXACT = 22
"""Bits to which gradients are rounded at most: float32 holds no more."""

_UP_TO_DOWN = 200 / 145
"""Size of a ciphertext of sums over size of a ciphertext of numbers."""


class Whole(msgspec.Struct, frozen=True):
    """Gradients as whole numbers.

    Attributes:
        slopes: the gradients and hessians that the numbers stand for exactly, shape (outputs, rows, 2).
        parts: numbers to encrypt, each of shape (outputs * rows,).
        units: what 1 stands for, of gradients and of hessians; 0 for hessians that are all 1 and not sent.
        shift: how many bits of a packed number are the hessian's; 0 if they are apart.
    """

    slopes: Array
    parts: tuple[Array, ...]
    units: tuple[float, float]
    shift: int


class Encrypted(Settings, frozen=True):
    """Gradients and hessians encrypted by the label holder, who alone can read the sums.

    Attributes:
        packed: whether gradient and hessian share one number: half the ciphertexts, but with n rows each is rounded to
            29 less log2(n) bits (14 for 27,000 rows). Else they are rounded to 22 bits.
    """

    packed: bool = True

    def whole(self, slopes: Array) -> Whole:
        """Round gradients and hessians to whole numbers of a small unit, so that sums over all rows fit."""
        room = ceil(log2(max(2, slopes.shape[1])))
        plain = bool((slopes[..., 1] == 1).all())
        packed = self.packed and not plain
        bits = min(_EXACT, (MODULUS.bit_length() - 4) // 2 - room) if packed else _EXACT
        # A power of two, so that what a number stands for is exact.
        unit = 2.0 ** (ceil(log2(max(float(np.abs(slopes[..., 0]).max()), 1e-30))) - bits)
        units = (unit, 0.0 if plain else 2.0**-bits)
        first = np.rint(slopes[..., 0].astype(np.float64) / unit).astype(np.int64)
        rounded = [first * unit, slopes[..., 1]]
        parts = [first.ravel()]
        shift = bits + room + 1 if packed else 0
        if not plain:
            second = np.rint(slopes[..., 1].astype(np.float64) / units[1]).astype(np.int64)
            rounded[1] = second * units[1]
            parts = [(first * 2**shift + second).ravel()] if packed else [*parts, second.ravel()]
        return Whole(np.stack(rounded, axis=-1).astype(np.float32), tuple(parts), units, shift)


class Sealed:
    """The gradients of one round of trees under a key, and what the holder of the key makes of encrypted sums.

    Attributes:
        slopes: gradients and hessians as they were rounded, shape (outputs, rows, 2).
        length: how many rows share a ciphertext.
        numbers: the ciphertexts: one list if gradient and hessian share a number or all hessians are 1, else two.
    """

    def __init__(self, cipher: Encrypted, secret: bytes, slopes: Array, sums: int) -> None:
        """Round and encrypt gradients; `sums` is how many sums a tree takes at the party with most."""
        self._keys, self._whole = Bfv(secret=secret), cipher.whole(slopes)
        self.slopes = self._whole.slopes
        self.length = rows_in_one(slopes.shape[1], sums)
        self.numbers = [self._keys.encrypt(part, self.length) for part in self._whole.parts]

    @property
    def counts_rows(self) -> bool:
        """Whether hessians are all 1, so that parties count rows instead of adding them."""
        return self._whole.units[1] == 0

    def read(self, blobs: list[list[bytes]], counts: Array | None, shape: tuple[int, int]) -> Array:
        """Histograms of shape (nodes, bins, 2) from encrypted sums; `counts` of rows stand for hessians that are 1."""
        found = [self._keys.decrypt(part, shape[0] * shape[1], self.length).reshape(shape) for part in blobs]
        (unit, second_unit), shift = self._whole.units, self._whole.shift
        if counts is not None:
            second = counts.reshape(shape).astype(np.float64)
        elif shift:
            low = found[0] & (2**shift - 1)
            found[0], second = found[0] >> shift, low * second_unit
        else:
            second = found[1] * second_unit
        return np.stack([found[0] * unit, second], axis=-1)

    def close(self) -> None:
        """Forget the key."""
        self._keys.close()


def rows_in_one(rows: int, sums: int) -> int:
    """How many rows share a ciphertext so that fewest bytes cross: more rows make fewer ciphertexts down, but more up.

    Args:
        rows: how many there are.
        sums: how many sums a tree takes at the party with most.
    """
    together = sqrt(COEFFICIENTS * sums * _UP_TO_DOWN / rows)
    return int(COEFFICIENTS // 2 ** min(12, max(1, round(log2(together)))))
