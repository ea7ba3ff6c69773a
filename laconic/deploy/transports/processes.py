"""Every party in an operating-system process of its own, forgotten and reloaded between questions.

The process answers each question in a fresh child that knows nothing but the party's folder. Requests and replies are
length-prefixed blobs on standard input and output. The process itself never touches a party: whatever a step leaves in
globals, class attributes or caches dies with the child that answered. What a party gave away is known to whoever
started it as soon as its answer is, and all that it remembers when the block ends.
"""

import fcntl
import os
import select
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
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Ledger
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.core.wire import decode, encode
from laconic.deploy.party_memory import PartyFolder, respond
from laconic.deploy.store import OWN
from laconic.deploy.transports.rpc_messages import find_script, name_script
from laconic.errors import LaconicError, PlanError, StepError
from laconic.learn.device import device_asked, on_device
from laconic.methods.registry import methods
from laconic.plan.runtime import Forked, Processes
from laconic.privacy.row_releases import RELEASES, spent
from laconic.threads import fork_quietly, limit_threads
from laconic.values import heard, listening

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


_Answer: TypeAlias = dict[str, Any]
"""What a worker sends for one party: its name, its reply or an error, and what it remembers if that was asked."""

_ROOM = 1 << 20
"""Bytes that a worker's answers may take up before they are read."""

_READY = b"ready"
_PATIENCE = (10.0, 20.0, 60.0)
"""Seconds that a worker may take until it is ready, before another is forked in its place."""


@contextmanager
def open_workers(parties: tuple[Party, ...], settings: Forked) -> Iterator["_Workers"]:
    """Reach these parties for as long as the block lasts.

    Raises:
        PlanError: a GPU is asked for, which a forked process cannot use.
    """
    if device_asked() not in ("auto", "cpu"):
        raise PlanError(
            f'device = "{device_asked()}" cannot be used by forked workers; set device to "cpu", or take another '
            "runtime, such as InProcess"
        )
    workers = _Workers(parties, settings.workers)
    try:
        yield workers
        workers.bring_back()
    finally:
        workers.end()


class _Worker(NamedTuple):
    """A forked process, who is in it, and the streams of its questions and answers."""

    process: int
    names: tuple[str, ...]
    questions: IO[bytes]
    answers: IO[bytes]

    def end(self) -> None:
        """Stop it and leave nothing of it behind."""
        self.hang_up()
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def hang_up(self) -> None:
        """Close this process's ends of its streams."""
        self.questions.close()
        self.answers.close()


class _Workers:
    """Workers, for as long as the script stays the same and none is late."""

    def __init__(self, parties: tuple[Party, ...], workers: int) -> None:
        self._parties = {party.name: party for party in parties}
        names = sorted(self._parties, key=lambda name: -self._parties[name].data.rows)
        # Dealt out by size, so that every worker has large parties and small ones.
        self._shares = [share for i in range(workers) if (share := tuple(names[i::workers]))]
        self._workers: list[_Worker] = []
        self._unread: Iterator[_Answer] = iter(())
        self._script: Script | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        if script != self._script:
            self.bring_back()
            self.end()
            self._script = script
        if deadline is not None:
            self.bring_back()  # And with each answer too, as a worker with a late party is ended.
        at_work = {worker.names for worker in self._workers}
        for names in self._shares:
            if names not in at_work:
                self._workers.append(self._start(script, names))
        ends = None if deadline is None else monotonic() + deadline
        waiting, found, hears = list(blobs), dict[str, _Answer](), heard()
        for answered in self._ask(blobs, ends, remember=deadline is not None):
            found[answered["name"]] = answered
            if hears is not None and len(blobs) > len(self._workers):
                hears("parties", len(blobs) - len(waiting) + len(found), len(blobs))
            # In the order of the questions, whoever is quickest, so that numbers are those of one process.
            while waiting and waiting[0] in found:
                yield _replied(found.pop(waiting.pop(0)))
        yield from (_replied(found[name]) for name in waiting if name in found)

    def ledgers(self) -> dict[str, Ledger]:
        self.bring_back()
        return {name: party.ledger for name, party in self._parties.items()}

    def bring_back(self) -> None:
        """Have parties here remember what they do in their workers."""
        for _ in self._ask({name: None for worker in self._workers for name in worker.names}, None, remember=True):
            pass

    def end(self) -> None:
        """End every worker."""
        self._unread = iter(())
        while self._workers:
            self._workers.pop().end()

    def _ask(self, blobs: Mapping[str, bytes | None], ends: float | None, *, remember: bool) -> Iterator[_Answer]:
        """What parties answer to these questions, as it comes; who is late is left out."""
        for _ in self._unread:  # Answers to the question before that nobody waited for.
            pass
        asked = []
        for worker in self._workers:
            # A question that several parties are asked crosses once.
            questions: dict[bytes | None, list[str]] = {}
            for name in worker.names:
                if name in blobs:
                    questions.setdefault(blobs[name], []).append(name)
            if questions:
                asked.append(worker)
                with suppress(BrokenPipeError):  # It died, as reading its answers will tell.
                    write_frame(worker.questions, encode({"questions": [*questions.items()], "remember": remember}))
        self._unread = self._collect(asked, set(blobs), ends)
        return self._unread

    def _collect(self, workers: list[_Worker], wanted: set[str], ends: float | None) -> Iterator[_Answer]:
        """What parties answer, until all have or the time is up; workers of those who are late are ended."""
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.answers, selectors.EVENT_READ, worker.answers)
            while wanted:
                ready = selector.select(None if ends is None else max(0.0, ends - monotonic()))
                if not ready:
                    for worker in [one for one in workers if wanted.intersection(one.names)]:
                        self._workers.remove(worker)
                        worker.end()
                    return
                for key, _ in ready:
                    written = read_frame(key.data)
                    if written is None:
                        raise StepError(
                            "a worker ended before it had answered; it may have run out of memory: use fewer workers"
                        )
                    answered = decode(written, OWN)
                    if answered.get("brought") is not None:
                        take_note(self._parties[answered["name"]], answered["brought"])
                    if "memory" in answered:
                        _take(self._parties[answered["name"]], answered)
                    wanted.remove(answered["name"])
                    yield answered

    def _start(self, script: Script, names: tuple[str, ...]) -> _Worker:
        for seconds in _PATIENCE:
            worker = self._fork(script, names)
            if select.select([worker.answers], [], [], seconds)[0] and read_frame(worker.answers) == _READY:
                return worker
            worker.end()
        raise StepError(
            "forked workers do not begin on this machine, which another library's threads can cause; take "
            "runtime = InProcess(workers=1) (--set runtime.type=InProcess --set runtime.workers=1)"
        )

    def _fork(self, script: Script, names: tuple[str, ...]) -> _Worker:
        (asking, asked), (answering, answered) = os.pipe(), _roomy_pipe()
        child = fork_quietly()
        if child:
            os.close(asking)
            os.close(answered)
            return _Worker(child, names, os.fdopen(asked, "wb", buffering=0), os.fdopen(answering, "rb", buffering=0))
        try:
            os.close(asked)
            os.close(answering)
            for other in self._workers:
                other.hang_up()
            with (
                os.fdopen(asking, "rb", buffering=0) as questions,
                os.fdopen(answered, "wb", buffering=0) as answers,
                on_device("cpu"),  # A GPU that this process may have used is lost to its forks.
                listening(lambda *_: None),  # Whoever shows progress does so in the other process.
            ):
                _multiply()
                write_frame(answers, _READY)
                _serve_share(script, {name: self._parties[name] for name in names}, questions, answers)
        finally:
            os._exit(0)  # Whatever happens here, the caller's own lines must not run twice.


def _multiply() -> None:
    """A product by every library that has locks of its own: a fork that has inherited a held one stays in here."""
    import numpy as np
    import torch

    with limit_threads():
        square = np.ones((64, 64), np.float32)
        _ = square @ square, square.astype(np.float64) @ square.astype(np.float64)
        _ = torch.ones(64, 64, device="cpu") @ torch.ones(64, 64, device="cpu")


def _roomy_pipe() -> tuple[int, int]:
    """A pipe that takes a few answers, so that a worker goes on to its next party before they are read."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # As much is not everybody's to have; a small pipe does too.
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _ROOM)
    return reading, writing


def _replied(answered: _Answer) -> tuple[str, bytes]:
    if "error" in answered:
        raise StepError(f"a step failed at {answered['name']}: {answered['error']}")
    return answered["name"], answered["reply"]


def _take(party: Party, answered: _Answer) -> None:
    """Let a party here be what it is in its worker."""
    party.memory = answered["memory"]
    party.ledger = Ledger(tuple(msgspec.convert(answered["ledger"], list[Entry])))
    if answered["data"] is not None:
        party.data = type(party.data).from_plain(answered["data"])


def _serve_share(script: Script, parties: dict[str, Party], questions: IO[bytes], answers: IO[bytes]) -> None:
    """What a worker does: answer each question as soon as it can, until there are no more."""
    tables = {name: party.data for name, party in parties.items()}
    for party in parties.values():
        party.secret = os.urandom(32)  # Of two workers forked one after the other, neither draws what the other drew.
    while (asked := read_frame(questions)) is not None:
        request = decode(asked, OWN)
        for name, blob in [(name, blob) for blob, names in request["questions"] for name in names]:
            party = parties[name]
            found = {"name": name} | ({} if blob is None else _answer(script, party, blob))
            if request["remember"]:
                rows = None if party.data is tables[name] else party.data.to_plain()
                entries = list(msgspec.to_builtins(party.ledger.entries))
                found |= {"memory": party.memory, "ledger": entries, "data": rows}
            write_frame(answers, encode(found))


def _answer(script: Script, party: Party, blob: bytes) -> _Answer:
    noting = Noting()
    try:
        return {"reply": respond(script, party, blob, noting), "brought": noting.brought}
    # Whatever a step raises must reach the hub as words; a worker has nobody else to tell.
    except Exception as problem:
        own = "" if isinstance(problem, LaconicError) else f"{type(problem).__name__}: "
        return {"error": f"{own}{problem}"}
