"""Whether a served model answers its clients while strangers without a token take all the connections they can.

A second process keeps connections that say nothing, headers that come a byte a second, and headers without end, and
opens each again a second after the server has closed it. Clients with a token ask all the while, from another address.

Usage: python -m benchmarks.serve_attacked [--seconds 60] [--clients 20] [--half-open 200] [--slow 200] [--large 20]
"""

import argparse
import asyncio
import multiprocessing
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http.client import HTTPException
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
    chosen = parser.parse_args()
    with TemporaryDirectory() as name:
        place = Path(name)
        ids = save_people(place, chosen.people)
        with serving(place) as (port, server):
            print("| | answers | errors | p50 | p95 | memory at a fifth | memory at the end |")
            print("|" + "---|" * 7)
            _ask(place, port, server, ids, chosen.clients, min(5.0, chosen.seconds), show="")
            quiet = _ask(place, port, server, ids, chosen.clients, chosen.seconds, show="quiet")
            context = multiprocessing.get_context("spawn")
            counted = context.Array("L", 3)
            words = (port, chosen.half_open, chosen.slow, chosen.large, counted)
            attack = context.Process(target=_attack, args=words, daemon=True)
            attack.start()
            while not counted[1]:
                time.sleep(0.1)
            attacked = _ask(place, port, server, ids, chosen.clients, chosen.seconds, show="attacked")
            attack.terminate()
            attack.join()
    opened = dict(zip(("half-open", "slow", "large"), counted[:], strict=True))
    print(f"\nConnections that strangers opened: {opened}. p95 under attack: {attacked / quiet:.2f} x the quiet one.")


def _ask(place: Path, port: int, server: int, ids: list[str], clients: int, seconds: float, show: str) -> float:
    """The p95 of many clients at once, in milliseconds; each connects once, and again only after an error."""
    ends = time.monotonic() + seconds
    times: list[list[float]] = [[] for _ in range(clients)]
    errors = [0] * clients

    def keep_asking(number: int) -> None:
        rng, client = np.random.default_rng(number), Client(place, port)
        while time.monotonic() < ends:
            first = int(rng.integers(len(ids) - 10))
            try:
                times[number].append(client.ask(ids[first : first + 10]))
            except (OSError, HTTPException, RuntimeError, ValueError):
                errors[number] += 1
                client = Client(place, port)

    threads = [Thread(target=keep_asking, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 5)
    early = memory_of(server)
    for thread in threads:
        thread.join()
    taken = 1000 * np.concatenate([np.array(one) for one in times])
    p50, p95 = np.percentile(taken, [50, 95])
    if show:
        figures = f"{len(taken):,} | {sum(errors)} | {p50:.1f} ms | {p95:.1f} ms"
        print(f"| {show} | {figures} | {early:.1f} MB | {memory_of(server):.1f} MB |", flush=True)
    return float(p95)


def _attack(port: int, half_open: int, slow: int, large: int, counted: "list[int]") -> None:
    """Keep so many connections of each kind, until the process is ended."""
    asyncio.run(_attack_all(port, (half_open, slow, large), counted))


async def _attack_all(port: int, kinds: tuple[int, int, int], counted: "list[int]") -> None:
    encrypted = ssl.create_default_context()
    encrypted.check_hostname, encrypted.verify_mode = False, ssl.CERT_NONE
    ways: tuple[Callable[[asyncio.StreamWriter], Awaitable[None]], ...] = (_say_nothing, _drip, _pour)
    async with asyncio.TaskGroup() as group:
        for kind, (count, way) in enumerate(zip(kinds, ways, strict=True)):
            for number in range(count):
                await asyncio.sleep(0.002)
                context = None if way is _say_nothing else encrypted
                group.create_task(_again_and_again(port, context, way, counted, kind), name=f"{kind} {number}")


async def _again_and_again(
    port: int,
    context: ssl.SSLContext | None,
    way: Callable[[asyncio.StreamWriter], Awaitable[None]],
    counted: "list[int]",
    kind: int,
) -> None:
    """Keep one connection: say what there is to say until the server closes it, and open it again a second later."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=("127.0.0.2", 0))
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
