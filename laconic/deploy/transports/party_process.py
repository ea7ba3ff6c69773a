"""A party's own process: it answers each question in a fresh child that knows nothing but the party's folder.

Requests and replies are length-prefixed blobs on standard input and output. The process itself never touches a party:
whatever a step leaves in globals, class attributes or caches dies with the child that answered.
"""

import os
import struct
import sys
import traceback
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.core.wire import decode, encode
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.store import OWN
from laconic.deploy.transports.rpc_messages import find_script
from laconic.errors import LaconicError
from laconic.learn.device import on_device
from laconic.methods.registry import methods
from laconic.privacy.row_releases import RELEASES, spent
from laconic.threads import limit_threads

Brought: TypeAlias = dict[str, Any]
"""What a party has released about its rows, and its ledger, as plain values."""


class Noting:
    """Rules that let everything through, and note whether an answer cost anyone anything.

    Attributes:
        brought: what is to be brought back with the answer; None if nothing has changed that counts.
    """

    def __init__(self) -> None:
        self.brought: Brought | None = None
        self._before = (0, 0)

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Note what was spent before."""
        self._before = spent(party)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Note what is spent with the answer."""
        if spent(party) != self._before:
            entries = list(msgspec.to_builtins(party.ledger.entries))
            self.brought = {"releases": party.memory.get(RELEASES), "ledger": entries}


def take_note(party: Party, brought: Brought) -> None:
    """Let a party here know what it gave away elsewhere."""
    if brought["releases"] is not None:
        party.memory[RELEASES] = brought["releases"]
    party.ledger = Ledger(tuple(msgspec.convert(brought["ledger"], list[Entry])))


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


def main() -> None:
    """Serve until standard input ends, or nobody reads the replies any more."""
    try:
        _serve()
    except BrokenPipeError:
        os._exit(1)  # The hub is gone, and with it everybody who could hear of it; closing the pipe would fail again.


def _serve() -> None:
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # A print in a step must not end up among the replies.
    methods()  # Imported once, before the process that answers is forked, and not anew for every question.
    write_frame(replies, encode("ready"))
    while (blob := read_frame(requests)) is not None:
        child = os.fork()
        if child == 0:
            write_frame(replies, encode(_reply(decode(blob, OWN))))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            write_frame(replies, encode({"error": f"the process answering died (status {status})"}))


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    folder = PartyFolder(Path(request["folder"]), durable=request["durable"])
    sys.path[:] = request["path"]
    noting = Noting()
    try:
        with limit_threads(request["threads"]), on_device(request["device"]):
            reply = folder.answer(find_script(request["script"]), request["blob"], noting)
        return {"answer": reply, "brought": noting.brought}
    # Whatever a step raises must reach the hub as words; this process has nobody else to tell.
    except Exception as problem:
        kind = "own" if isinstance(problem, LaconicError) else "other"
        return {"error": str(problem), "kind": kind, "trace": traceback.format_exc()}


def _read_exactly(stream: IO[bytes], count: int) -> bytes | None:
    """So many bytes, however a pipe hands them over; None if it ends before."""
    parts = bytearray()
    while len(parts) < count:
        part = stream.read(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


if __name__ == "__main__":
    main()
