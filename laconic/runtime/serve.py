"""A party's own process: it answers each question in a fresh child that knows nothing but the party's folder.

Requests and replies are length-prefixed blobs on standard input and output. The process itself never touches a party:
whatever a step leaves in globals, class attributes or caches dies with the child that answered.
"""

import importlib
import os
import struct
import sys
import traceback
from pathlib import Path
from typing import IO, Any

import msgspec

from laconic.core.errors import LaconicError
from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.script import Script, answer
from laconic.core.table import Table
from laconic.core.wire import Limits, decode, encode

_OWN = Limits(bytes=2**40, items=10_000_000, depth=64)
"""Limits for what this machine itself wrote."""


def write_frame(stream: IO[bytes], blob: bytes) -> None:
    """Write one blob with its length before it."""
    left = memoryview(struct.pack("<Q", len(blob)) + blob)
    while left:
        left = left[stream.write(left) :]
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read one blob, or None at the end of the stream."""
    head = _read_exactly(stream, 8)
    return None if head is None else _read_exactly(stream, struct.unpack("<Q", head)[0])


def save_party(folder: Path, party: Party, *, with_data: bool) -> None:
    """Write a party's memory and ledger, and its rows if they changed, each whole or not at all."""
    entries = msgspec.to_builtins(party.ledger.entries)
    state = {"name": party.name, "seed": party.seed, "memory": party.memory, "ledger": list(entries)}
    _write_whole(folder / "memory", encode(state))
    if with_data:
        _write_whole(folder / "table", encode(party.data.to_plain()))


def load_party(folder: Path) -> Party:
    """Read a party back as `save_party` wrote it."""
    state = decode((folder / "memory").read_bytes(), _OWN)
    table = Table.from_plain(decode((folder / "table").read_bytes(), _OWN))
    ledger = Ledger(tuple(msgspec.convert(state["ledger"], list[Entry])))
    return Party(state["name"], table, state["seed"], state["memory"], ledger)


def name_script(script: Script) -> dict[str, str]:
    """How another process finds a script: where its class is, and its settings as text."""
    kind = type(script)
    return {"module": kind.__module__, "class": kind.__qualname__, "settings": msgspec.json.encode(script).decode()}


def find_script(named: dict[str, str]) -> Script:
    """Build a script from its name; its class must be importable by this process."""
    found: Any = importlib.import_module(named["module"])
    for part in named["class"].split("."):
        found = getattr(found, part)
    if not issubclass(found, Script):
        raise TypeError(f"{named['class']} is not a script")
    script: Script = msgspec.json.decode(named["settings"], type=found)
    return script


def main() -> None:
    """Serve until standard input ends."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # A print in a step must not end up among the replies.
    importlib.import_module("laconic.methods")
    write_frame(replies, encode("ready"))
    while (blob := read_frame(requests)) is not None:
        child = os.fork()
        if child == 0:
            write_frame(replies, encode(_reply(decode(blob, _OWN))))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            write_frame(replies, encode({"error": f"the process answering died (status {status})"}))


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    sys.path[:] = request["path"]
    try:
        return {"answer": _answer(request, folder)}
    # Whatever a step raises must reach the hub as words; this process has nobody else to tell.
    except Exception as problem:
        kind = "own" if isinstance(problem, LaconicError) else "other"
        return {"error": str(problem), "kind": kind, "trace": traceback.format_exc()}


def _answer(request: dict[str, Any], folder: Path) -> bytes:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(request["threads"])
    with threadpool_limits(request["threads"]):
        party = load_party(folder)
        table = party.data
        reply = answer(find_script(request["script"]), party, request["blob"])
        save_party(folder, party, with_data=party.data is not table)
    return reply


def _read_exactly(stream: IO[bytes], count: int) -> bytes | None:
    """So many bytes, however a pipe hands them over; None if it ends before."""
    parts = bytearray()
    while len(parts) < count:
        part = stream.read(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write_whole(path: Path, blob: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(blob)
    part.replace(path)


if __name__ == "__main__":
    main()
