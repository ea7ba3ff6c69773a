"""Kill the hub, a party, or both, again and again, and see that the finished run equals one that nothing disturbed.

    python -m benchmarks.crashes [--seeds 100] [--kills 6]

The hub and every party are processes of their own, which a supervisor starts again as soon as they die. They talk over
sockets in a folder; the hub keeps its journal there, and every party its memory. SIGKILL comes at random moments of a
SplitNN of twenty rounds. A seed decides who dies and when; the run must end with the same predictions, score, bytes and
ledgers, to the bit.
"""

import argparse
import os
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laconic import Method, Result, SplitNN, simulate
from laconic.core import Ledger, Party, Peers, Script, WireLog, decode, encode
from laconic.deploy import Journal, PartyFolder, run
from laconic.deploy.transports.processes import read_frame, write_frame
from laconic.deploy.transports.rpc_messages import find_script, name_script
from laconic.learn import Sgd
from laconic.testing import small_federation
from laconic.threads import limit_threads

METHOD = SplitNN(width=4, trainer=Sgd(epochs=2, batch=40, patience=None))
"""Ten batches an epoch of 358 training rows: twenty rounds, one more to learn the last batch, and prediction."""


def undisturbed(method: Method = METHOD) -> Result:
    """The same run in one process."""
    return simulate(method, small_federation("binary"), seed=1)


def disturbed(folder: Path, seed: int, kills: int, method: Method = METHOD) -> tuple[Result, list[str]]:
    """The run with processes that are killed; also who was killed, in order."""
    rng = np.random.default_rng(seed)
    federation = small_federation("binary")
    starts: dict[str, Callable[[], None]] = {"hub": lambda: _hub(folder, method)}
    for name in federation.peers:
        starts[name] = lambda name=name: _party(folder, name)  # type: ignore[misc]
    alive = {name: _fork(start) for name, start in starts.items()}
    killed: list[str] = []
    try:
        while not (folder / "result").exists():
            if len(killed) < kills:
                _wait(folder, int(rng.integers(8)), float(rng.uniform(0.0, 0.03)))
                victims = [["hub"], [str(rng.choice(federation.peers))], list(alive)][int(rng.integers(3))]
                for name in victims:
                    os.kill(alive[name], signal.SIGKILL)
                killed.append(" and ".join(victims))
            for name, child in alive.items():
                if os.waitpid(child, os.WNOHANG)[0] and not (folder / "result").exists():
                    alive[name] = _fork(starts[name])
            time.sleep(0.005)
    finally:
        for child in alive.values():
            _end(child)
    return msgspec.json.decode((folder / "result").read_bytes(), type=Result), killed


def same(one: Result, other: Result) -> bool:
    """Whether two runs are equal in all but their time, the order in which answers came, and who signed."""
    return _figures(one) == _figures(other)


def _figures(result: Result) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
    for phase in ("align", "fit", "look", "final"):
        del plain[phase]["seconds"]
    del plain["statements"], plain["ended"]
    # Booked in the order of arrival, which is nobody's business.
    plain["wire"] = sorted(map(str, plain["wire"]))
    return plain


def _hub(folder: Path, method: Method) -> None:
    federation = small_federation("binary")
    hub = Party(federation.hub, federation.tables[federation.hub], 1)
    with Journal(folder / "journal") as journal:
        carrier = journal.around(_Sockets(folder, federation.peers))
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        facts = {"name": federation.name, "kind": federation.kind} | federation.facts
        result = run(method, hub, peers, data=facts)
    (folder / "result.part").write_bytes(msgspec.json.encode(result))
    (folder / "result.part").replace(folder / "result")


def _party(folder: Path, name: str) -> None:
    kept = PartyFolder(folder / f"memory of {name}")
    kept.begin(Party(name, small_federation("binary").tables[name], 1))
    where = folder / name
    where.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(where))
        server.listen()
        while True:
            with server.accept()[0] as line, suppress(ConnectionError):  # The hub may die; it will ask again.
                _serve(line, kept)


def _serve(line: socket.socket, kept: PartyFolder) -> None:
    with line.makefile("rb") as heard, line.makefile("wb") as said:
        blob = read_frame(heard)
        if blob is not None:
            request = decode(blob)
            write_frame(said, kept.answer(find_script(request["script"]), request["blob"]))


class _Sockets:
    """Parties behind sockets: one that is gone is tried again until it is back."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.names = names
        self._folder = folder

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        for name, blob in blobs.items():
            yield name, self._ask(name, encode({"script": name_script(script), "blob": blob}))

    def ledgers(self) -> dict[str, Ledger]:
        return {name: PartyFolder(self._folder / f"memory of {name}").load().ledger for name in self.names}

    def _ask(self, name: str, request: bytes) -> bytes:
        while True:
            with suppress(ConnectionError, FileNotFoundError), socket.socket(socket.AF_UNIX) as line:
                line.connect(str(self._folder / name))
                with line.makefile("rb") as heard, line.makefile("wb") as said:
                    write_frame(said, request)
                    if (reply := read_frame(heard)) is not None:
                        return reply
            time.sleep(0.01)


def _wait(folder: Path, records: int, seconds: float) -> None:
    """Until so many answers more are in the journal, or a while if it does not grow, and then these seconds."""
    size, now, patience = -1, 0, time.monotonic() + 0.5
    while records > 0 and time.monotonic() < patience:
        with suppress(FileNotFoundError):  # The log goes when the hub closes its journal.
            now = sum(path.stat().st_size for path in folder.glob("journal.db*"))
        records -= now > size
        size = now
        time.sleep(0.001)
    time.sleep(seconds)


def _fork(start: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        with limit_threads(1):
            start()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _end(child: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def main() -> None:
    """Try many seeds, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--kills", type=int, default=6)
    options = parser.parse_args()
    expected = undisturbed()
    equal, killed = 0, []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            found, victims = disturbed(Path(folder), seed, options.kills)
        equal += same(found, expected)
        killed += victims
    both = sum(" and " in who for who in killed)
    hub = sum(who == "hub" for who in killed)
    print(f"{expected.fit.rounds} rounds; {options.seeds} runs, {len(killed)} times killed:")
    print(f"the hub {hub}, a party {len(killed) - hub - both}, all at once {both}")
    print(f"{equal} of {options.seeds} ended equal to the undisturbed run")
    if equal != options.seeds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
