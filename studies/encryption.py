"""What it costs to encrypt columns for real: CKKS by TenSEAL, in 128-bit security.

In the paper's comparison parties encrypt, and a server decrypts inside trusted hardware and trains there. So the score
is that of pooled columns, and what is measured here is what encryption adds: time to encrypt and decrypt, and bytes.
Training on ciphertexts themselves is not tried: a hidden layer of 128 on 400,000 rows is out of reach of the scheme.
"""

from time import process_time

import numpy as np

from laconic.errors import MissingExtra
from laconic.values import Array

_SLOTS = 4096
"""Numbers in one ciphertext, with polynomials of degree 8192."""


def encryption_cost(values: Array) -> dict[str, float]:
    """Seconds and bytes for each number encrypted, and the greatest error after decrypting."""
    try:
        import tenseal
    except ImportError as problem:
        raise MissingExtra("tenseal", "he") from problem
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 60])
    context.global_scale = 2.0**40
    flat = values.ravel().astype(np.float64)
    chunks = [flat[start : start + _SLOTS] for start in range(0, flat.size, _SLOTS)]
    started = process_time()
    blobs = [tenseal.ckks_vector(context, chunk).serialize() for chunk in chunks]
    encrypted = process_time()
    found = np.concatenate([tenseal.ckks_vector_from(context, blob).decrypt() for blob in blobs])
    return {
        "encrypt_seconds": (encrypted - started) / flat.size,
        "decrypt_seconds": (process_time() - encrypted) / flat.size,
        "bytes": sum(len(blob) for blob in blobs) / flat.size,
        "error": float(np.abs(found - flat).max()),
    }
