"""Whether a served model answers its clients while strangers without a token take all the connections they can.

A second process keeps connections that say nothing, headers that come a byte a second, and headers without end, and
opens each again a second after the server has closed it. Clients with a token, which have asked before, ask all the
while, from the same address. One more client comes anew every second, and tries again until it is let in. There are two
attacks of the same kind and length: the first one makes the server keep as much as strangers can make it keep, and in
the second its memory has to stay level.

Usage: python -m benchmarks.serve_attacked [--seconds 60] [--clients 20] [--half-open 200] [--slow 200] [--large 20]
       [--strangers-from 127.0.0.1]
"""

import argparse
import asyncio
import multiprocessing
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np

from benchmarks.serve import Client, memory_of, save_people, serving

_START = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "


def main() -> None:
    """Print answers, errors, p95 and memory, first with nobody else there, then under attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--half-open", type=int, default=200)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--large", type=int, default=20)
    parser.add_argument("--strangers-from", default="127.0.0.1", help="the address of the strangers; clients' own")
    chosen = parser.parse_args()
    kinds = (chosen.half_open, chosen.slow, chosen.large)
    with TemporaryDirectory() as name:
        place = Path(name)
        ids = save_people(place, chosen.people)
        with serving(place) as (port, server):
            print(f"Load average before: {os.getloadavg()[0]:.1f}\n")
            print("| | answers | errors | p50 | p95 | memory at the start | memory at the end |")
            print("|" + "---|" * 7)
            first, second = (_Attack(port, kinds, chosen.strangers_from) for _ in range(2))
            clients = [Client(place, port) for _ in range(chosen.clients)]
            _ask(clients, place, port, server, ids, min(10.0, chosen.seconds), show="warm-up")
            with first.under_way():
                _ask(clients, place, port, server, ids, chosen.seconds, show="first attack")
            quiet = _ask(clients, place, port, server, ids, chosen.seconds, show="quiet")
            with second.under_way():
                newcomers, before = _Newcomers(place, port, ids, chosen.seconds), memory_of(server)
                attacked = _ask(clients, place, port, server, ids, chosen.seconds, show="second attack")
                newcomers.join()
                grown = memory_of(server) - before
            after = _ask(clients, place, port, server, ids, min(10.0, chosen.seconds), show="after")
    opened = dict(zip(("half-open", "slow", "large"), second.counted[:], strict=True))
    print(f"\nConnections that strangers opened from {chosen.strangers_from}: {opened}.")
    print(f"p95 under attack: {attacked / quiet:.2f} x the quiet one; after it {after / quiet:.2f} x.")
    print(f"Memory in the second attack: {grown:+.1f} MB.")
    print(newcomers)


class _Newcomers(Thread):
    """A client that connects anew every second, from the clients' address, and tries until it is let in."""

    def __init__(self, place: Path, port: int, ids: list[str], seconds: float) -> None:
        super().__init__()
        self._place, self._port, self._ids, self._ends = place, port, ids, time.monotonic() + seconds
        self.waits: list[float] = []
        self.tries = 0
        self.start()

    def run(self) -> None:
        while time.monotonic() < self._ends:
            began, answered = time.monotonic(), False
            while not answered and time.monotonic() < self._ends:
                self.tries += 1
                with suppress(OSError, HTTPException, RuntimeError, ValueError):
                    Client(self._place, self._port).ask(self._ids[:10])
                    answered = True
                time.sleep(0.0 if answered else 0.05)
            if answered:
                self.waits.append(time.monotonic() - began)
            time.sleep(1.0)

    def __str__(self) -> str:
        if not self.waits:
            return f"Newcomers: none was let in, of {self.tries:,} tries."
        p50, most = np.median(self.waits), max(self.waits)
        times = f"after {p50:.2f} s (median), {most:.1f} s at most"
        return f"Newcomers: {len(self.waits)} let in by {self.tries:,} tries; {times}."


class _Attack:
    """Another process that keeps so many connections of each kind, and counts those it opened.

    It is started beforehand: clients that wait for it would be asked by the server to connect again.
    """

    def __init__(self, port: int, kinds: tuple[int, int, int], address: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.counted, self._ready, self._go = context.Array("L", 3), context.Event(), context.Event()
        words = (port, kinds, address, self.counted, self._ready, self._go)
        self._process = context.Process(target=_attack, args=words, daemon=True)
        self._process.start()
        self._ready.wait()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        self._go.set()
        try:
            yield
        finally:
            self._process.terminate()
            self._process.join()


def _ask(
    clients: list[Client], place: Path, port: int, server: int, ids: list[str], seconds: float, show: str
) -> float:
    """The p95 of many clients at once, in milliseconds; each connects again only after an error."""
    began, ends = memory_of(server), time.monotonic() + seconds
    times: list[list[float]] = [[] for _ in clients]
    errors = [0] * len(clients)

    def keep_asking(number: int) -> None:
        rng = np.random.default_rng(number)
        while time.monotonic() < ends:
            first = int(rng.integers(len(ids) - 10))
            try:
                times[number].append(clients[number].ask(ids[first : first + 10]))
            except (OSError, HTTPException, RuntimeError, ValueError):
                errors[number] += 1
                clients[number] = Client(place, port)

    threads = [Thread(target=keep_asking, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = 1000 * np.concatenate([np.array(one) for one in times])
    p50, p95 = np.percentile(taken, [50, 95])
    if show:
        figures = f"{len(taken):,} | {sum(errors)} | {p50:.1f} ms | {p95:.1f} ms"
        print(f"| {show} | {figures} | {began:.1f} MB | {memory_of(server):.1f} MB |", flush=True)
    return float(p95)


def _attack(
    port: int, kinds: tuple[int, int, int], address: str, counted: "list[int]", ready: Event, go: Event
) -> None:
    """Keep so many connections of each kind, from when it may until the process is ended."""
    ready.set()
    go.wait()
    asyncio.run(_attack_all(port, kinds, address, counted))


async def _attack_all(port: int, kinds: tuple[int, int, int], address: str, counted: "list[int]") -> None:
    encrypted = ssl.create_default_context()
    encrypted.check_hostname, encrypted.verify_mode = False, ssl.CERT_NONE
    ways: tuple[Callable[[asyncio.StreamWriter], Awaitable[None]], ...] = (_say_nothing, _drip, _pour)
    async with asyncio.TaskGroup() as group:
        for kind, (count, way) in enumerate(zip(kinds, ways, strict=True)):
            for number in range(count):
                await asyncio.sleep(0.002)
                context = None if way is _say_nothing else encrypted
                group.create_task(_again_and_again(port, address, context, way, counted, kind), name=f"{kind} {number}")


async def _again_and_again(
    port: int,
    address: str,
    context: ssl.SSLContext | None,
    way: Callable[[asyncio.StreamWriter], Awaitable[None]],
    counted: "list[int]",
    kind: int,
) -> None:
    """Keep one connection: say what there is to say until the server closes it, and open it again a second later."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=(address, 0))
            counted[kind] += 1
            saying = asyncio.ensure_future(way(writer))
            try:
                while await reader.read(1000):
                    pass
            finally:
                saying.cancel()
                writer.transport.abort()
        await asyncio.sleep(1.0)


async def _say_nothing(_: asyncio.StreamWriter) -> None:
    pass


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(_START)
    while True:
        writer.write(b"x")
        await asyncio.sleep(1.0)


async def _pour(writer: asyncio.StreamWriter) -> None:
    writer.write(_START)
    with suppress(OSError):
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    main()
