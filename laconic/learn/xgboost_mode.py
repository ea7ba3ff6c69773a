"""XGBoost's own vertical federated mode: workers that hold columns, one of them the labels, and a server between them.

The mode is in the `xgboost` package and not in the lighter `xgboost-cpu`, and the two cannot be installed side by side;
so the environment variable `LACONIC_XGBOOST` may name a folder that holds the former:

    pip install --no-deps --target FOLDER xgboost==3.2.0
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import numpy as np

from laconic.core.errors import LaconicError
from laconic.core.values import Array, Settings

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
    (folder / "orders.json").write_text(json.dumps(orders))
    command = [sys.executable, "-m", "laconic.learn.xgboost_worker", what, str(folder)]
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
