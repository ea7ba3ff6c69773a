"""Read an envelope: check who wrote it and that it is whole before anything inside is looked at."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO

from laconic import __version__
from laconic.deploy.transports.envelopes import keys
from laconic.deploy.transports.envelopes.cover import (
    MOST_CONTENT,
    MOST_COVER,
    Blob,
    Content,
    Cover,
    Kind,
    parse_cover,
    read_content,
)
from laconic.deploy.transports.envelopes.keys import CoverMismatch, KeyRing, PublicKey, SecretKey
from laconic.deploy.transports.envelopes.sealing import SIGNATURE, decrypt, file_key, signed_text, skip
from laconic.errors import WireError

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
