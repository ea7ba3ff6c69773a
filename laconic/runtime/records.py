"""A file that only grows, record by record, each with a checksum: what a crash tore at its end is found and cut off."""

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from laconic.core.errors import JournalError, TornFile
from laconic.runtime.whole import Piece, checksum, sync_folder

_HEAD = struct.Struct("<4sIQ16s")
"""What begins a record: a mark, the length of its note, the length of the body after that, and their checksum."""
_MARK = b"lcr1"
_CHUNK = 1 << 22


class Record(NamedTuple):
    """Where a record is: its note, and the place and length of its body."""

    note: bytes
    at: int
    length: int


class Records:
    """The records of one file, which only one process can have open.

    Attributes:
        torn: how many bytes a crash had torn at its end, cut off when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0
        self._stream = path.open("a+b")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            self._stream.close()
            raise JournalError(f"{path} is in use: another process has this run open; stop that one first") from problem
        sync_folder(path.parent)
        try:
            self._found = list(self._scan())
        except TornFile:
            self._stream.close()
            raise

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._found))

    def append(self, note: bytes, body: Piece = b"") -> Record:
        """Put a record on the disk; returns when it is there."""
        start = self._stream.seek(0, os.SEEK_END)
        self._stream.write(_HEAD.pack(_MARK, len(note), len(body), checksum((note, body))) + note)
        self._stream.write(body)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        record = Record(note, start + _HEAD.size + len(note), len(body))
        self._found.append(record)
        return record

    def body(self, record: Record) -> bytes:
        """A record's body."""
        self._stream.seek(record.at)
        return self._stream.read(record.length)

    def close(self) -> None:
        """Let others open the file."""
        self._stream.close()

    def _scan(self) -> Iterator[Record]:
        size = self._stream.seek(0, os.SEEK_END)
        at = 0
        while at < size:
            record = self._record(at, size)
            if record is None:
                self._cut(at, size)
                return
            yield record
            at = record.at + record.length

    def _record(self, at: int, size: int) -> Record | None:
        """The record that begins here; None if none does, or it is not whole."""
        self._stream.seek(at)
        head = self._stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        mark, note_length, length, expected = _HEAD.unpack(head)
        start = at + _HEAD.size + note_length
        if mark != _MARK or start + length > size:
            return None
        note = self._stream.read(note_length)
        return Record(note, start, length) if checksum((note, *self._pieces(length))) == expected else None

    def _pieces(self, length: int) -> Iterator[bytes]:
        while length > 0 and (piece := self._stream.read(min(length, _CHUNK))):
            length -= len(piece)
            yield piece

    def _cut(self, at: int, size: int) -> None:
        """Cut off a torn end; what is torn with whole records after it was no crash, and is an error."""
        with mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            later = content.find(_MARK, at + 1)
            while later >= 0:
                if self._record(later, size) is not None:
                    raise TornFile(
                        f"{self.path} is damaged at byte {at:,}, with sound records after it, which no crash does; put "
                        "back a copy of its folder from before, or start the run afresh in an empty one"
                    )
                later = content.find(_MARK, later + 1)
        self.torn = size - at
        self._stream.truncate(at)
        os.fsync(self._stream.fileno())
