"""Files that are there whole or not at all: each ends with a checksum, which finds what a crash or a bad disk tore."""

import os
import struct
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import IO, TypeAlias

from laconic.core.errors import TornFile

Piece: TypeAlias = bytes | memoryview
SEAL = struct.Struct("<8sQ16s")
"""What ends a file: a mark, how many bytes come before it, and their checksum."""

_MARK = b"laconic1"


def checksum(pieces: Iterable[Piece]) -> bytes:
    """Sixteen bytes that no other content is found to have."""
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def write_whole(path: Path, *pieces: Piece, durable: bool = True) -> None:
    """Write a file beside its place and move it there at once; whoever reads sees the old one or the new one.

    Args:
        path: where to.
        pieces: the content, in pieces.
        durable: also wait until it is on the disk, so that it survives a loss of power.
    """
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as stream:
        _write_sealed(stream, pieces, durable)
    part.replace(path)
    if durable:
        sync_folder(path.parent)


def read_whole(path: Path) -> bytes:
    """The content of a file that `write_whole` wrote; anything else is a `TornFile`."""
    with path.open("rb") as stream:
        content = _read_sealed(stream)
    if content is None:
        raise TornFile(f"{path} is torn: its checksum does not fit; put back a copy of it, or start the run afresh")
    return content


def read_seal(path: Path) -> tuple[int, bytes]:
    """The length and checksum of a file's content as its seal says, without reading it."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END) - SEAL.size
        stream.seek(max(0, length))
        sealed = stream.read(SEAL.size)
    mark, said, expected = SEAL.unpack(sealed) if len(sealed) == SEAL.size else (b"", -1, b"")
    if mark != _MARK or said != length:
        raise TornFile(f"{path} is torn: it does not end with its checksum; start the run afresh")
    return said, expected


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Slots:
    """A value on disk that changes often: two files written in turn, of which the newer whole one counts.

    A crash can tear only the one being written, and the other still stands; this needs half the waiting for the disk
    that moving a new file into place does.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._paths = (path.with_name(f"{path.name}.0"), path.with_name(f"{path.name}.1"))
        self._durable = durable
        self._turn: int | None = None
        self._seen: tuple[tuple[int, int], ...] = ()

    @property
    def stale(self) -> bool:
        """Whether another process has written since this one last read or wrote."""
        return self._seen != self._look()

    @property
    def exists(self) -> bool:
        """Whether anything was ever written."""
        return any(path.exists() for path in self._paths)

    def read(self) -> bytes:
        """The value written last; a `TornFile` if neither file is whole."""
        found = [(int.from_bytes(content[:8], "little"), content) for path in self._paths if (content := _try(path))]
        if not found:
            first = self._paths[0]
            raise TornFile(f"{first} and its twin are torn or gone; put back a copy of them, or start the run afresh")
        self._seen = self._look()
        self._turn, content = max(found, key=lambda one: one[0])
        return content[8:]

    def write(self, *pieces: Piece) -> None:
        """Put a new value in the place of the older of the two."""
        if self._turn is None and self.exists:
            self.read()
        turn = 0 if self._turn is None else self._turn + 1
        path = self._paths[turn % 2]
        fresh = not path.exists()
        with path.open("wb" if fresh else "r+b") as stream:
            _write_sealed(stream, (struct.pack("<Q", turn), *pieces), self._durable)
        if fresh and self._durable:
            sync_folder(path.parent)
        self._turn, self._seen = turn, self._look()

    def _look(self) -> tuple[tuple[int, int], ...]:
        found = [path.stat() for path in self._paths if path.exists()]
        return tuple((one.st_mtime_ns, one.st_size) for one in found)


def _try(path: Path) -> bytes | None:
    if not path.exists():
        return None
    with path.open("rb") as stream:
        content = _read_sealed(stream)
    return content if content is not None and len(content) >= 8 else None


def _write_sealed(stream: IO[bytes], pieces: Iterable[Piece], durable: bool) -> None:
    digest, length = blake2b(digest_size=16), 0
    for piece in pieces:
        digest.update(piece)
        length += len(piece)
        stream.write(piece)
    stream.write(SEAL.pack(_MARK, length, digest.digest()))
    stream.truncate()
    stream.flush()
    if durable:
        os.fsync(stream.fileno())


def _read_sealed(stream: IO[bytes]) -> bytes | None:
    """What stands before the seal; None if there is none or it does not fit."""
    length = stream.seek(0, os.SEEK_END) - SEAL.size
    if length < 0:
        return None
    stream.seek(length)
    mark, said, expected = SEAL.unpack(stream.read(SEAL.size))
    if mark != _MARK or said != length:
        return None
    stream.seek(0)
    content = stream.read(length)
    return content if checksum([content]) == expected else None
