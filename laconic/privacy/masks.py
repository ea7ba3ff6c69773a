"""What a secure sum is made of: keys, masks that cancel, shares of secrets, and numbers as whole numbers.

Bonawitz and others: Practical Secure Aggregation for Privacy-Preserving Machine Learning (2017). Keys are X25519, masks
come from ChaCha20, shares are Shamir's, all through `cryptography` but for the few lines of Shamir. Nothing here knows
of parties or steps: `laconic.methods.families.sums` does.
"""

import os
from collections.abc import Mapping, Sequence
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np

from laconic.errors import MissingExtra, WireError
from laconic.values import Array

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_PRIME = 2**256 + 297
"""The smallest prime above all secrets of 32 bytes."""
SHARE = 33
"""Bytes of a share of a secret of 32 bytes."""
_BLOCK = 1 << 17
"""Masks are added up so many numbers at a time, which stay in the processor's cache."""


def draw_key() -> bytes:
    """A secret of 32 bytes from the operating system: an X25519 key, or the seed of a mask."""
    return os.urandom(32)


def public_of(secret: bytes) -> bytes:
    """The public key of a secret one."""
    return _private(secret).public_key().public_bytes_raw()


def agree(secret: bytes, public: bytes, purpose: str) -> bytes:
    """A key of 32 bytes that the owners of both keys know, and nobody else, for one purpose."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        shared = _private(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as problem:
        raise WireError("a public key for a secure sum is none; start the run again") from problem
    return HKDF(SHA256(), length=32, salt=None, info=f"laconic sum 1 {purpose}".encode()).derive(shared)


def derive(key: bytes, purpose: str) -> bytes:
    """Another key of 32 bytes that follows from one, from which that one cannot be found."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=None, info=f"laconic chain 1 {purpose}".encode()).derive(key)


def add_masks(numbers: Array, seeds: Sequence[tuple[bytes, int]]) -> None:
    """Add the mask of each seed, times 1 or -1, to whole numbers (uint64) in place; they wrap around."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    streams = [(Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor(), sign) for seed, sign in seeds]
    nothing, drawn = bytes(8 * _BLOCK), np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, len(numbers), _BLOCK):
        part = numbers[start : start + _BLOCK]
        mask = drawn[: len(part)]
        for stream, sign in streams:
            stream.update_into(memoryview(nothing)[: mask.nbytes], mask.data.cast("B"))
            (np.add if sign > 0 else np.subtract)(part, mask, out=part)


def lock(key: bytes, secret: bytes) -> bytes:
    """A secret that only who has the key can read; a key locks one secret."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), secret, None)


def unlock(key: bytes, locked: bytes, sender: str) -> bytes:
    """What was locked; anything else is a `WireError` that names who is said to have sent it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), locked, None)
    except InvalidTag as problem:
        raise WireError(f"a share that {sender} is said to have sent was altered on its way") from problem


def split_secret(secret: bytes, shares: int, needed: int) -> list[bytes]:
    """Shares of a secret of 32 bytes: any `needed` of them give it, and fewer say nothing (Shamir 1979)."""
    rest = [int.from_bytes(os.urandom(40)) % _PRIME for _ in range(needed - 1)]
    coefficients = [int.from_bytes(secret), *rest]
    found = []
    for at in range(1, shares + 1):
        value = 0
        for one in reversed(coefficients):
            value = (value * at + one) % _PRIME
        found.append(value.to_bytes(SHARE))
    return found


def join_secret(shares: Mapping[int, bytes]) -> bytes:
    """The secret of shares, each by its place among all, from 0; of altered shares, something else or a `WireError`."""
    points = {at + 1: int.from_bytes(share) for at, share in shares.items()}
    total = 0
    for at, value in points.items():
        above, below = 1, 1
        for other in points:
            if other != at:
                above, below = above * other % _PRIME, below * (other - at) % _PRIME
        total += value * above * pow(below, -1, _PRIME)
    try:
        return (total % _PRIME).to_bytes(32)
    except OverflowError as problem:
        raise WireError("the shares of a secret do not belong together; a party altered its share") from problem


class FixedPoint:
    """Numbers as whole numbers of 64 bits, whose sum over so many parties is exact and does not overflow.

    Attributes:
        step: the distance of two neighbouring numbers; rounding to it is all that is lost.
    """

    def __init__(self, bound: float, parties: int) -> None:
        self.bound = bound
        self.step = 2.0 ** (ceil(log2(bound)) + ceil(log2(parties)) - 62)

    def write(self, values: Array) -> Array:
        """Numbers as uint64; one beyond the bound is an error, as its sum might overflow."""
        values = np.asarray(values, dtype=np.float64)
        most = float(np.abs(values).max(initial=0.0))
        if not most <= self.bound:
            raise ValueError(
                f"a number of size {most:.3g} cannot be summed securely, as sums.bound is {self.bound:.3g}; raise it, "
                "or scale columns (if learning diverges, try a smaller learning rate)"
            )
        return np.rint(values / self.step).astype(np.int64).view(np.uint64)

    def read(self, total: Array) -> Array:
        """Sums of what `write` wrote, as float64."""
        return np.asarray(total.view(np.int64) * self.step)


def _private(secret: bytes) -> "X25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    except ImportError as problem:
        raise MissingExtra("cryptography", "envelopes") from problem
    return X25519PrivateKey.from_private_bytes(secret)
