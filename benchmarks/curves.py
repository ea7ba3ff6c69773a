"""What one multiplication of a point costs in libraries that private matching could use, as far as they are installed.

    python -m benchmarks.curves      # to try them all: pip install rbcl pynacl cryptography coincurve

Microseconds of one processor, for multiplying a point by a secret and for hashing an id to a point.
"""

import hashlib
import os
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from time import process_time
from typing import Any

_POINTS = 2000


def main() -> None:
    """Print a line for each library."""
    print(f"{'library':<32} {'multiply':>9} {'hash':>6}")
    for package, measure in {
        "rbcl": ristretto,
        "pynacl": ed25519,
        "cryptography": p256,
        "coincurve": secp256k1,
    }.items():
        try:
            multiply, hashing = measure()
        except ImportError:
            print(f"{package:<32} is not installed")
            continue
        words = f"{package} {version(package)}, {measure.__name__}"
        print(f"{words:<32} {multiply:>9.0f} {'-' if hashing is None else f'{hashing:.0f}':>6}")


def ristretto() -> tuple[float, float | None]:
    """Libsodium's prime-order group."""
    library = import_module("rbcl")
    points, hashing = timed(library.crypto_core_ristretto255_from_hash, hashes())
    secret = library.crypto_core_ristretto255_scalar_random()
    return timed(lambda point: library.crypto_scalarmult_ristretto255(secret, point), points)[1], hashing


def ed25519() -> tuple[float, float | None]:
    """Libsodium's Edwards curve; one map, which reaches half of the points."""
    library = import_module("nacl.bindings")
    points, hashing = timed(lambda one: library.crypto_core_ed25519_from_uniform(one[:32]), hashes())
    secret = library.crypto_core_ed25519_scalar_reduce(os.urandom(64))
    return timed(lambda point: library.crypto_scalarmult_ed25519_noclamp(secret, point), points)[1], hashing


def p256() -> tuple[float, float | None]:
    """OpenSSL's P-256 by first coordinates, hashing by trying until one is on the curve."""
    curves = import_module("cryptography.hazmat.primitives.asymmetric.ec")
    curve, exchange = curves.SECP256R1(), curves.ECDH()

    def lift(first: bytes) -> Any:
        return curves.EllipticCurvePublicKey.from_encoded_point(curve, b"\x02" + first)

    def find(digest: bytes) -> Any:
        while True:
            digest = hashlib.sha256(digest).digest()
            try:
                return lift(digest)
            except ValueError:
                continue

    points, hashing = timed(find, hashes())
    secret = curves.generate_private_key(curve)
    return timed(lambda point: lift(secret.exchange(exchange, point)), points)[1], hashing


def secp256k1() -> tuple[float, float | None]:
    """Bitcoin's curve; nothing to hash to it with."""
    library = import_module("coincurve")
    secret = library.PrivateKey().secret
    points = [library.PrivateKey().public_key for _ in range(_POINTS)]
    return timed(lambda point: point.multiply(secret), points)[1], None


def hashes() -> list[bytes]:
    """Digests of ids."""
    return [hashlib.blake2b(str(number).encode()).digest() for number in range(_POINTS)]


def timed(work: Callable[[Any], Any], over: list[Any]) -> tuple[list[Any], float]:
    """What the work gives for each, and microseconds for one."""
    began = process_time()
    found = [work(one) for one in over]
    return found, (process_time() - began) / len(over) * 1e6


if __name__ == "__main__":
    main()
