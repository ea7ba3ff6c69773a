"""Every party in an operating-system process of its own, forgotten and reloaded between questions.

The process answers each question in a fresh child that knows nothing but the party's folder. Requests and replies are
length-prefixed blobs on standard input and output. The process itself never touches a party: whatever a step leaves in
globals, class attributes or caches dies with the child that answered. What a party gave away is known to whoever
started it as soon as its answer is, and all that it remembers when the block ends.
"""

import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.core.wire import decode, encode
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.store import OWN
from laconic.deploy.transports.rpc_messages import find_script, name_script
from laconic.errors import LaconicError, StepError
from laconic.learn.device import device_asked, on_device
from laconic.methods.registry import methods
from laconic.plan.runtime import Processes
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


_idle: list["subprocess.Popen[bytes]"] = []
"""Started processes that serve no party now; starting one costs an import of torch."""


@contextmanager
def open_processes(parties: tuple[Party, ...], settings: Processes) -> Iterator["_Pipes"]:
    """Start or reuse a process for each party; stop using them when the block ends."""
    with _kept_in(settings.folder) as folder:
        pipes = _Pipes(parties, folder, settings)
        try:
            pipes.start_missing()
            yield pipes
        except BaseException:
            pipes.stop()  # Some may still be at work on a question.
            pipes.bring_back()
            raise
        pipes.bring_back()
        pipes.release()


class _Pipes:
    def __init__(self, parties: tuple[Party, ...], folder: Path, settings: Processes) -> None:
        self._settings = settings
        self._parties = {party.name: party for party in parties}
        durable = settings.folder is not None
        self._folders = {
            party.name: PartyFolder(folder / str(number), durable=durable) for number, party in enumerate(parties)
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for party in parties:
            self._folders[party.name].begin(party)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        named = name_script(script)
        if named["module"] == "__main__":
            raise StepError(f"{named['class']} is defined in the main script, where other processes cannot find it; "
                            "put it in a module of its own")  # fmt: skip
        self.start_missing()
        for name, blob in blobs.items():
            try:
                write_frame(_pipe(self._processes[name].stdin), encode(self._request(name, named, blob)))
            except BrokenPipeError as problem:
                raise StepError(f"the process of {name} ended; start the run again") from problem
        replies = self._wait(set(blobs), self._settings.deadline if deadline is None else deadline)
        for name, reply in replies.items():
            if reply.get("brought") is not None:
                take_note(self._parties[name], reply["brought"])
        # Answers come in the wrong order on purpose: no method may lean on the order of arrival.
        for name in reversed([name for name in blobs if name in replies]):
            yield name, _unwrap(name, replies[name])

    def ledgers(self) -> dict[str, Ledger]:
        return {name: folder.load().ledger for name, folder in self._folders.items()}

    def bring_back(self) -> None:
        """Have parties here remember what they do in their folders."""
        for name, party in self._parties.items():
            self._folders[name].bring_back(party)

    def start_missing(self) -> None:
        """Give every party a process that is ready, so that starting one is not charged to a deadline."""
        missing = [name for name in self._folders if name not in self._processes]
        new = missing[len(_idle) :]
        # Noted one by one: a stop while they start must find all that were started.
        for name in missing:
            self._processes[name] = _start() if name in new else _idle.pop()
        for name in new:
            read_frame(_pipe(self._processes[name].stdout))

    def release(self) -> None:
        """Let later runs use the processes."""
        _idle.extend(process for process in self._processes.values() if process.poll() is None)

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            _kill(process)

    def _request(self, name: str, named: dict[str, str], blob: bytes) -> dict[str, Any]:
        return {
            "folder": str(self._folders[name].folder),
            "durable": self._settings.folder is not None,
            "script": named,
            "blob": blob,
            "path": list(sys.path),
            "threads": self._settings.threads,
            "device": device_asked(),
        }

    def _wait(self, waiting: set[str], deadline: float | None) -> dict[str, dict[str, Any]]:
        ends = None if deadline is None else monotonic() + deadline
        replies: dict[str, dict[str, Any]] = {}
        with selectors.DefaultSelector() as selector:
            for name in waiting:
                selector.register(_pipe(self._processes[name].stdout), selectors.EVENT_READ, name)
            while len(replies) < len(waiting):
                left = None if ends is None else max(0.0, ends - monotonic())
                ready = selector.select(left)
                if not ready:
                    break
                for key, _ in ready:
                    blob = read_frame(_pipe(self._processes[key.data].stdout))
                    selector.unregister(key.fileobj)
                    replies[key.data] = {"error": "its process ended"} if blob is None else decode(blob, OWN)
        for name in waiting - set(replies):
            _kill(self._processes.pop(name))
        return replies


@contextmanager
def _kept_in(folder: str | None) -> Iterator[Path]:
    """Where the parties' memories are: where they stay, or where they go with the run."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="laconic-") as passing:
        yield Path(passing)


def _start() -> "subprocess.Popen[bytes]":
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "laconic.deploy.transports.processes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        bufsize=0,
        process_group=0,
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a party's process together with the child that answers for it, which would write to memory later."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the party's process was started without pipes")
    return stream


def _unwrap(name: str, reply: dict[str, Any]) -> bytes:
    if "answer" in reply:
        blob: bytes = reply["answer"]
        return blob
    if reply.get("kind") == "own":
        raise StepError(f"at {name}: {reply['error']}")
    raise StepError(f"a step failed at {name}: {reply['error']}\n{reply.get('trace', '')}")


if __name__ == "__main__":
    main()
