"""Keys: what a party signs and opens envelopes with, and the short public file that others check them by.

A party has two pairs: Ed25519 to sign, X25519 to be written to. Its public file holds both public halves, signed with
the first so that nobody can put another second beside it. Two people compare the fingerprint by voice before they trust
it.
"""

import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from laconic.core.errors import MissingExtra
from laconic.envelope.refusals import KeyRefused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

PUBLIC, SECRET = ".public", ".secret"
"""The endings of the two files."""

_HEAD = "Laconic public key 1"
_CLAIM = b"laconic public key 1\0"
_MOST = 4096


@dataclass(frozen=True)
class PublicKey:
    """What others may know of a party's keys.

    Attributes:
        name: the party's.
        signing: the 32 bytes that its signatures are checked with.
        sealing: the 32 bytes that envelopes to it are encrypted with.
        proof: its own signature of all three.
    """

    name: str
    signing: bytes
    sealing: bytes
    proof: bytes

    @property
    def fingerprint(self) -> str:
        """Forty digits in eight groups, to be read over the phone; no two keys or names share one."""
        digest = blake2b(_claim(self.name, self.signing, self.sealing), digest_size=32).digest()
        digits = f"{int.from_bytes(digest) % 10**40:040d}"
        return " ".join(digits[at : at + 5] for at in range(0, 40, 5))

    def to_text(self) -> str:
        """The public file: five short lines and the fingerprint."""
        lines = [_HEAD, f"name: {self.name}"]
        for word, value in (("signing", self.signing), ("sealing", self.sealing), ("proof", self.proof)):
            lines.append(f"{word}: {b64encode(value).decode()}")
        return "\n".join([*lines, f"fingerprint: {self.fingerprint}", ""])

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether this party signed the message."""
        from cryptography.exceptions import InvalidSignature

        try:
            _signing_key(self.signing).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def sealing_key(self) -> "X25519PublicKey":
        """The key that envelopes to this party are encrypted with."""
        _need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return X25519PublicKey.from_public_bytes(self.sealing)


@dataclass(frozen=True)
class SecretKey:
    """A party's own keys; they never leave it."""

    public: PublicKey
    signing: "Ed25519PrivateKey"
    sealing: "X25519PrivateKey"


def make_key(name: str) -> SecretKey:
    """New keys for a party."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if not name or name != name.strip() or not name.isprintable() or len(name) > 100 or "/" in name or name[0] == ".":
        raise KeyRefused(f"a party's name is 1 to 100 printable letters, with no / and no dot before it, not {name!r}")
    return with_public(name, Ed25519PrivateKey.generate(), X25519PrivateKey.generate())


def with_public(name: str, signing: "Ed25519PrivateKey", sealing: "X25519PrivateKey") -> SecretKey:
    """A party's keys from their secret halves."""
    halves = signing.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw()
    return SecretKey(PublicKey(name, *halves, signing.sign(_claim(name, *halves))), signing, sealing)


def save_key(secret: SecretKey, folder: Path, passphrase: str | None = None) -> tuple[Path, Path]:
    """Write the secret file, for its owner's eyes only, and the public file; never over keys that are there."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{secret.public.name}{SECRET}", folder / f"{secret.public.name}{PUBLIC}"
    lock: KeySerializationEncryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    blocks = [one.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock) for one in (secret.signing, secret.sealing)]
    try:
        handle = os.open(paths[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as problem:
        raise KeyRefused(
            f"there are keys in {paths[0]} already; who has the public half would no longer reach you: use them, or "
            "move them away first"
        ) from problem
    with os.fdopen(handle, "wb") as file:
        file.write(f"{secret.public.name}\n".encode() + b"".join(blocks))
    paths[1].write_text(secret.public.to_text(), encoding="utf-8")
    return paths


def load_secret(path: Path, passphrase: str | None = None) -> SecretKey:
    """Read a party's own keys back."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if path.stat().st_mode & 0o077:
        raise KeyRefused(f"others on this machine can read the secret keys in {path}; close it with: chmod 600 {path}")
    name, _, rest = path.read_bytes().partition(b"\n")
    middle = rest.find(b"-----BEGIN", 1)
    word = None if passphrase is None else passphrase.encode()
    try:
        signing, sealing = (load_pem_private_key(block, word) for block in (rest[:middle], rest[middle:]))
    except TypeError as problem:
        needs = "needs a passphrase; give it in LACONIC_PASSPHRASE" if word is None else "has no passphrase; give none"
        raise KeyRefused(f"the secret key {path} {needs}") from problem
    except ValueError as problem:
        raise KeyRefused(f"the secret key {path} cannot be read: {problem}; is the passphrase right?") from problem
    if not isinstance(signing, Ed25519PrivateKey) or not isinstance(sealing, X25519PrivateKey):
        raise KeyRefused(f"the secret key {path} was not made by `laconic keys`; make one with: laconic keys NAME")
    return with_public(name.decode(), signing, sealing)


def read_public(path: Path) -> PublicKey:
    """Read a public file and check that its parts belong together."""
    if not path.is_file() or path.stat().st_size > _MOST:
        raise KeyRefused(f"{path} is no public key file; the owner makes one with: laconic keys NAME")
    return parse_public(path.read_bytes(), str(path))


def parse_public(written: bytes, where: str) -> PublicKey:
    """The key in a public file's bytes; anything but what `to_text` writes is refused."""
    wrong = f"{where} is no public key file, or a damaged one; ask its owner for it again"
    try:
        values = [line.partition(": ")[2] for line in written.decode().splitlines()]
        signing, sealing, proof = (b64decode(value, validate=True) for value in values[2:5])
        found = PublicKey(values[1], signing, sealing, proof)
    except (UnicodeDecodeError, ValueError, IndexError, NotBase64) as problem:
        raise KeyRefused(wrong) from problem
    if (len(signing), len(sealing), len(proof)) != (32, 32, 64):
        raise KeyRefused(wrong)
    if found.to_text().encode() != written or not found.verifies(
        found.proof, _claim(found.name, found.signing, found.sealing)
    ):
        raise KeyRefused(wrong)
    return found


def _claim(name: str, signing: bytes, sealing: bytes) -> bytes:
    return _CLAIM + signing + sealing + name.encode()


def _signing_key(raw: bytes) -> "Ed25519PublicKey":
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(raw)


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 (only to say what is missing)
    except ImportError as problem:
        raise MissingExtra("cryptography", "envelopes") from problem
