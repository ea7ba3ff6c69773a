"""Files that are there whole or not at all, and knowing what was saved and whether a file can be written.

A *sealed* file ends with a checksum besides, which shows what a bad disk or a cut copy did to it.
"""

import os
import signal
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import BinaryIO, TypeAlias

from laconic.errors import DataError, TornFile

Piece: TypeAlias = bytes | memoryview

_SEAL = struct.Struct("<8sQ16s")
"""What ends a sealed file: a mark, how many bytes come before it, and their checksum."""
_MARK = b"laconic1"
_written: ContextVar[list[Path] | None] = ContextVar("written", default=None)


@contextmanager
def hold(path: Path) -> Iterator[bool]:
    """Hold a lock file for as long as the block lasts; False if another process, or another block here, has it.

    The lock goes with whoever holds it, however that ends; the file stays, and means nothing.
    """
    import fcntl  # Not on every system, and this file is read on all.

    with append_private(path) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def write_whole(path: Path, *pieces: Piece, durable: bool = False, private: bool = False) -> None:
    """Write a file by way of one beside it, so that nobody ever finds half of it.

    Args:
        path: where to.
        pieces: the content, in pieces.
        durable: return only when it is on the disk, so that it survives a loss of power.
        private: only its owner may read it, whatever the umask.

    Raises:
        DataError: it cannot be written; says why, and nothing stays.
    """
    part = _part_of(path)
    with unbroken(), _explained(path):
        try:
            with _create_private(part) if private else part.open("wb") as stream:
                for piece in pieces:
                    stream.write(piece)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            part.replace(path)
            if durable:
                sync_folder(path.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        if not private:
            note_written(path)


def write_sealed(path: Path, *pieces: Piece, durable: bool = True) -> None:
    """Write a file that only its owner may read, with its checksum at its end."""
    seal = _SEAL.pack(_MARK, sum(map(len, pieces)), checksum(pieces))
    write_whole(path, *pieces, seal, durable=durable, private=True)


def read_sealed(path: Path) -> bytes:
    """The content of a sealed file; a `TornFile` if it does not fit its checksum."""
    length, expected = read_seal(path)
    with path.open("rb") as stream:
        content = stream.read(length)
    if checksum([content]) != expected:
        raise TornFile(f"{path} is torn: its checksum does not fit; put back a copy of it, or start the run afresh")
    return content


def read_seal(path: Path) -> tuple[int, bytes]:
    """The length and checksum of a sealed file's content, without reading it."""
    with path.open("rb") as stream:
        length = stream.seek(0, os.SEEK_END) - _SEAL.size
        stream.seek(max(0, length))
        sealed = stream.read(_SEAL.size)
    mark, said, expected = _SEAL.unpack(sealed) if len(sealed) == _SEAL.size else (b"", -1, b"")
    if mark != _MARK or said != length:
        raise TornFile(f"{path} is torn: it does not end with its checksum; start the run afresh")
    return said, expected


def checksum(pieces: Iterable[Piece]) -> bytes:
    """Sixteen bytes that no other content is found to have."""
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, which only their owner may enter, whatever the umask."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        with _explained(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)  # The umask may have taken rights from its owner too.


def append_private(path: Path) -> BinaryIO:
    """Open a file to add to it, made if it is missing, which only its owner may read, whatever the umask."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "ab")


def keep_from_others(folder: Path) -> None:
    """Take from others all rights to a folder and what is in it, for what other packages wrote there."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)


@contextmanager
def noting_written() -> Iterator[list[Path]]:
    """A list of what is saved within this block, in the order in which it was first saved."""
    found: list[Path] = []
    token = _written.set(found)
    try:
        yield found
    finally:
        _written.reset(token)


def note_written(path: Path) -> None:
    """Take note that a file or folder is saved, for whoever wants to know."""
    noted = _written.get()
    if noted is not None and path not in noted:
        noted.append(path)


@contextmanager
def unbroken() -> Iterator[None]:
    """Let Ctrl-C wait for the end of this block, so that what belongs together is written together."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C reaches the main thread only.
        return
    pressed: list[FrameType | None] = []
    before = signal.signal(signal.SIGINT, lambda _, frame: pressed.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed and callable(before):
            before(signal.SIGINT, pressed[0])


def refuse_unwritable(*paths: Path | None) -> None:
    """Refuse files that could not be written, before the work whose outcome they are to hold; None is no file.

    Raises:
        DataError: says which file, and what is in the way.
    """
    for path in paths:
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
        # Permissions do not tell: some places take no new file from anybody. Trying does, under the name to be used.
        part = _part_of(path)
        with _explained(path):
            part.touch()
            part.unlink()
            if path.exists():
                path.open("ab").close()


def refuse_unwritable_folder(folder: Path) -> None:
    """Refuse a folder in which, or above which if it is still to be made, nothing could be written.

    Raises:
        DataError: says which folder, and what is in the way.
    """
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    with _explained(folder), TemporaryFile(dir=there):
        pass


def _create_private(path: Path) -> BinaryIO:
    """A new file that nobody else could have opened before its rights were right."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "wb")


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise DataError(f"cannot write {path}: {reason}; choose another place, or make this one writable") from problem
