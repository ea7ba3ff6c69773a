"""Write an envelope and read it: one file that only its addressee can open and only its sender can have written.

Who wrote it, and that it is whole, is checked before anything inside is looked at.
"""

import os
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import IO

from laconic import __version__
from laconic.atomic_files import note_written, unbroken
from laconic.deploy.transports.envelopes import keys
from laconic.deploy.transports.envelopes.keys import (
    MOST_CONTENT,
    MOST_COVER,
    Blob,
    Content,
    Cover,
    CoverMismatch,
    KeyRing,
    Kind,
    PublicKey,
    SecretKey,
    Tampered,
    Truncated,
    parse_cover,
    read_content,
    write_content,
    write_cover,
)
from laconic.errors import WireError

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


_ONCE = 32


@dataclass(frozen=True)
class Expected:
    """What an envelope must be to be accepted.

    Attributes:
        kind: questions or answers.
        plan: fingerprint of the reader's plan; None accepts any.
        alignment: fingerprint of the reader's rows; None accepts any.
        sender: who must have written it; None accepts any trusted party.
    """

    kind: Kind
    plan: str | None = None
    alignment: str | None = None
    sender: str | None = None


@dataclass(frozen=True)
class Envelope:
    """An envelope whose signature and cover were checked; what is inside is still to be read."""

    path: Path
    cover: Cover
    sender: PublicKey
    once: bytes
    written: bytes

    @contextmanager
    def open(self, own: SecretKey) -> Iterator["Opened"]:
        """Decrypt the list of what is inside, and hold it against the cover; the rest is read within the block."""
        shared = _exchange(own, self.once, str(self.path))
        key = file_key(shared, self.once, own.public.sealing, self.written)
        with self.path.open("rb") as file:
            file.seek(len(self.written) + _ONCE)
            yield Opened(self, decrypt(key, file, str(self.path)))


class Opened:
    """The inside of an envelope, read from front to back; `content`, the list of it, agrees with the cover."""

    def __init__(self, envelope: Envelope, pieces: Iterator[bytes]) -> None:
        self._where = str(envelope.path)
        self._reader = _Reader(pieces)
        length = int.from_bytes(self._take(4), "big")
        if length > MOST_CONTENT.bytes:
            raise CoverMismatch(
                f"{self._where} begins with a list of {length:,} bytes; at most {MOST_CONTENT.bytes:,} can be"
            )
        try:
            self.content: Content = read_content(self._take(length))
        except WireError as problem:
            raise CoverMismatch(f"what is inside {self._where} cannot be read: {problem}") from problem
        _compare(envelope.cover, self.content, self._where)

    def blobs(self) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        """Each blob and its bytes in pieces; read one to its end before the next. Less or more inside is an error."""
        for blob in self.content.blobs:
            yield blob, self._pieces(blob.size)
        if self._reader.more():
            raise CoverMismatch(f"{self._where} holds more than its cover says; ask its sender what that is")

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._reader.some(size)
            if not piece:
                raise CoverMismatch(f"{self._where} holds less than its cover says; have it sealed again")
            size -= len(piece)
            yield piece

    def _take(self, size: int) -> bytes:
        return b"".join(self._pieces(size))


def read_cover(path: Path) -> Cover:
    """What stands on an envelope, unchecked: anybody could have written it."""
    with path.open("rb") as file:
        return parse_cover(file.read(MOST_COVER), str(path))[0]


def check(path: Path, ring: KeyRing, expected: Expected, now: datetime | None = None) -> Envelope:
    """Accept an envelope, or say why not.

    The signature comes before everything that the cover claims, so that no claim of a forged cover is acted upon.
    """
    where = str(path)
    if not path.is_file():
        raise keys.NotAnEnvelope(f"there is no file {where}; check its name")
    with path.open("rb") as file:
        written = file.read(MOST_COVER)
        cover, end = parse_cover(written, where)
        sender = _signer(cover, ring, where)
        file.seek(end)
        once = file.read(_ONCE)
        _check_signature(file, sender, where)
    _check_address(cover, ring, where)
    _check_claims(cover, expected, where, now or datetime.now(UTC))
    return Envelope(path, cover, sender, once, written[:end])


def _signer(cover: Cover, ring: KeyRing, where: str) -> PublicKey:
    sender = ring.by_fingerprint(cover.sender_key)
    if sender is None or sender.name != cover.sender:
        raise keys.UnknownKey(
            f"{where} says that it is from {cover.sender}, with the key {cover.sender_key}, which is not in the key "
            f"ring; if {cover.sender} confirms that number by phone, add the key with: laconic keys --trust FILE"
        )
    return sender


def _check_signature(file: IO[bytes], sender: PublicKey, where: str) -> None:
    """The file must be pieces to the last, then a signature of everything before it, then nothing."""
    skip(file, where)
    signed = file.tell()
    signature = file.read(SIGNATURE + 1)
    if len(signature) < SIGNATURE:
        raise keys.Truncated(f"{where} is cut off within its signature; have it copied again")
    digest = blake2b(digest_size=64)
    file.seek(0)
    left = signed
    while left and (piece := file.read(min(left, 1 << 20))):
        digest.update(piece)
        left -= len(piece)
    if left or not sender.verifies(signature, signed_text(digest.digest())):
        raise keys.Tampered(
            f"{where} is not as {sender.name} signed it; do not use it, and ask {sender.name} for another"
        )


def _check_address(cover: Cover, ring: KeyRing, where: str) -> None:
    own = ring.own.public
    if (cover.to, cover.to_key) != (own.name, own.fingerprint):
        other = " (an older key of yours?)" if cover.to == own.name else ""
        raise keys.WronglyAddressed(
            f"{where} is for {cover.to}{other}, but you are {own.name}; pass it on, or ask {cover.sender} for yours"
        )


def _check_claims(cover: Cover, expected: Expected, where: str, now: datetime) -> None:
    here = __version__
    if cover.laconic != here:
        raise keys.OtherVersion(
            f"{where} was written by Laconic {cover.laconic}, but here is {here}; install the same version on both "
            "sides, for numbers may differ"
        )
    if cover.kind != expected.kind:
        raise keys.NotAnEnvelope(f"{where} holds {cover.kind}s, not {expected.kind}s; give the file that was meant")
    if expected.sender is not None and cover.sender != expected.sender:
        raise keys.UnknownKey(f"{where} is from {cover.sender}, but only {expected.sender} may send this")
    if now > cover.expires:
        raise keys.Expired(
            f"{where} could be used until {cover.expires:%Y-%m-%d %H:%M} UTC; ask {cover.sender} to seal it again"
        )
    here_is = f"{where} is for the {{}} {{}}, but here it is {{}}; {{}}"
    if expected.plan not in (None, cover.plan):
        raise keys.OtherPlan(here_is.format("plan", cover.plan, expected.plan, "compare the two plan files"))
    if expected.alignment not in (None, cover.alignment):
        remedy = "match the rows again on both sides"
        raise keys.OtherAlignment(here_is.format("alignment", cover.alignment, expected.alignment, remedy))


def _compare(cover: Cover, content: Content, where: str) -> None:
    for what in ("rows", "bytes", "epsilon", "steps"):
        said, value = getattr(cover, what), getattr(content, what)
        if said != value:
            raise CoverMismatch(
                f"the cover of {where} says {what}: {said}, but inside it is {value}; ask {cover.sender} why"
            )


def _exchange(own: SecretKey, once: bytes, where: str) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        return own.sealing.exchange(X25519PublicKey.from_public_bytes(once))
    except ValueError as problem:
        raise keys.Tampered(f"{where} was sealed with a key that cannot be; ask its sender for another") from problem


class _Reader:
    """Pieces of any length, read in other lengths."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def some(self, most: int) -> bytes:
        """Up to so many bytes; none only at the end."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = memoryview(piece)
        taken, self._held = self._held[:most], self._held[most:]
        return bytes(taken)

    def more(self) -> bool:
        """Whether anything is left."""
        return bool(self.some(1))
