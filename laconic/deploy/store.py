"""A store on sqlite: what a party or a hub must not lose, and what earlier versions kept in files."""

import mmap
import os
import shutil
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, NamedTuple

from laconic.atomic_files import Piece, append_private, checksum, make_private_folder, read_sealed, write_whole
from laconic.core.wire import Limits
from laconic.errors import JournalError, StoreError, TornFile

OWN: Limits | None = None
"""Limits for what this machine itself wrote: none, as it must be able to read all that it could write."""

LARGE = 1 << 20
"""Contents of more bytes than this are files of their own: SQLite would write them twice."""

_FORMAT = 1
_SCHEMA = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, note BLOB NOT NULL,
    size INTEGER NOT NULL, digest BLOB NOT NULL, mark BLOB NOT NULL, content BLOB, UNIQUE (kind, key)
)"""
_SELECT = "SELECT id, kind, key, note, size, digest, content IS NULL, mark FROM entries "
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LOG, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_inherited: list[sqlite3.Connection] = []
"""Connections of the process that this one was forked from; closing them here would disturb their owner."""


class Record(NamedTuple):
    """An entry without its content.

    Attributes:
        id: grows with every new entry.
        note: what its writer says about the content.
        size, digest: the content's number of bytes, and their checksum.
        apart: whether the content is in a file of its own.
    """

    id: int
    kind: str
    key: str
    note: bytes
    size: int
    digest: bytes
    apart: bool


class Store:
    """One database, for any number of processes and threads; each thread has a connection of its own.

    Args:
        path: the database is `path`.db, and large contents are in the folder `path`.blobs.
        durable: what is written survives a loss of power; False for a trial that begins afresh anyway.
        alone: only one process can have it open, as long as it does.
        grows: nothing is ever deleted from it, so that a missing entry shows damage.
        patience: seconds to wait for another process that is writing.
        adopt: fills a store that is new from files of earlier versions, and returns those to be deleted then.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        alone: bool = False,
        grows: bool = False,
        patience: float = 60.0,
        adopt: "Callable[[Store], list[Path]]",
    ) -> None:
        self.path = path.with_name(f"{path.name}.db")
        self.blobs = path.with_name(f"{path.name}.blobs")
        self._durable, self._alone, self._grows = durable, alone, grows
        self._patience = 0.0 if alone else patience
        self._adopt = adopt
        self._untidy = True
        self._held: Any = SimpleNamespace() if alone else threading.local()

    def close(self) -> None:
        """Let others have it."""
        held = self._held
        self._held = SimpleNamespace() if self._alone else threading.local()
        if getattr(held, "process", None) == os.getpid():
            held.connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction for what is read and written; an error in it leaves everything as it was."""
        connection = self._connection()
        with self._explained():
            self._wait(connection, "BEGIN IMMEDIATE")
        try:
            with self._explained():
                if self._untidy:
                    self._tidy()
            yield
            with self._explained():
                connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._untidy = True
            raise
        if self._untidy:
            # In a transaction again: nobody may be about to name a file that is deleted here.
            with self._explained():
                self._wait(connection, "BEGIN IMMEDIATE")
                self._tidy()
                connection.execute("ROLLBACK")

    def put(self, kind: str, key: str, *pieces: Piece, note: bytes = b"") -> Record:
        """Write an entry, in the place of one of the same name; only within `writing`."""
        size, digest = sum(map(len, pieces)), checksum(pieces)
        content = None if size > LARGE else b"".join(pieces)
        before = self.find(kind, key)
        self._untidy |= before is not None and before.apart
        if content is None:
            make_private_folder(self.blobs)
            write_whole(self.blobs / digest.hex(), *pieces, durable=self._durable, private=True)
        mark = _mark(kind, key, note, size, digest)
        values = (note, size, digest, mark, content)
        with self._explained():
            if before is None:
                new = "INSERT INTO entries (note, size, digest, mark, content, kind, key) VALUES (?, ?, ?, ?, ?, ?, ?)"
                number = self._connection().execute(new, (*values, kind, key)).lastrowid or 0
            else:
                # An upsert would use up a number each time; missing numbers are to show damage.
                changed = "UPDATE entries SET note = ?, size = ?, digest = ?, mark = ?, content = ? WHERE id = ?"
                self._connection().execute(changed, (*values, number := before.id))
        return Record(number, kind, key, note, size, digest, content is None)

    def drop(self, record: Record) -> None:
        """Delete an entry; only within `writing`."""
        self._untidy |= record.apart
        with self._explained():
            self._connection().execute("DELETE FROM entries WHERE id = ?", (record.id,))

    def find(self, kind: str, key: str) -> Record | None:
        """The entry of a name; None if there is none."""
        found = self._records("WHERE kind = ? AND key = ?", kind, key)
        return found[0] if found else None

    def records(self, kind: str) -> list[Record]:
        """All entries of a kind, in the order of their first writing."""
        return self._records("WHERE kind = ? ORDER BY id", kind)

    def content(self, record: Record) -> bytes:
        """The content of an entry, which fits its checksum."""
        content = self.part(record, 0, record.size)
        if checksum([content]) != record.digest:
            raise self._damaged(f"the content of {record.kind} {record.key!r} does not fit its checksum")
        return content

    def part(self, record: Record, at: int, count: int) -> bytes:
        """Some bytes of an entry's content, without reading the rest of a file."""
        if record.apart:
            try:
                with (self.blobs / record.digest.hex()).open("rb") as stream:
                    stream.seek(at)
                    return stream.read(count)
            except FileNotFoundError as problem:
                raise self._damaged(f"the file {problem.filename} is gone") from problem
        with self._explained():
            row = self._connection().execute("SELECT content FROM entries WHERE id = ?", (record.id,)).fetchone()
        content: bytes = b"" if row is None else row[0]
        return content[at : at + count]

    def _records(self, where: str, *given: str) -> list[Record]:
        with self._explained():
            rows = self._connection().execute(_SELECT + where, given).fetchall()
        for _, kind, key, note, size, digest, _, mark in rows:
            if _mark(kind, key, note, size, digest) != mark:
                raise self._damaged(f"the entry {kind} {key!r} does not fit its checksum")
        return [Record._make(row[:-1]) for row in rows]

    def _tidy(self) -> None:
        """Delete the files that no entry names; only within a transaction."""
        if self.blobs.is_dir():
            rows = self._connection().execute("SELECT digest FROM entries WHERE content IS NULL").fetchall()
            named = {digest.hex() for (digest,) in rows}
            for path in self.blobs.iterdir():
                if path.name not in named:
                    path.unlink()
        self._untidy = False

    def _connection(self) -> sqlite3.Connection:
        held = self._held
        process = getattr(held, "process", None)
        if process != os.getpid():
            if process is not None:
                _inherited.append(held.connection)
            with self._explained():
                held.connection = self._open()
            held.process = os.getpid()
            self._begin(held.connection)
        connection: sqlite3.Connection = held.connection
        return connection

    def _open(self) -> sqlite3.Connection:
        make_private_folder(self.path.parent)
        # At most a second at a time, so that whoever waits can be stopped by Ctrl-C.
        timeout = min(self._patience, 1.0)
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        # By name: opening the file and closing it again would take away SQLite's locks. Its other files follow it.
        if self.path.stat().st_mode & 0o777 != 0o600:
            self.path.chmod(0o600)
        if self._alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._wait(connection, "PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
        return connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Refuse what is not a store of this version; fill one that is new."""
        try:
            with self._explained():
                ((version,),) = connection.execute("PRAGMA user_version")
                if version == 0:
                    self._fill(connection)
                elif version != _FORMAT:
                    raise StoreError(
                        f"{self.path} has format {version}, and this Laconic reads up to {_FORMAT}: a newer version "
                        "wrote it; install that one"
                    )
                if self._grows:
                    self._check(connection)
        except BaseException:
            self.close()
            raise

    def _fill(self, connection: sqlite3.Connection) -> None:
        self._wait(connection, "BEGIN IMMEDIATE")
        ((tables, ours),) = connection.execute("SELECT count(*), total(name = 'entries') FROM sqlite_master")
        if ours:  # Another process was faster.
            connection.execute("ROLLBACK")
            return
        if tables:
            raise StoreError(f"{self.path} is a database, but not one of Laconic's; move it away")
        connection.execute(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        adopted = self._adopt(self)
        connection.execute("COMMIT")
        for path in adopted:
            path.unlink(missing_ok=True)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a database that is damaged, or whose log is: of what comes after a damage SQLite would say nothing."""
        self._check_log(connection)
        ((found,),) = connection.execute("PRAGMA quick_check(1)")
        ((count, last),) = connection.execute(
            "SELECT count(*), (SELECT coalesce(max(seq), 0) FROM sqlite_sequence) FROM entries"
        )
        if found != "ok" or count != last:
            raise self._damaged(found if found != "ok" else f"{last - count:,} entries of {last:,} are gone")

    def _check_log(self, connection: sqlite3.Connection) -> None:
        log = self.path.with_name(f"{self.path.name}-wal")
        head, commits = _read_log(log)
        if commits and not _is_sound(head):
            raise self._damaged("the head of its log does not fit its checksum")
        ((_, sound, _),) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        # A crash tears the last transaction at most. Another process may have begun the log anew meanwhile; if one is
        # just putting it into the database (-1), it has it open, and so has checked it.
        if sound >= 0 and sum(place > sound for place in commits) > 1 and _read_log(log)[0] == head:
            raise self._damaged(f"its log is damaged at entry {sound + 1:,}, with sound ones after it")

    def _wait(self, connection: sqlite3.Connection, statement: str) -> None:
        ends = monotonic() + self._patience
        while True:
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as problem:
                if problem.sqlite_errorcode & 0xFF not in _BUSY or monotonic() >= ends:
                    raise
                sleep(0.002)
            else:
                return

    def _damaged(self, what: str) -> TornFile:
        return TornFile(
            f"{self.path} is damaged: {what}; put back a copy of it, of {self.path.name}-wal and of {self.blobs.name} "
            "from before, or start the run afresh in an empty folder"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as problem:
            code: int | None = getattr(problem, "sqlite_errorcode", None)
            if code is None:  # A mistake in this file, and none of the disk's.
                raise
            raise self._in_words(problem, code & 0xFF) from problem

    def _in_words(self, problem: sqlite3.DatabaseError, code: int) -> StoreError:
        where = self.path
        if code in _BUSY and self._alone:
            return JournalError(f"{where} is in use: another process has this run open; stop that one first")
        if code in _BUSY:
            held = f"another process has held it for {self._patience:g} s"
            return StoreError(f"{where} is in use: {held}; wait for that one, or stop it")
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            full = "the disk is full or failed; free some space, then give the same command again"
            return StoreError(f"cannot write {where}: {problem}: {full}")
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StoreError(f"cannot open {where}: {problem}; make it and its folder writable for this user")
        return self._damaged(str(problem))


def copy_kept(folder: Path, to: Path, pattern: str = "*") -> None:
    """Copy what is in a folder, with databases as they are at this moment, also while others write to them."""
    make_private_folder(to)
    for path in folder.glob(pattern):
        if path.is_dir():
            copy_kept(path, to / path.name)
        elif path.suffix == ".db":
            append_private(to / path.name).close()
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to / path.name)) as target:
                source.backup(target)
        elif path.suffix not in (".db-wal", ".db-shm"):
            shutil.copy(path, to / path.name)


def _mark(kind: str, key: str, note: bytes, size: int, digest: bytes) -> bytes:
    return checksum((f"{kind}\0{key}\0{size}\0".encode(), digest, note))


def _read_log(path: Path) -> tuple[bytes, list[int]]:
    """The head of SQLite's log, and the places of frames in it that end a transaction, by what they say themselves."""
    if not path.exists() or path.stat().st_size < _LOG.size:
        return b"", []
    with path.open("rb") as stream:
        head = stream.read(_LOG.size)
        size, salts = _LOG.unpack(head)[2], _LOG.unpack(head)[4:6]
        commits, place = [], 0
        while len(frame := stream.read(_FRAME.size)) == _FRAME.size:
            place += 1
            _, pages, *rest = _FRAME.unpack(frame)
            if pages and (tuple(rest[:2]) == salts or not _is_sound(head)):
                commits.append(place)
            stream.seek(size, os.SEEK_CUR)
    return head, commits


def _is_sound(head: bytes) -> bool:
    """Whether the head of a log fits its checksum, which SQLite's file format lays down."""
    order = ">" if head[3] & 1 else "<"
    words = struct.unpack(f"{order}6I", head[:24])
    first = second = 0
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return (first, second) == _LOG.unpack(head)[6:]


_HEAD = struct.Struct("<4sIQ16s")
"""What began a record: a mark, the length of its note, the length of the body after that, and their checksum."""
_MARK = b"lcr1"


def slots_of(path: Path) -> list[Path]:
    """The two files that a value was written to in turn; none if there are none."""
    return [one for turn in "01" if (one := path.with_name(f"{path.name}.{turn}")).exists()]


def read_slots(path: Path) -> bytes:
    """The newer value of the two files, of which a crash may have torn one."""
    found = []
    for one in slots_of(path):
        try:
            content = read_sealed(one)
        except TornFile:
            continue
        found.append((int.from_bytes(content[:8], "little"), content[8:]))
    if not found:
        raise TornFile(f"{path}.0 and its twin are torn; put back a copy of them, or start the run afresh")
    return max(found)[1]


def read_records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """The notes and bodies in a file of records, up to where a crash tore it.

    Raises:
        TornFile: there are sound records after a damage, which no crash leaves.
    """
    if not path.stat().st_size:
        return
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = 0
        while (found := _record(content, at)) is not None:
            note, body, at = found
            yield note, body
        later = content.find(_MARK, at + 1)
        while later >= 0:
            if _record(content, later) is not None:
                raise TornFile(
                    f"{path} is damaged at byte {at:,}, with sound records after it, which no crash leaves; put back a "
                    "copy of its folder from before, or start the run afresh in an empty one"
                )
            later = content.find(_MARK, later + 1)


def _record(content: mmap.mmap, at: int) -> tuple[bytes, bytes, int] | None:
    """The note and body of the record that begins here, and where it ends; None if there is no sound one."""
    head = content[at : at + _HEAD.size]
    if len(head) < _HEAD.size:
        return None
    mark, note_length, length, expected = _HEAD.unpack(head)
    start = at + _HEAD.size + note_length
    if mark != _MARK or start + length > len(content):
        return None
    note, body = content[at + _HEAD.size : start], content[start : start + length]
    return (note, body, start + length) if checksum((note, body)) == expected else None
