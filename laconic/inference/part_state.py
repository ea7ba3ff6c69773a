"""What changes while a part of a model is in use: how often it was used, what it remembers, and its ledger.

It is in a database in the part's folder. Each answer is one transaction: what another process wrote is read first, and
what the answer changed is on the disk before it leaves. So any number of processes can use a part and lose nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.wire import decode, encode
from laconic.deploy.store import OWN, Store
from laconic.errors import DataError

_NAME = "state"
_USES, _MEMORY, _LEDGER = "uses", "memory", "ledger"
_OLD_USES = "uses.json"
"""Where earlier versions counted uses."""


class PartState:
    """The state of one part, for several processes and threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = Store(folder / _NAME, adopt=self._adopt)
        self._file: int | None = None
        self._seen: tuple[bytes, ...] = ()

    def count_use(self) -> int:
        """Take note of one more use; returns how many there were before."""
        with self.writing():
            uses: int = self.get(_USES) or 0
            self.put(_USES, "", uses + 1)
        return uses

    def begin(self, memory: dict[str, Any], ledger: Ledger) -> None:
        """Write down what the part was saved with, if nothing is written yet."""
        with self.writing():
            if self._store.find(_MEMORY, "") is None:
                self._write(memory, ledger)

    def add_releases(self, memory: dict[str, Any], ledger: Ledger, entries: tuple[Entry, ...]) -> None:
        """Write down what the part's party released beside its answers; `memory` and `ledger` are as it was saved."""
        self.begin(memory, ledger)
        with self.writing():
            now = Ledger(tuple(msgspec.convert(self.get(_LEDGER), list[Entry])))
            for entry in entries:
                now.write(entry)
            self.put(_LEDGER, "", list(msgspec.to_builtins(now.entries)))

    def load(self) -> tuple[dict[str, Any], Ledger] | None:
        """What the part remembers, and its ledger; None if they are as they were saved."""
        with self.writing():
            return None if self._store.find(_MEMORY, "") is None else self._read()

    @contextmanager
    def answering(self, party: Party, *, live: bool = True) -> Iterator[None]:
        """One transaction for the answers that a party gives in this block; an error leaves everything as it was.

        Args:
            live: whether the party itself answers. If a copy of it does, in another process, that cannot learn
                what others changed, and has answered even if there is an error.
        """
        try:
            with self.writing():
                if self._seen != self._digests():
                    if not live and self._seen:
                        raise DataError(f"another process has used {self._folder} meanwhile; give the command again")
                    party.memory, party.ledger = self._read()
                yield
                self._write(party.memory, party.ledger)
        except BaseException:
            # The party may have changed half way: next time it is read again from the disk.
            self._seen = () if live else self._seen
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; refused if the part was replaced by another one since it was opened."""
        with self._store.writing():
            now = self._store.path.stat().st_ino if self._store.path.exists() else 0
            self._file = now if self._file is None else self._file
            if now != self._file:
                raise DataError(f"the model in {self._folder} was replaced or moved; start again what uses it")
            yield

    def get(self, kind: str, key: str = "") -> Any:
        """A plain value that was put here; None if there is none."""
        found = self._store.find(kind, key)
        return None if found is None else decode(self._store.content(found), OWN)

    def put(self, kind: str, key: str, value: object) -> None:
        """Keep a plain value; only within `writing` or `answering`."""
        self._store.put(kind, key, encode(value))

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _digests(self) -> tuple[bytes, ...]:
        found = [self._store.find(kind, "") for kind in (_MEMORY, _LEDGER)]
        return tuple(b"" if one is None else one.digest for one in found)

    def _read(self) -> tuple[dict[str, Any], Ledger]:
        self._seen = self._digests()
        return self.get(_MEMORY), Ledger(tuple(msgspec.convert(self.get(_LEDGER), list[Entry])))

    def _write(self, memory: dict[str, Any], ledger: Ledger) -> None:
        self.put(_MEMORY, "", memory)
        self.put(_LEDGER, "", list(msgspec.to_builtins(ledger.entries)))
        self._seen = self._digests()

    def _adopt(self, store: Store) -> list[Path]:
        file = self._folder / _OLD_USES
        if not file.is_file():
            return []
        store.put(_USES, "", encode(_read_old_uses(file)))
        return [file]


def has_state(folder: Path) -> bool:
    """Whether a part was ever used."""
    return (folder / f"{_NAME}.db").is_file()


def read_uses(folder: Path) -> int:
    """How often a part was used to predict."""
    if has_state(folder):
        return PartState(folder).get(_USES) or 0
    file = folder / _OLD_USES
    return _read_old_uses(file) if file.is_file() else 0


@contextmanager
def carried_over(folder: Path, new: Path) -> Iterator[None]:
    """Let the part that takes this one's place in the block go on counting uses; none can begin meanwhile.

    What was remembered and released since saving goes with the old part: the new one brings its own.
    """
    if not has_state(folder) and not (folder / _OLD_USES).is_file():
        yield
        return
    before = PartState(folder)
    with before.writing():
        after = PartState(new)
        with after.writing():
            after.put(_USES, "", before.get(_USES) or 0)
        after.close()
        yield
    before.close()


class _Uses(msgspec.Struct):
    uses: int


def _read_old_uses(file: Path) -> int:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Uses).uses
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DataError(
            f"{file} cannot be read: {problem}. It counts how often this part was used, so that no randomness is "
            'drawn twice: take it from a backup, or write {"uses": N} there, with N above the number of uses so far'
        ) from problem
