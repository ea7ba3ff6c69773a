"""Encryption in pieces: a file of any size is written and read a quarter of a megabyte at a time.

Each piece is compressed if that helps, and encrypted with ChaCha20-Poly1305 under a key that is used for this one file.
Its nonce counts the pieces and marks the last one, so that none can be left out, repeated, swapped or cut off.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from laconic.envelope.refusals import Tampered, Truncated

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
