"""XGBoost's own vertical federated mode: workers that hold columns, one of them the labels, and a server between them.

The mode is in the `xgboost` package and not in the lighter `xgboost-cpu`, and the two cannot be installed side by side;
so the environment variable `LACONIC_XGBOOST` may name a folder that holds the former:

    pip install --no-deps --target FOLDER xgboost==3.2.0

Server and workers are processes of their own, each with its orders in FOLDER/orders.json. A worker also finds
FOLDER/rows.npy and, at the label holder, FOLDER/labels.npy, and leaves FOLDER/model.json:

    python -m laconic.learn.trees.xgboost_mode server FOLDER
    python -m laconic.learn.trees.xgboost_mode train FOLDER
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import numpy as np

from laconic.errors import LaconicError
from laconic.values import Array, Settings

FOLDER = "LACONIC_XGBOOST"
_LACKING = (
    "the installed xgboost has no federated mode (xgboost-cpu has not); run: pip install --no-deps --target FOLDER "
    f"xgboost==3.2.0, and set the environment variable {FOLDER} to FOLDER; or use socket=None, which needs neither"
)
_PATIENCE = 300


class Tls(Settings, frozen=True):
    """Where keys and certificates are, as PEM files; the server's certificate must be for `localhost`.

    Attributes:
        server_key, server_certificate: the label holder's, which runs the server.
        client_key, client_certificate: the one that parties show.
    """

    server_key: str
    server_certificate: str
    client_key: str
    client_certificate: str


def has_mode() -> bool:
    """Whether XGBoost's federated mode is at hand."""
    code = "import xgboost; print(xgboost.build_info().get('USE_FEDERATED'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)  # noqa: S603 (ours)
    return done.stdout.strip() == "True"


@contextmanager
def federated_server(world: int, tls: Tls | None) -> Iterator[int]:
    """A server for so many workers, at the port that is yielded, for as long as the block lasts."""
    if not has_mode():
        raise LaconicError(_LACKING)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    orders: dict[str, Any] = {"world": world, "port": port, "timeout": _PATIENCE, "tls": {}}
    if tls is not None:
        keys = {"server_key_path": tls.server_key, "server_cert_path": tls.server_certificate}
        orders["tls"] = keys | {"client_cert_path": tls.client_certificate}
    with TemporaryDirectory(prefix="laconic-") as folder:
        process = _start("server", Path(folder), orders)
        try:
            _await_server(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


@contextmanager
def federated_worker(
    x: Array, y: Array | None, wanted: dict[str, Any], rounds: int, rank: int, world: int, port: int, tls: Tls | None
) -> Iterator["Worker"]:
    """One party's worker, at work from here on: its rows, its labels if it has them, and where the server is."""
    link: dict[str, Any] = {"federated_world_size": world, "federated_rank": rank}
    link["federated_server_address"] = f"localhost:{port}"
    if tls is not None:
        link |= {"federated_server_cert_path": tls.server_certificate, "federated_client_key_path": tls.client_key}
        link["federated_client_cert_path"] = tls.client_certificate
    with TemporaryDirectory(prefix="laconic-") as name:
        folder = Path(name)
        np.save(folder / "rows.npy", np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32))
        if y is not None:
            np.save(folder / "labels.npy", y.astype(np.float32))
        process = _start("train", folder, {"link": link, "wanted": wanted, "rounds": rounds})
        try:
            yield Worker(process, folder)
        finally:
            process.kill()
            process.wait()


class Worker:
    """A worker process."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self._process, self._folder = process, folder

    def result(self) -> bytes:
        """Wait until all workers are done; the model, as XGBoost writes it in JSON."""
        _, problem = self._process.communicate()
        if self._process.returncode != 0:
            last = problem.decode(errors="replace").strip().splitlines()[-1:] or ["no word of why"]
            raise LaconicError(f"XGBoost's worker ended before it had a model: {last[0]}")
        return (self._folder / "model.json").read_bytes()


def _start(what: str, folder: Path, orders: dict[str, Any]) -> "subprocess.Popen[bytes]":
    (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
    command = [sys.executable, "-m", "laconic.learn.trees.xgboost_mode", what, str(folder)]
    # What the server says is not read, and would block it once the pipe is full.
    words = subprocess.PIPE if what == "train" else subprocess.DEVNULL
    return subprocess.Popen(command, env=_environment(), stdout=subprocess.DEVNULL, stderr=words)  # noqa: S603 (ours)


def _environment() -> dict[str, str]:
    folders = [os.environ.get(FOLDER, ""), *sys.path]
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def _await_server(port: int, process: "subprocess.Popen[bytes]") -> None:
    ends = monotonic() + _PATIENCE
    while monotonic() < ends and process.poll() is None:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            sleep(0.05)
        else:
            return
    raise LaconicError(f"XGBoost's server did not begin to listen at port {port}; it may be taken: try again")


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HTTP_HEAD, _DATA, _GRPC_HEAD = 9, 0, 5
_TLS_HEAD, _APPLICATION, _TLS_TAIL = 5, 23, 17


class Meter:
    """Bytes seen in one direction of one connection.

    Attributes:
        total: all of them.
        payload: those that are not framing.
    """

    def __init__(self, *, tls: bool) -> None:
        self.total, self.payload = 0, 0
        self._tls = tls
        self._head, self._left, self._is_data, self._first = bytearray(), 0, False, not tls
        self._message = 0
        self._prefix = bytearray()

    def see(self, some: bytes) -> None:
        """Count bytes as they pass, wherever frames begin and end."""
        self.total += len(some)
        if self._first:
            self._first = False
            some = some.removeprefix(_PREFACE)
        at = 0
        while at < len(some):
            if self._left:
                took = min(self._left, len(some) - at)
                if self._is_data:
                    self._inside(some[at : at + took])
                self._left -= took
                at += took
                continue
            size = _TLS_HEAD if self._tls else _HTTP_HEAD
            took = min(size - len(self._head), len(some) - at)
            self._head += some[at : at + took]
            at += took
            if len(self._head) == size:
                self._begin(bytes(self._head))
                self._head.clear()

    def _begin(self, head: bytes) -> None:
        if self._tls:
            self._left, self._is_data = int.from_bytes(head[3:5], "big"), False
            if head[0] == _APPLICATION:
                self.payload += max(0, self._left - _TLS_TAIL)
        else:
            self._left, self._is_data = int.from_bytes(head[:3], "big"), head[3] == _DATA

    def _inside(self, some: bytes) -> None:
        """What a DATA frame carries: messages with their length before them."""
        at = 0
        while at < len(some):
            if self._message:
                took = min(self._message, len(some) - at)
                self.payload += took
                self._message -= took
            else:
                took = min(_GRPC_HEAD - len(self._prefix), len(some) - at)
                self._prefix += some[at : at + took]
                if len(self._prefix) == _GRPC_HEAD:
                    self._message = int.from_bytes(self._prefix[1:], "big")
                    self._prefix.clear()
            at += took


class Relay:
    """Passes one party's connections on to a server, and counts.

    Attributes:
        port: where the party connects to, on this machine.
    """

    def __init__(self, server_port: int, *, tls: bool) -> None:
        self._server_port, self._tls = server_port, tls
        self._listener = socket.create_server(("localhost", 0))
        self.port: int = self._listener.getsockname()[1]
        self._up: list[Meter] = []
        self._down: list[Meter] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def payload(self) -> tuple[int, int]:
        """Bytes of payload, up and down."""
        return sum(meter.payload for meter in self._up), sum(meter.payload for meter in self._down)

    @property
    def framing(self) -> tuple[int, int]:
        """All other bytes, up and down."""
        up, down = self.payload
        return sum(meter.total for meter in self._up) - up, sum(meter.total for meter in self._down) - down

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                party, _ = self._listener.accept()
                server = socket.create_connection(("localhost", self._server_port))
                for meters, source, target in ((self._up, party, server), (self._down, server, party)):
                    meters.append(Meter(tls=self._tls))
                    threading.Thread(target=_pump, args=(source, target, meters[-1]), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, meter: Meter) -> None:
    with suppress(OSError):
        while some := source.recv(1 << 16):
            meter.see(some)
            target.sendall(some)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(orders: dict[str, Any]) -> None:
    """Join workers until all are done."""
    from xgboost.federated import run_federated_server

    run_federated_server(orders["world"], orders["port"], timeout=orders["timeout"], **orders["tls"])


def train(orders: dict[str, Any], folder: Path) -> None:
    """Grow trees together with the other workers."""
    import xgboost

    labels = np.load(folder / "labels.npy") if (folder / "labels.npy").exists() else None
    with xgboost.collective.CommunicatorContext(dmlc_communicator="federated", **orders["link"]):
        columns = xgboost.core.DataSplitMode.COL
        rows = xgboost.DMatrix(np.load(folder / "rows.npy"), label=labels, data_split_mode=columns, nthread=1)
        booster = xgboost.train(orders["wanted"], rows, orders["rounds"])
    (folder / "model.json").write_bytes(bytes(booster.save_raw("json")))


def main() -> None:
    """Do what the orders say."""
    folder = Path(sys.argv[2])
    orders = json.loads((folder / "orders.json").read_text(encoding="utf-8"))
    if sys.argv[1] == "server":
        serve(orders)
    else:
        train(orders, folder)


if __name__ == "__main__":
    main()
