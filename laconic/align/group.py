"""The group in which ids are compared without being shown: ristretto255 of libsodium, by the binding `rbcl`.

Points are rows of 32 bytes. Multiplying a point by a secret number hides it; two parties' secrets may be applied in
either order, with the same result. All arithmetic, and the way from a hash to a point, is the library's own.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import numpy as np

from laconic.core.errors import MissingExtra, WireError
from laconic.core.values import Array

POINT = 32
"""Bytes of a point."""

_SLICE = 1024  # points between two looks at the clock: small enough to share among threads evenly


def new_secret(chance: bytes | None = None) -> bytes:
    """A number that only this party knows, from 64 secret bytes: a run's seed must not give it away.

    Without any, they come from the operating system.
    """
    secret: bytes = _library().crypto_core_ristretto255_scalar_reduce(os.urandom(64) if chance is None else chance)
    return secret


def shuffled(chance: bytes) -> Array:
    """A random order of as many things as there are eight secret bytes."""
    return np.argsort(np.frombuffer(chance, dtype=np.uint64), kind="stable").astype(np.uint32)


def hide_ids(ids: Sequence[str], secret: bytes, threads: int = 0) -> Array:
    """Hash each id to a point and multiply it by the secret.

    Args:
        ids: as text, normalised.
        secret: from `new_secret`.
        threads: how many work at a time; 0 for one a processor.
    """
    library = _library()

    def hide(some: slice) -> bytes:
        hashes = (blake2b(one.encode(), person=b"laconic psi v1").digest() for one in ids[some])
        points = (library.crypto_core_ristretto255_from_hash(one) for one in hashes)
        return b"".join([library.crypto_scalarmult_ristretto255(secret, point) for point in points])

    return _in_slices(hide, len(ids), threads)


def multiply(points: Array, secret: bytes, threads: int = 0) -> Array:
    """Each point times the secret.

    Raises:
        WireError: these are not points of the group.
    """
    check_points(points)
    library, blob = _library(), points.tobytes()

    def times(some: slice) -> bytes:
        starts = range(some.start * POINT, some.stop * POINT, POINT)
        return b"".join([library.crypto_scalarmult_ristretto255(secret, blob[at : at + POINT]) for at in starts])

    try:
        return _in_slices(times, len(points), threads)
    except RuntimeError as problem:
        raise WireError("some of the bytes received are not points of the group; start the match anew") from problem


def check_points(points: object) -> None:
    """Refuse what does not even have the form of points."""
    if not (isinstance(points, np.ndarray) and points.dtype == np.uint8 and points.shape[1:] == (POINT,)):
        raise WireError(f"points are rows of {POINT} bytes, not {getattr(points, 'shape', type(points).__name__)}")


def are_points(points: Array) -> bool:
    """Whether each row is the one way in which some point of the group is written."""
    valid = _library().crypto_core_ristretto255_is_valid_point
    return all(valid(point.tobytes()) for point in points)


def shared_points(lists: Sequence[Array]) -> list[Array]:
    """For each list of points, which of its points are in all lists: true or false for each.

    Raises:
        WireError: a list names a point twice, which honest lists of different ids never do.
    """
    texts = [np.ascontiguousarray(points).view(f"S{POINT}").reshape(-1) for points in lists]
    common = np.sort(texts[0])
    for text in texts:
        ordered = np.sort(text)
        if (ordered[1:] == ordered[:-1]).any():
            raise WireError("a party sent the same point twice; its ids must all differ")
        common = common[_among(common, ordered)]
    return [_among(text, common) for text in texts]


def _among(wanted: Array, ordered: Array) -> Array:
    """Which of the wanted are in an ordered list; `numpy.isin` would take a sorted copy of both together."""
    if len(ordered) == 0:
        return np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.asarray(ordered[places] == wanted)


def _in_slices(work: Callable[[slice], bytes], count: int, threads: int) -> Array:
    """Points made slice by slice, several at a time: the library lets go of Python's lock while it multiplies."""
    slices = [slice(start, min(start + _SLICE, count)) for start in range(0, count, _SLICE)]
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        blob = b"".join(pool.map(work, slices))
    return np.frombuffer(blob, dtype=np.uint8).reshape(count, POINT)


@cache
def _library() -> ModuleType:
    try:
        import rbcl
        from rbcl import _sodium
    except ImportError as problem:
        raise MissingExtra("rbcl", "psi") from problem
    # The binding unpacks libsodium to a file, loads it, and leaves the file behind; loaded, it is needed no more.
    with suppress(OSError):  # Windows does not delete what is loaded.
        Path(_sodium._name).unlink()
    library: ModuleType = rbcl
    return library
