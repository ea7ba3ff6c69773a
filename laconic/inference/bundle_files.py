"""The files of a party's part of a model: a folder of JSON and safetensors with digests, and what changes in use.

`model.json` names the format, and the digest of every other file. A folder is written whole or not at all. Nothing in
it is code, and nothing in it is looked up by a name that it chooses.

How often a part was used, what it remembers, and its ledger are in a database in its folder. Each answer is one
transaction: what another process wrote is read first, and what the answer changed is on the disk before it leaves. So
any number of processes can use a part and lose nothing.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import file_digest
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from laconic import __version__
from laconic.atomic_files import keep_from_others, make_private_folder
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.wire import decode, encode
from laconic.deploy.store import OWN, Store
from laconic.errors import DataError
from laconic.values import Array

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


def part_arrays(value: Any) -> tuple[Any, dict[str, Array]]:
    """A tree for JSON in which every array is a number, and the arrays by that number.

    Takes what the wire can carry: arrays, numbers, text, bytes, lists and dicts.
    """
    arrays: dict[str, Array] = {}
    return _write(value, arrays), arrays


def join_arrays(tree: Any, arrays: dict[str, Array]) -> Any:
    """What `part_arrays` took apart, equal to the bit."""
    match tree:
        case {"array": str(name)} if name in arrays:
            return arrays[name]
        case {"value": bool() | int() | float() | str() | None as value}:
            return value
        case {"number": str(text)}:
            return float(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"values": list(items)}:
            return items
        case {"list": list(items)}:
            return [join_arrays(item, arrays) for item in items]
        case {"pairs": list(pairs)}:
            return {join_arrays(key, arrays): join_arrays(item, arrays) for key, item in pairs}
    raise DataError(f"found {str(tree)[:60]!r} where a saved value was expected; the file was changed by hand")


def _write(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        # A copy in C order: safetensors writes a view's memory, whatever the view shows.
        arrays[name] = value.copy(order="C")
        return {"array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str | int) for item in value):
            return {"values": list(value)}
        return {"list": [_write(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"pairs": [[_write(key, arrays), _write(item, arrays)] for key, item in value.items()]}
    raise TypeError(f"cannot be saved: a {type(value).__name__}; remember arrays, numbers, text, lists or dicts")


FORMAT = 1
"""Counts up when the files change their meaning."""

HEAD = "model.json"
_PART, _OLD = ".part", ".old"
_KIND = "part of a Laconic model"


def folder_name(party: str) -> str:
    """A party's name as a name for a folder or file, whatever characters it has."""
    return quote(party, safe=" ").replace(".", "%2E") or "%"


def write_folder(
    path: Path,
    values: Mapping[str, Any],
    texts: Mapping[str, str],
    record: Callable[[dict[str, str]], dict[str, str]] | None = None,
) -> None:
    """Write the folder, in place of one that is there already if that is a model too.

    Args:
        values: plain values with arrays, by name: each becomes NAME.json and, if it has arrays, NAME.safetensors.
        texts: whole files by their name.
        record: more of these, made from the digests of all others; None for none.
    """
    from safetensors.numpy import save_file

    if path.exists() and not (path / HEAD).is_file() and any(path.iterdir()):
        raise DataError(f"{path} is there already and holds no model; name another folder or empty it")
    bring_back(path)
    part, old = path.with_name(path.name + _PART), path.with_name(path.name + _OLD)
    for leftover in (part, old):
        shutil.rmtree(leftover, ignore_errors=True)
    make_private_folder(part)
    try:
        for name, value in values.items():
            tree, arrays = part_arrays(value)
            (part / f"{name}.json").write_text(json.dumps(tree, allow_nan=False), encoding="utf-8")
            if arrays:
                save_file(arrays, part / f"{name}.safetensors")
        for name, text in texts.items():
            (part / name).write_text(text, encoding="utf-8")
        for name, text in ({} if record is None else record(_digests(part))).items():
            (part / name).write_text(text, encoding="utf-8")
        versions = {"laconic": __version__} | {name: version(name) for name in ("numpy", "torch", "safetensors")}
        head = {"kind": _KIND, "format": FORMAT, "versions": versions, "digests": _digests(part)}
        (part / HEAD).write_text(json.dumps(head, indent=2), encoding="utf-8")
        # After the digests: the state is not among them, as it changes with every use.
        with carried_over(path, part):
            keep_from_others(part)
            if path.exists():
                path.rename(old)
            part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        bring_back(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def no_model(path: Path) -> DataError:
    """The error for a folder without a model."""
    return DataError(f"{path} holds no model; save one with: laconic run ... --model {path}")


def bring_back(path: Path) -> None:
    """Put the folder back that was moved aside by a writing that was broken off before the new one took its place."""
    old = path.with_name(path.name + _OLD)
    if not path.exists() and (old / HEAD).is_file():
        old.rename(path)


def model_folders(path: Path) -> list[Path]:
    """The parts of a model within a folder."""
    if not path.is_dir():
        return []
    for aside in path.glob(f"*{_OLD}"):
        bring_back(aside.with_name(aside.name.removesuffix(_OLD)))
    return [one for one in sorted(path.iterdir()) if (one / HEAD).is_file() and one.suffix not in (_OLD, _PART)]


def refuse_full(path: Path, *, replace_old: bool) -> None:
    """Refuse to save a model where there is one that may not be replaced, or where there is something else."""
    parts = [one.name for one in model_folders(path)]
    if (path / HEAD).is_file():
        raise DataError(f"{path} is one party's part of a model; name the folder around it, or another")
    strangers = [one.name for one in path.iterdir() if one.name not in parts] if path.is_dir() else []
    if strangers and not parts:
        raise DataError(f"{path} holds no model but {strangers[0]}; name another folder or empty it")
    if parts and not replace_old:
        raise DataError(
            f"{path} holds a model of {', '.join(parts)} already; name another folder, or say that it may go: "
            "--replace (replace_old=True in Python)"
        )


def drop_parts(path: Path, keep: Collection[str]) -> None:
    """Remove the parts of an older model within a folder, but for those of these parties, which are written anew."""
    names = {folder_name(party) for party in keep}
    for old in model_folders(path):
        if old.name not in names:
            shutil.rmtree(old)


def read_folder(path: Path) -> dict[str, Any]:
    """Every value that `write_folder` was given, by its name, after checking format and digests."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    digests = read_digests(path)
    found: dict[str, Any] = {}
    for name in (file.removesuffix(".json") for file in digests if file.endswith(".json")):
        try:
            tree = json.loads((path / f"{name}.json").read_text(encoding="utf-8"))
            arrays = load_file(path / f"{name}.safetensors") if f"{name}.safetensors" in digests else {}
        except (ValueError, SafetensorError, RecursionError) as problem:
            raise DataError(f"{path / name} cannot be read: {problem}; take the folder from a backup") from problem
        found[name] = join_arrays(tree, arrays)
    return found


def read_digests(path: Path) -> dict[str, str]:
    """The digest of every file of a saved part, after checking that they are so."""
    head = _head(path)
    digests: dict[str, str] = head["digests"]
    for name, expected in digests.items():
        file = path / name
        if Path(name).name != name or not file.is_file():
            raise DataError(f"{path} lacks its file {name}; take the folder from a backup or save the model again")
        if digest(file) != expected:
            raise DataError(
                f"{file} is not as it was saved (digest {digest(file)[:12]}..., expected {expected[:12]}...); "
                "take it from a backup or save the model again"
            )
    return digests


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    return {file.name: digest(file) for file in sorted(folder.iterdir())}


def _head(path: Path) -> dict[str, Any]:
    bring_back(path)
    file = path / HEAD
    if not file.is_file():
        raise no_model(path)
    try:
        head: dict[str, Any] = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except msgspec.DecodeError as problem:
        raise DataError(f"{file} is not JSON: {problem}; take the folder from a backup") from problem
    if head.get("kind") != _KIND or not isinstance(head.get("format"), int):
        raise DataError(f"{file} is not the head of a {_KIND}; name the folder that `laconic run --model` wrote")
    if head["format"] != FORMAT:
        raise _other_format(path, head)
    if not isinstance(head.get("digests"), dict):
        raise DataError(f"{file} names no digests; take the folder from a backup")
    return head


def _other_format(path: Path, head: dict[str, Any]) -> DataError:
    by = head.get("versions", {}).get("laconic", "another version")
    newer = "use that version or a newer one"
    older = f"load it with Laconic {by}, or train and save it again"
    return DataError(
        f"{path} has format {head['format']}, written by Laconic {by}; this version reads format {FORMAT}: "
        f"{newer if head['format'] > FORMAT else older}"
    )
