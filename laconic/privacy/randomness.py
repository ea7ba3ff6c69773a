"""Randomness for privacy: from a secure generator where privacy is claimed, from a seed where a study must repeat.

All of it is drawn on the processor, whatever device nets are on.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b, shake_256
from itertools import count
from math import log1p, pi
from ssl import RAND_bytes
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from laconic.core.party import PartyRng
from laconic.learn.device import device_now
from laconic.learn.nets.layers import normal, torch_generator
from laconic.values import Array, Rng


class SecureRandomness:
    """Randomness from secure bytes: of OpenSSL's generator, unless another source is given.

    The operating system seeds that generator, and nobody can repeat what it draws, not even its owner. It is as strong
    as asking the operating system for every byte, many times as fast, and seeds itself anew after a fork.
    """

    def __init__(self, source: Callable[[int], bytes] = RAND_bytes) -> None:
        self._source = source

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers, float32 (Box and Muller), with tails as far as 6.6 standard deviations."""
        return _normal(self._source(_bytes_for(size)))[:size]

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1, float64, with 53 random bits each."""
        return ((np.frombuffer(self._source(8 * size), dtype=np.uint64) >> np.uint64(11)) + 1) * 2.0**-53


class SeededRandomness:
    """Randomness that a seed repeats: for studies and tests. Whoever knows the seed can remove the noise."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._generator = torch_generator(rng)

    def normal(self, size: int) -> Tensor:
        """Standard normal numbers, float32."""
        return normal((size,), self._generator)

    def uniform(self, size: int) -> Array:
        """Numbers above 0 and at most 1, float64."""
        return 1.0 - self._rng.random(size)


Randomness: TypeAlias = SecureRandomness | SeededRandomness


def randomness_from(rng: Rng, seeded: bool, *about: Array) -> Randomness:
    """Randomness that repeats with `rng`, or secure randomness, which repeats only for a party that keeps its secret.

    Args:
        rng: the party's.
        seeded: whether whoever knows the seed may draw it again.
        about: the numbers that noise is added to. A resumed run adds the same noise to the same numbers, and other
            noise to others: the same noise on two values would reveal their difference.
    """
    if seeded:
        return SeededRandomness(rng)
    if not isinstance(rng, PartyRng):
        return SecureRandomness()
    found = blake2b(rng.secret_bytes(32), digest_size=32)
    for values in about:
        found.update(np.asarray(values).tobytes())
    key, draws = found.digest(), count(1)
    return SecureRandomness(lambda size: shake_256(key + next(draws).to_bytes(8, "little")).digest(size))


def keyed_normal(key: bytes, marks: Iterable[bytes], width: int) -> Tensor:
    """A row of standard normal numbers per mark, made from it and a key; without the key nobody can predict them."""
    size = _bytes_for(width)
    drawn = b"".join(shake_256(key + mark).digest(size) for mark in marks)
    return _normal(drawn, size)[:, :width]


def secure_words(count: int) -> Array:
    """So many random 64-bit words from OpenSSL's secure generator."""
    return np.frombuffer(bytearray(RAND_bytes(8 * count)), dtype=np.uint64)


def poisson_sample(rows: int, rate: float, randomness: Randomness) -> Tensor:
    """The numbers of the rows that take part, each with probability `rate`, independently of the others.

    Draws the gaps between them, so that the cost grows with those who take part and not with all.
    """
    if rate >= 1:
        return torch.arange(rows, device=device_now())
    likely = int(rows * rate + 6 * (rows * rate) ** 0.5 + 8)
    places: list[Array] = []
    last = -1
    while last < rows:
        gaps = np.floor(np.log(randomness.uniform(likely)) / log1p(-rate)).astype(np.int64) + 1
        places.append(last + np.cumsum(np.minimum(gaps, rows + 1)))
        last = int(places[-1][-1])
    drawn = np.concatenate(places)
    return torch.from_numpy(drawn[drawn < rows]).to(device_now())


def _bytes_for(size: int) -> int:
    """How many bytes `_normal` makes so many numbers from."""
    return 8 * ((size + 1) // 2)


def _normal(drawn: bytes, row: int | None = None) -> Tensor:
    """Standard normal numbers (Box and Muller), one per four bytes; in rows that are each made from so many bytes."""
    if not drawn:
        return torch.empty(0) if row is None else torch.empty(0, row // 4)
    words = torch.frombuffer(bytearray(drawn), dtype=torch.int32)
    words = words if row is None else words.view(-1, row // 4)
    first, second = words.chunk(2, dim=-1)
    radius = first.double().add_(2**31 + 1).mul_(2.0**-32).log_().mul_(-2).sqrt_().float()
    angle = second.float().mul_(pi * 2.0**-31)
    return torch.cat((radius * angle.cos(), radius * angle.sin()), dim=-1)
