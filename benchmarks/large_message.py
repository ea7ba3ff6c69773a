"""One long answer and one long question over a line, in parts: how much memory each side needs beside what it had.

    python -m benchmarks.large_message [--megabytes 500]

The party is a process of its own behind a socket, with the responder that every engine ends in; the hub keeps its
journal on disk. Memory is the peak of each process, less what it held before the message; a party holds the array it
sends, a hub the array it receives.
"""

import argparse
import os
import resource
import socket
import tempfile
import time
from pathlib import Path
from typing import cast

import numpy as np

from laconic.core import Party, Peers, Script, WireLog, step
from laconic.deploy import Consortium, HubAddress, Journal, PartyFolder, PartySite, Policy, write_consortium
from laconic.deploy.party_account import PartyAccount
from laconic.deploy.policy import Gatekeeper
from laconic.deploy.responder import OnlineResponder, Responder
from laconic.deploy.session import Session
from laconic.deploy.transports.envelopes.keys import open_ring
from laconic.deploy.transports.flare.operating import share_keys
from laconic.deploy.transports.processes import read_frame, write_frame
from laconic.deploy.transports.rpc_client import Line, RpcClient
from laconic.deploy.transports.secure_channel import SecureLine
from laconic.tables import Column, Table
from laconic.values import Array


class Bulk(Script, frozen=True):
    """Much data, either way."""

    @step(takes=None, gives="many numbers")
    def send(self, party: Party, megabytes: int) -> Array:
        """So many numbers."""
        return np.ones(megabytes * 250_000, dtype=np.float32)

    @step(takes="many numbers", gives="their sum")
    def take(self, party: Party, numbers: Array) -> float:
        """Their sum."""
        return float(numbers.sum(dtype=np.float64))


class OneScript:
    """A session that knows one script, for trials without a plan."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def settle_matched(self, shared: int | None, table: Table) -> "OneScript":
        """The same, whatever the rows."""
        return self

    def script(self, kind: str) -> Script:
        """The script."""
        return self._script


def make_responder(folder: Path, script: Script) -> OnlineResponder:
    """A responder with one run open, `run`, for one script."""
    table = Table(np.arange(4.0)[:, None], (Column(name="a", kind="numeric"),), party="shop")
    kept = PartyFolder(folder / "memory")
    kept.begin(Party("shop", table, 0))
    allowed = Policy(methods=(type(script).__name__,))
    gate = Gatekeeper(allowed, PartyAccount(folder), "run", "bank", ("shop",))
    consortium = Consortium(project="bulk", hub=HubAddress(name="bank", address="localhost"), parties=("shop",))
    (folder / "parties.toml").write_text(write_consortium(consortium))
    (folder / "party.toml").write_text('name = "shop"')
    if not (folder / "keys").exists():
        share_keys({"bank": folder / "bank", "shop": folder}, {})
    responder = OnlineResponder(PartySite(folder))
    responder.runs["run"] = Responder(cast("Session", OneScript(script)), folder, kept, gate)
    return responder


def secure(folder: Path, line: Line) -> SecureLine:
    """The hub's way to such a responder."""
    return SecureLine(line, open_ring(folder / "bank" / "keys", "bank"), "run", {"shop": "shop"})


def peak() -> int:
    """The most memory this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held() -> int:
    """The memory this process holds now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _serve(path: Path, folder: Path) -> None:
    responder = make_responder(folder, Bulk())
    before = held()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        while True:
            with server.accept()[0] as line, line.makefile("rb") as heard, line.makefile("wb") as said:
                blob = read_frame(heard)
                if blob == b"peak":
                    write_frame(said, (peak() - before).to_bytes(8, "little"))
                elif blob is not None:
                    write_frame(said, responder.hear(blob))


def _call(path: Path, frame: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        with line.makefile("rb") as heard, line.makefile("wb") as said:
            write_frame(said, frame)
            return read_frame(heard) or b""


def main() -> None:
    """Send, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    size = parser.parse_args().megabytes
    for step_name in ("send", "take"):
        child = os.fork()
        if child == 0:
            _measure(step_name, size)
            os._exit(0)
        os.waitpid(child, 0)


def _measure(step_name: str, size: int) -> None:
    """One way, in fresh processes, so that one way's peak does not hide the other's."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "party").mkdir()
        child = os.fork()
        if child == 0:
            _serve(folder / "line", folder / "party")
        while not (folder / "line").exists():
            time.sleep(0.05)
        line = secure(folder / "party", lambda *said: _call(folder / "line", said[1]))
        lines = RpcClient(line, ("shop",), "run", folder / "spool")
        hub = Party("bank", Table.without_rows("bank"), 0)
        payload = {"megabytes": size} if step_name == "send" else {"numbers": np.ones(size * 250_000, np.float32)}
        before, started = held(), time.monotonic()
        with Journal(folder / "journal") as journal:
            peers = Peers(Bulk(), hub, journal.around(lines), WireLog(), ("shop",))
            peers.ask(getattr(Bulk(), step_name), **payload)
        taken, mine = time.monotonic() - started, peak() - before
        theirs = int.from_bytes(_call(folder / "line", b"peak"), "little")
        os.kill(child, 9)
        os.waitpid(child, 0)
    whole = size * 1e6
    way = "an answer" if step_name == "send" else "a question"
    # The hub held the question's array before it was measured.
    mine += 0 if step_name == "send" else size * 1_000_000
    print(f"{way} of {size} MB: {taken:.1f} s; peak memory ", end="")
    print(f"at the hub {mine / whole:.2f} x its size, at the party {theirs / whole:.2f} x")


if __name__ == "__main__":
    main()
