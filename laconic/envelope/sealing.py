"""Write an envelope: one file that only its addressee can open and only its sender can have written."""

import os
import secrets
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from laconic.envelope.content import Content, write_content
from laconic.envelope.cover import Cover, Kind, write_cover
from laconic.envelope.keys import PublicKey, SecretKey
from laconic.envelope.stream import encrypt

SIGNATURE = 64
"""Bytes of the signature at the end of the file."""


def cover_of(
    content: Content, own: SecretKey, to: PublicKey, *, kind: Kind, plan: str, alignment: str, days: float
) -> Cover:
    """The cover for what goes inside.

    Args:
        plan, alignment: fingerprints.
        days: how long the envelope may be used.
    """
    if not 0 < days <= 3650:
        raise ValueError(f"an envelope may be used for more than 0 and at most 3650 days, not {days:g}")
    now = datetime.now(UTC).replace(microsecond=0)
    return Cover(
        sender=own.public.name,
        sender_key=own.public.fingerprint,
        to=to.name,
        to_key=to.fingerprint,
        kind=kind,
        plan=plan,
        alignment=alignment,
        laconic=version("laconic"),
        written=now,
        expires=now + timedelta(days=days),
        number=secrets.token_hex(16),
        rows=content.rows,
        bytes=content.bytes,
        epsilon=content.epsilon,
        steps=tuple(blob.line for blob in content.blobs),
    )


def seal(
    path: Path, cover: Cover, content: Content, blobs: Iterable[Iterable[bytes]], own: SecretKey, to: PublicKey
) -> None:
    """Write an envelope, whole or not at all.

    Args:
        cover: from `cover_of`.
        blobs: for each blob of the content, its bytes in pieces of any length; they are never held all at once.
        own: who signs.
        to: who can open it.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            _write(file.write, cover, content, blobs, own, to)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def file_key(shared: bytes, once: bytes, to: bytes, cover: bytes) -> bytes:
    """The key of one file: it fits this cover, this addressee and this one-time key, and no others."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    about = b"laconic envelope 1 key\0" + blake2b(cover, digest_size=64).digest()
    return HKDF(algorithm=SHA256(), length=32, salt=once + to, info=about).derive(shared)


def signed_text(digest: bytes) -> bytes:
    """What is signed: a digest of the whole file before the signature."""
    return b"laconic envelope 1 signature\0" + digest


def _write(
    write: Callable[[bytes], object],
    cover: Cover,
    content: Content,
    blobs: Iterable[Iterable[bytes]],
    own: SecretKey,
    to: PublicKey,
) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    digest = blake2b(digest_size=64)

    def write_signed(piece: bytes) -> None:
        digest.update(piece)
        write(piece)

    written = write_cover(cover)
    one_time = X25519PrivateKey.generate()
    once = one_time.public_key().public_bytes_raw()
    write_signed(written)
    write_signed(once)
    key = file_key(one_time.exchange(to.sealing_key()), once, to.sealing, written)
    encrypt(key, write_content(content, blobs), write_signed)
    write(own.signing.sign(signed_text(digest.digest())))
