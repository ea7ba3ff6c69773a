"""Write an envelope: one file that only its addressee can open and only its sender can have written."""

import os
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import IO

from laconic import __version__
from laconic.atomic_files import note_written, unbroken
from laconic.deploy.transports.envelopes.cover import Content, Cover, Kind, write_content, write_cover
from laconic.deploy.transports.envelopes.keys import PublicKey, SecretKey, Tampered, Truncated

PIECE = 1 << 18
"""Bytes of plain text in a piece; the last may have fewer."""

_TAG, _FLAG = 16, 1
_LAST = 1 << 31
_HEAD = struct.Struct(">I")
_RAW, _DEFLATED = b"\0", b"\1"


def encrypt(key: bytes, pieces: Iterable[bytes], write: Callable[[bytes], object]) -> None:
    """Encrypt pieces of any length one after another, and write the result as it comes."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    cipher = ChaCha20Poly1305(key)
    waiting: bytes | None = None
    number = 0
    for piece in _even(pieces):
        if waiting is not None:
            _write_piece(cipher, number, waiting, False, write)
            number += 1
        waiting = piece
    _write_piece(cipher, number, waiting or b"", True, write)


def decrypt(key: bytes, file: IO[bytes], where: str) -> Iterator[bytes]:
    """Read back what `encrypt` wrote, from where the file stands, piece by piece; ends after the last piece."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    cipher = ChaCha20Poly1305(key)
    number, last = 0, False
    while not last:
        length, last = _read_head(file, where)
        try:
            plain = cipher.decrypt(_nonce(number, last), file.read(length), None)
        except InvalidTag as problem:
            raise _changed(where) from problem
        yield _expand(plain, where)
        number += 1


def skip(file: IO[bytes], where: str) -> None:
    """Go past all pieces without decrypting them; a file that ends among them is `Truncated`."""
    here = file.tell()
    end = file.seek(0, 2)
    last = False
    while not last:
        file.seek(here)
        length, last = _read_head(file, where)
        here += _HEAD.size + length
        if here > end:
            raise _cut_off(where)
    file.seek(here)


def _write_piece(cipher: object, number: int, plain: bytes, last: bool, write: Callable[[bytes], object]) -> None:
    smaller = zlib.compress(plain, 1)
    body = _DEFLATED + smaller if len(smaller) < len(plain) else _RAW + plain
    sealed: bytes = cipher.encrypt(_nonce(number, last), body, None)  # type: ignore[attr-defined]
    write(_HEAD.pack(len(sealed) | (_LAST if last else 0)))
    write(sealed)


def _read_head(file: IO[bytes], where: str) -> tuple[int, bool]:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise _cut_off(where)
    (word,) = _HEAD.unpack(head)
    length = word & (_LAST - 1)
    if not _TAG + _FLAG <= length <= PIECE + _TAG + _FLAG:
        raise _changed(where)
    return length, bool(word & _LAST)


def _expand(plain: bytes, where: str) -> bytes:
    """Never more than a piece, whatever the bytes claim."""
    if plain[:1] == _RAW:
        return plain[1:]
    try:
        reader = zlib.decompressobj()
        found = reader.decompress(plain[1:], PIECE)
    except zlib.error as problem:
        raise _changed(where) from problem
    if plain[:1] != _DEFLATED or not reader.eof or reader.unused_data:
        raise _changed(where)
    return found


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\1" if last else b"\0")


def _even(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one length, but for the last; no more than one is held."""
    held = bytearray()
    for piece in pieces:
        view = memoryview(piece)
        while view:
            taken = view[: PIECE - len(held)]
            held += taken
            view = view[len(taken) :]
            if len(held) == PIECE:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


def _changed(where: str) -> Tampered:
    return Tampered(f"{where} was changed after it was sealed; do not use it, and ask its sender for another")


def _cut_off(where: str) -> Truncated:
    return Truncated(f"{where} is cut off: it ends before the envelope does; have it copied again")


SIGNATURE = 64
"""Bytes of the signature at the end of the file."""


def cover_of(
    content: Content, own: SecretKey, to: PublicKey, *, kind: Kind, plan: str, alignment: str, days: float
) -> Cover:
    """The cover for what goes inside; plan and alignment are fingerprints."""
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
        laconic=__version__,
        written=now,
        expires=now + timedelta(days=days),
        number=secrets.token_hex(16),
        rows=content.rows,
        bytes=content.bytes,
        epsilon=content.epsilon,
        steps=content.steps,
    )


def seal(
    path: Path, cover: Cover, content: Content, blobs: Iterable[Iterable[bytes]], own: SecretKey, to: PublicKey
) -> None:
    """Write an envelope, whole or not at all.

    Args:
        cover: from `cover_of`.
        blobs: for each blob of the content, its bytes in pieces of any length; they are never held all at once.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            _write(file.write, cover, content, blobs, own, to)
            file.flush()
            os.fsync(file.fileno())
        with unbroken():
            part.replace(path)
            note_written(path)
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
