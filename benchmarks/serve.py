"""How fast a served model answers, and whether it holds up: a server in one process, the load from another.

Usage: python -m benchmarks.serve [--people 20000] [--requests 2000] [--seconds 60] [--clients 20]
"""

import argparse
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np

from benchmarks.certificates import write_certificates
from laconic import Equal, FedOnce, deal, save_model, train
from laconic.data import Dataset
from laconic.learn import Sgd
from laconic.tables import Column, Task

TOKEN = "for this benchmark and nothing else"  # noqa: S105 (never used elsewhere)


def main() -> None:
    """Print latency of one id, ids a second in batches, and what a soak does to errors and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=20)
    chosen = parser.parse_args()
    with TemporaryDirectory() as name:
        place = Path(name)
        ids = save_people(place, chosen.people)
        load = os.getloadavg()[0]
        with serving(place) as (port, server):
            print(f"{len(ids):,} people stored, four parties, HTTPS with a token; load average before: {load:.1f}\n")
            print("| what | figure |\n|---|---|")
            _one_id(place, port, server, ids, chosen.requests)
            _batches(place, port, ids, chosen.requests // 5)
            _soak(place, port, server, ids, chosen.clients, chosen.seconds)


def save_people(place: Path, people: int) -> list[str]:
    """A model of made-up people, with everybody's answers stored."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((people, 32))
    y = (x @ rng.standard_normal(32) + rng.standard_normal(people) > 0).astype(np.int64)
    columns = tuple(Column(f"column {number}") for number in range(32))
    task = Task(kind="binary", classes=("no", "yes"), label="bought")
    dataset = Dataset(name="made up", raw=x, columns=columns, y=y, task=task)
    federation = deal(dataset, Equal(parties=4), test=10 / people, valid=0.1)
    save_model(train(FedOnce(trainer=Sgd(epochs=2)), federation), place / "model", ways=())
    write_certificates(place)
    (place / "tokens.txt").write_text(TOKEN)
    (place / "tokens.txt").chmod(0o600)
    table = federation.tables[federation.hub]
    return [str(one) for cut in ("train", "valid") for one in table.keys[table.cut(cut)]]


@contextmanager
def serving(place: Path) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and its process number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    words = ["serve", "model", "--port", str(port), "--tokens", "tokens.txt", "--requests-a-second", "100000"]
    words += ["--ids-a-second", "10000000", "--certificate", "server.pem", "--key", "server.key"]
    process = subprocess.Popen([sys.executable, "-m", "laconic", *words], cwd=place, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise RuntimeError("the server ended before it began; run `laconic serve` by hand to see why")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


class Client:
    """One connection that is kept."""

    def __init__(self, place: Path, port: int) -> None:
        context = ssl.create_default_context(cafile=str(place / "authority.pem"))
        self._line = HTTPSConnection("127.0.0.1", port, context=context, timeout=30)

    def ask(self, ids: list[str]) -> float:
        """Seconds until the answer was there; anything but one score for each id is an error."""
        started = time.perf_counter()
        self._line.request("POST", "/predict", json.dumps({"ids": ids}), {"Authorization": f"Bearer {TOKEN}"})
        answer = self._line.getresponse()
        body = json.loads(answer.read())
        taken = time.perf_counter() - started
        if answer.status != 200 or any(one["answered_by"] != "all" for one in body["scores"]):
            raise RuntimeError(f"{answer.status}: {str(body)[:200]}")
        return taken


def _one_id(place: Path, port: int, server: int, ids: list[str], requests: int) -> None:
    client = Client(place, port)
    for number in range(50):
        client.ask([ids[number]])
    before = _processor(server)
    times = [client.ask([ids[number % len(ids)]]) for number in range(requests)]
    spent = 1000 * (_processor(server) - before) / requests
    for share in (50, 95, 99):
        print(f"| one id, {requests:,} requests: p{share} | {1000 * np.percentile(times, share):.1f} ms |")
    print(f"| processor time of the server for each | {spent:.2f} ms |")


def _batches(place: Path, port: int, ids: list[str], requests: int) -> None:
    client = Client(place, port)
    started = time.perf_counter()
    for number in range(requests):
        first = 100 * number % (len(ids) - 100)
        client.ask(ids[first : first + 100])
    rate = 100 * requests / (time.perf_counter() - started)
    print(f"| batches of 100, one client, {requests:,} requests | {rate:,.0f} ids a second |")


@dataclass
class _Tally:
    answers: int = 0
    errors: int = 0


def _soak(place: Path, port: int, server: int, ids: list[str], clients: int, seconds: float) -> None:
    """Many clients at once; memory is looked at after a fifth of the time, when all is warm, and at the end."""
    ends = time.monotonic() + seconds
    tallies = [_Tally() for _ in range(clients)]

    def keep_asking(place_of: int) -> None:
        tally, rng = tallies[place_of], np.random.default_rng(place_of)
        client = Client(place, port)
        while time.monotonic() < ends:
            first = int(rng.integers(len(ids) - 10))
            try:
                client.ask(ids[first : first + 10])
                tally.answers += 1
            except (OSError, HTTPException, RuntimeError, ValueError):
                tally.errors += 1
                client = Client(place, port)

    threads = [Thread(target=keep_asking, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 5)
    warm = memory_of(server)
    for thread in threads:
        thread.join()
    answers, errors = sum(one.answers for one in tallies), sum(one.errors for one in tallies)
    print(f"| {clients} clients for {seconds:.0f} s, ten ids each: answers | {answers:,} |")
    print(f"| errors | {errors} |")
    print(f"| its memory after {seconds / 5:.0f} s, and at the end | {warm:.1f} and {memory_of(server):.1f} MB |")


def _processor(process: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> float:
    """Resident memory in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    main()
