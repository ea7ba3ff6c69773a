"""Gradients that parties add up without reading them: encrypted as whole numbers, summed, and read back (BFV).

What a secure sum is made of: keys, masks that cancel, shares of secrets, and numbers as whole numbers.

Bonawitz and others: Practical Secure Aggregation for Privacy-Preserving Machine Learning (2017). Keys are X25519, masks
come from ChaCha20, shares are Shamir's, all through `cryptography` but for the few lines of Shamir. Nothing here knows
of parties or steps: `laconic.methods.families.sums` does.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log2, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from laconic.errors import MissingExtra, WireError
from laconic.privacy.randomness import secure_words
from laconic.values import Array, Settings

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


COEFFICIENTS = 8192
MODULUS = 2**59
_PRIMES = [40, 40, 40, 41]
"""Bits of the moduli: 161 in all, where 218 still give 128-bit security at 8192 coefficients."""

_FLOOD = 34
"""Bits of the factor on the encryption of zero that covers the noise."""

_ROUND = 5000
"""Compressed ciphertexts differ by a few bytes; filled up to a multiple of this, all have one size."""

_EXACT = 22
"""Bits to which gradients are rounded at most: float32 holds no more."""

_UP_TO_DOWN = 200 / 145
"""Size of a ciphertext of sums over size of a ciphertext of numbers."""


class Bfv:
    """One holder of a key: the label holder with the secret one, or a party with the public one.

    Without either, new keys are drawn.
    """

    def __init__(self, *, public: bytes | None = None, secret: bytes | None = None) -> None:
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
        """The key with which parties hide all but their sums."""
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
        totals: dict[int, Any] = {}
        loaded: dict[int, Any] = {}
        for which, source, exponents in _segments(group[order], chunk[order], places[order]):
            if source not in loaded:
                loaded[source] = self._load(self._seal.Ciphertext(), blobs[source])
                self._evaluator.transform_to_ntt_inplace(loaded[source])
            product = self._product(loaded[source], exponents)
            if which in totals:
                self._evaluator.add_inplace(totals[which], product)
            else:
                totals[which] = product
        return [self._cover(totals.get(which), size, length) for which in range(-(-count // size))]

    def decrypt(self, blobs: Sequence[bytes], count: int, length: int) -> Array:
        """The sums that `add_up` calculated; needs the secret key."""
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
        """A total in which only its sums can be read, under a smaller modulus."""
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
        """From rising exponents; the library reads falling ones, with coefficients in hexadecimal digits."""
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


class Encrypted(Settings, frozen=True):
    """Gradients and hessians encrypted by the label holder, who alone can read the sums.

    Attributes:
        packed: whether gradient and hessian share one number: half the ciphertexts, but with n rows each is rounded to
            29 less log2(n) bits (14 for 27,000 rows). Else they are rounded to 22 bits.
    """

    packed: bool = True


class Sealed:
    """The gradients of one round of trees, rounded and encrypted, and what the key's holder reads from encrypted sums.

    Attributes:
        slopes: gradients and hessians exactly as they were rounded, shape (outputs, rows, 2).
        length: how many rows share a ciphertext.
        numbers: the ciphertexts: one list if gradient and hessian share a number or all hessians are 1, else two.
    """

    def __init__(self, cipher: Encrypted, secret: bytes, slopes: Array, sums: int) -> None:
        """Round and encrypt gradients; `sums` is how many sums a tree takes at the party with most."""
        self._keys = Bfv(secret=secret)
        self.length = rows_in_one(slopes.shape[1], sums)
        parts = self._round(slopes, cipher.packed)
        self.numbers = [self._keys.encrypt(part.ravel(), self.length) for part in parts]

    def _round(self, slopes: Array, packed: bool) -> list[Array]:
        """Gradients and hessians as whole numbers of a small unit, so that sums over all rows fit."""
        room = ceil(log2(max(2, slopes.shape[1])))
        plain = bool((slopes[..., 1] == 1).all())
        packed = packed and not plain
        bits = min(_EXACT, (MODULUS.bit_length() - 4) // 2 - room) if packed else _EXACT
        # A power of two, so that what a number stands for is exact.
        unit = 2.0 ** (ceil(log2(max(float(np.abs(slopes[..., 0]).max()), 1e-30))) - bits)
        # What 1 stands for, of gradients and of hessians: 0 for hessians that are all 1 and not sent.
        self._units = (unit, 0.0 if plain else 2.0**-bits)
        # How many bits of a packed number are the hessian's.
        self._shift = bits + room + 1 if packed else 0
        first = np.rint(slopes[..., 0].astype(np.float64) / unit).astype(np.int64)
        rounded, parts = [first * unit, slopes[..., 1]], [first]
        if not plain:
            second = np.rint(slopes[..., 1].astype(np.float64) / self._units[1]).astype(np.int64)
            rounded[1] = second * self._units[1]
            parts = [first * 2**self._shift + second] if packed else [first, second]
        self.slopes = np.stack(rounded, axis=-1).astype(np.float32)
        return parts

    @property
    def counts_rows(self) -> bool:
        """Whether hessians are all 1, so that parties count rows instead of adding them."""
        return self._units[1] == 0

    def read(self, blobs: list[list[bytes]], counts: Array | None, shape: tuple[int, int]) -> Array:
        """Histograms of shape (nodes, bins, 2) from encrypted sums; `counts` of rows stand for hessians that are 1."""
        found = [self._keys.decrypt(part, shape[0] * shape[1], self.length).reshape(shape) for part in blobs]
        (unit, second_unit), shift = self._units, self._shift
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

    `sums` is how many sums a tree takes at the party with most.
    """
    together = sqrt(COEFFICIENTS * sums * _UP_TO_DOWN / rows)
    return int(COEFFICIENTS // 2 ** min(12, max(1, round(log2(together)))))
