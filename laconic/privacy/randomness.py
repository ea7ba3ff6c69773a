"""Chance for privacy: from a secure generator where privacy is claimed, from a seed where a study must repeat."""

from collections.abc import Iterable
from hashlib import blake2b, shake_256
from math import log1p, pi
from ssl import RAND_bytes
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from laconic.core.party import Party, PartyRng
from laconic.learn.device import device_now
from laconic.learn.draws import normal, torch_generator
from laconic.values import Array, Rng


class Randomness(Protocol):
    """Where noise, and the choice of who takes part, come from; always drawn on the processor."""

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers, float32."""
        ...

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1, float64."""
        ...


def secure_words(count: int) -> Array:
    """So many random 64-bit words from OpenSSL's secure generator."""
    return np.frombuffer(bytearray(RAND_bytes(8 * count)), dtype=np.uint64)


class SecureRandomness:
    """Chance from OpenSSL's secure generator, which the operating system seeds: nobody can repeat it, nor its owner.

    As strong as asking the operating system for every byte, and many times as fast; it seeds itself anew after a fork.
    """

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers (Box and Muller), with tails as far as 6.6 standard deviations."""
        return _normal(RAND_bytes(_bytes_for(size)))[:size]

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1, with 53 random bits each."""
        return _uniform(RAND_bytes(8 * size))


class SeededRandomness:
    """Chance that a seed repeats: for studies and tests. Whoever knows the seed can take the noise off."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._generator = torch_generator(rng)

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers."""
        return normal((size,), self._generator)

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1."""
        return 1.0 - self._rng.random(size)


class SecretRandomness:
    """Chance that only whoever has the key can draw again."""

    def __init__(self, key: bytes) -> None:
        self._key, self._drawn = key, 0

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers, as from `SecureRandomness`."""
        return _normal(self._bytes(_bytes_for(size)))[:size]

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1, with 53 random bits each."""
        return _uniform(self._bytes(8 * size))

    def _bytes(self, count: int) -> bytes:
        self._drawn += 1
        return shake_256(self._key + self._drawn.to_bytes(8, "little")).digest(count)


def randomness_from(rng: Rng, seeded: bool, *about: Array) -> Randomness:
    """Chance that repeats with `rng`, or secure chance, which repeats only for a party that keeps its secret.

    Args:
        rng: the party's.
        seeded: whether whoever knows the seed may draw it again.
        about: the numbers that noise is put on. A run that is taken up again puts the same noise on the same numbers,
            and other noise on others: the same noise on two values would show their difference.
    """
    if seeded:
        return SeededRandomness(rng)
    if not isinstance(rng, PartyRng):
        return SecureRandomness()
    found = blake2b(rng.secret_bytes(32), digest_size=32)
    for values in about:
        found.update(np.asarray(values).tobytes())
    return SecretRandomness(found.digest())


def secret_uniform(party: Party, size: int) -> Array:
    """Numbers above 0 and at most 1 that only the party can draw again, when a run of it is taken up where it was cut.

    What was sent and may have arrived must be sent again as it was: a second draw would give away as much once more.
    """
    return _uniform(party.secret_bytes(8 * size))


def keyed_normal(key: bytes, marks: Iterable[bytes], width: int) -> Tensor:
    """A row of standard normal numbers for each mark, from it and a key, without which nobody can foretell them."""
    size = _bytes_for(width)
    drawn = b"".join(shake_256(key + mark).digest(size) for mark in marks)
    return _normal(drawn, size)[:, :width]


def poisson_sample(rows: int, rate: float, chance: Randomness) -> Tensor:
    """The numbers of the rows that take part, each with chance `rate`, independently of the others.

    Draws the gaps between them, so that the cost grows with those who take part and not with all.
    """
    if rate >= 1:
        return torch.arange(rows, device=device_now())
    likely = int(rows * rate + 6 * (rows * rate) ** 0.5 + 8)
    places: list[Array] = []
    last = -1
    while last < rows:
        gaps = np.floor(np.log(chance.uniform(likely)) / log1p(-rate)).astype(np.int64) + 1
        places.append(last + np.cumsum(np.minimum(gaps, rows + 1)))
        last = int(places[-1][-1])
    drawn = np.concatenate(places)
    return torch.from_numpy(drawn[drawn < rows]).to(device_now())


def _bytes_for(size: int) -> int:
    """How many bytes `_normal` makes so many numbers from."""
    return 8 * ((size + 1) // 2)


def _normal(chance: bytes, row: int | None = None) -> Tensor:
    """Standard normal numbers (Box and Muller), one for four bytes; in rows that are each made from so many bytes."""
    if not chance:
        return torch.empty(0) if row is None else torch.empty(0, row // 4)
    words = torch.frombuffer(bytearray(chance), dtype=torch.int32)
    words = words if row is None else words.view(-1, row // 4)
    first, second = words.chunk(2, dim=-1)
    radius = first.double().add_(2**31 + 1).mul_(2.0**-32).log_().mul_(-2).sqrt_().float()
    angle = second.float().mul_(pi * 2.0**-31)
    return torch.cat((radius * angle.cos(), radius * angle.sin()), dim=-1)


def _uniform(chance: bytes) -> Array:
    """Numbers above 0 and at most 1 with 53 random bits each, one for eight bytes."""
    return ((np.frombuffer(chance, dtype=np.uint64) >> np.uint64(11)) + 1) * 2.0**-53
