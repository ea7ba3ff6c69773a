"""Sums over rows that a party works out without seeing the numbers: BFV, an additively homomorphic scheme, by TenSEAL.

Numbers are coefficients of polynomials. A ciphertext holds `length` rows; a party multiplies it by a polynomial of its
own that has a 1 wherever a row belongs to a sum, placed so that several sums of these rows end up in coefficients of
one product, and adds the products of all ciphertexts. A product holds 8192 / `length` sums; nothing is rotated, and
nothing is rounded. Of the product, only those sums are told: a random polynomial covers all other coefficients, and an
encryption of zero with far greater noise covers the noise, which would otherwise tell which rows were added.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from laconic.core.errors import MissingExtra
from laconic.core.values import Array
from laconic.privacy.chance import secure_words

COEFFICIENTS = 8192
MODULUS = 2**59
_PRIMES = [40, 40, 40, 41]
"""Bits of the moduli: 161 in all, where 218 still give 128-bit security at 8192 coefficients."""

_FLOOD = 34
"""Bits of the factor on the encryption of zero that covers the noise."""

_ROUND = 5000
"""Ciphertexts are compressed by a few bytes more or less; filled up to a multiple of this, all are of one size."""


class Bfv:
    """One holder of a key: the label holder with the secret one, or a party with the public one."""

    def __init__(self, *, public: bytes | None = None, secret: bytes | None = None) -> None:
        """Load keys, or draw new ones if none are given."""
        self._seal = _library()
        self._folder = TemporaryDirectory(prefix="laconic-")
        self._context = _context(self._seal)
        self._evaluator = self._seal.Evaluator(self._context)
        self._public, self._secret = self._seal.PublicKey(), self._seal.SecretKey()
        if public is None and secret is None:
            keys = self._seal.KeyGenerator(self._context)
            keys.create_public_key(self._public)
            self._secret = keys.secret_key()
        if public is not None:
            self._load(self._public, public)
        if secret is not None:
            self._load(self._secret, secret)

    @property
    def public(self) -> bytes:
        """The key by which parties hide what they did."""
        return self._save(self._public)

    @property
    def secret(self) -> bytes:
        """The key that opens sums."""
        return self._save(self._secret)

    def close(self) -> None:
        """Remove the folder through which the library hands over bytes."""
        self._folder.cleanup()

    def encrypt(self, numbers: Array, length: int) -> list[bytes]:
        """Whole numbers, `length` of them in each ciphertext; needs the secret key."""
        encryptor = self._seal.Encryptor(self._context, self._secret)
        return [
            self._save(encryptor.encrypt_symmetric(self._polynomial(np.arange(len(some)), some % MODULUS)))
            for some in np.split(numbers, range(length, len(numbers), length))
        ]

    def add_up(self, blobs: Sequence[bytes], rows: Array, sums: Array, count: int, length: int) -> list[bytes]:
        """Ciphertexts of `count` sums, of which each holds as many as fit; needs the public key.

        Args:
            blobs: from `encrypt`, with the same `length`.
            rows: which number, and `sums`, to which sum it is added; a number may be added to many.
            count: how many sums there are.
            length: numbers in each ciphertext.
        """
        size = COEFFICIENTS // length
        group, chunk = sums // size, rows // length
        places = (sums % size + 1) * length - 1 - rows % length
        order = np.lexsort((-places, chunk, group))
        parts = _segments(group[order], chunk[order], places[order])
        totals: dict[int, Any] = {}
        loaded: dict[int, Any] = {}
        for which, whence, exponents in parts:
            if whence not in loaded:
                loaded[whence] = self._load(self._seal.Ciphertext(), blobs[whence])
                self._evaluator.transform_to_ntt_inplace(loaded[whence])
            product = self._product(loaded[whence], exponents)
            if which in totals:
                self._evaluator.add_inplace(totals[which], product)
            else:
                totals[which] = product
        return [self._cover(totals.get(which), size, length) for which in range(-(-count // size))]

    def decrypt(self, blobs: Sequence[bytes], count: int, length: int) -> Array:
        """The sums that `add_up` worked out; needs the secret key."""
        decryptor = self._seal.Decryptor(self._context, self._secret)
        found: list[int] = []
        for blob in blobs:
            plain = self._seal.Plaintext()
            decryptor.decrypt(self._load(self._seal.Ciphertext(), blob), plain)
            known = plain.coeff_count()
            found += [plain.data(at) if at < known else 0 for at in range(length - 1, COEFFICIENTS, length)]
        return (np.array(found[:count]) + MODULUS // 2) % MODULUS - MODULUS // 2

    def _product(self, ciphertext: Any, exponents: Array) -> Any:
        ones, product = self._polynomial(exponents[::-1], np.ones(len(exponents), int)), self._seal.Ciphertext()
        self._evaluator.transform_to_ntt_inplace(ones, self._context.first_parms_id())
        self._evaluator.multiply_plain(ciphertext, ones, product)
        return product

    def _cover(self, total: Any | None, size: int, length: int) -> bytes:
        """A total with all but its sums hidden, under a smaller modulus."""
        cover = self._seal.Ciphertext()
        self._seal.Encryptor(self._context, self._public).encrypt_zero(cover)
        everywhere = np.arange(COEFFICIENTS)
        flood = self._polynomial(everywhere, secure_words(COEFFICIENTS) >> np.uint64(64 - _FLOOD))
        self._evaluator.multiply_plain_inplace(cover, flood)
        if total is not None:
            self._evaluator.transform_from_ntt_inplace(total)
            self._evaluator.add_inplace(cover, total)
        hidden = secure_words(COEFFICIENTS) % np.uint64(MODULUS)
        hidden[length - 1 : size * length : length] = 0
        self._evaluator.add_plain_inplace(cover, self._polynomial(everywhere, hidden))
        self._evaluator.mod_switch_to_next_inplace(cover)
        return self._save(cover)

    def _polynomial(self, exponents: Array, coefficients: Array) -> Any:
        """From exponents that rise; the library reads them falling, coefficients in hexadecimal digits."""
        terms = zip(exponents[::-1].tolist(), coefficients[::-1].tolist(), strict=True)
        return self._seal.Plaintext(" + ".join(f"{number:x}x^{at}" for at, number in terms).removesuffix("x^0"))

    def _save(self, value: Any) -> bytes:
        path = Path(self._folder.name) / "value"
        value.save(str(path))
        blob = path.read_bytes()
        return blob + bytes(-len(blob) % _ROUND)

    def _load(self, value: Any, blob: bytes) -> Any:
        path = Path(self._folder.name) / "value"
        path.write_bytes(blob)
        value.load(self._context, str(path))
        return value


def _segments(group: Array, chunk: Array, places: Array) -> Iterator[tuple[int, int, Array]]:
    """Runs of equal group and chunk, with the places in each."""
    starts = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(chunk, prepend=-1))
    for start, some in zip(starts.tolist(), np.split(places, starts[1:]), strict=True):
        yield int(group[start]), int(chunk[start]), some


def _context(seal: Any) -> Any:
    settings = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    settings.set_poly_modulus_degree(COEFFICIENTS)
    settings.set_coeff_modulus(seal.CoeffModulus.Create(COEFFICIENTS, _PRIMES))
    settings.set_plain_modulus(MODULUS)
    return seal.SEALContext(settings, True, seal.SEC_LEVEL_TYPE.TC128)


def _library() -> Any:
    try:
        from tenseal import sealapi
    except ImportError as problem:
        raise MissingExtra("tenseal", "he") from problem
    return sealapi
