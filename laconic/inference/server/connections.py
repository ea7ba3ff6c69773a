"""Connections of clients that have not shown a token yet: few at a time, not for long, and with short headers.

uvicorn has no limits for what comes before a request is complete: a handshake that stops half way, headers that never
end, or headers of any size. Here, a connection is a stranger's until a request on it was let in. When there are too
many strangers, the oldest one of the address that has most of them has to go; whoever was let in stays. An address from
which strangers come in a hurry is not listened to for a while: handshakes take time.
"""

import asyncio
import gc
import socket
from asyncio import TimerHandle, sslproto
from collections import Counter
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from laconic.errors import DataError
from laconic.inference.server.guard import LET_IN, Allowance

MOST_STRANGERS = 128
"""Few enough for memory, and so many that a client has time to show its token while others come in a hurry."""
_STRANGER_SECONDS = 10.0
_HEADER_SECONDS = 5.0
_HEADER_BYTES = 16_384
_UNREAD_BYTES = 1 << 17
_ENCRYPTED_BYTES = 1 << 15
"""What a connection reads at once; asyncio sets aside 256 KB for each, and a record of TLS has 16."""
_STRANGERS_A_SECOND = 30.0
"""From one address, on average; ten seconds' worth at once."""
_TIDY_AFTER = 32
"""Connections that ended are cycles of garbage, 75 KB each: after so many new ones they are looked for."""
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Door:
    """The connections of strangers, by host and port, in the order in which they came."""

    def __init__(self, most: int = MOST_STRANGERS, seconds: float = _STRANGER_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._strangers: dict[tuple[str, int], tuple[Connection, TimerHandle]] = {}
        self._hurry = Allowance(_STRANGERS_A_SECOND)
        self._came = 0

    def is_open_to(self, host: str) -> bool:
        """Whether one more stranger may come from an address now."""
        return self._hurry.spend(host) == 0.0

    def enter(self, connection: "Connection", client: tuple[str, int]) -> None:
        """Take note of a new connection; if there are too many, another one is ended."""
        if len(self._strangers) >= self._most:
            busiest = Counter(host for host, _ in self._strangers).most_common(1)[0][0]
            self._end(next(one for one in self._strangers if one[0] == busiest))
        self._came += 1
        if self._came % _TIDY_AFTER == 0:
            gc.collect()
        timer = asyncio.get_running_loop().call_later(self._seconds, self._end, client)
        self._strangers[client] = connection, timer

    def let_in(self, client: tuple[str, int]) -> None:
        """Its client may ask: it is no stranger's any more, and does not count against its address."""
        if client in self._strangers:
            self._hurry.spend(client[0], -1.0)
            self.leave(client)

    def leave(self, client: tuple[str, int]) -> None:
        """Forget about a connection."""
        if client in self._strangers:
            self._strangers.pop(client)[1].cancel()

    def _end(self, client: tuple[str, int]) -> None:
        connection = self._strangers[client][0]
        self.leave(client)
        with suppress(OSError):  # It may have ended by itself just now.
            # The event loop has it, and finds that it has ended.
            connection.shutdown(socket.SHUT_RDWR)


class Connection(socket.socket):
    """A client's connection, which says when it is closed."""

    door: Door
    client: tuple[str, int]

    def close(self) -> None:
        """Close it."""
        self.door.leave(self.client)
        super().close()


class Listener(socket.socket):
    """A socket that listens, and lets the door know who comes."""

    door: Door

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; asyncio calls this."""
        plain, address = super().accept()
        while not self.door.is_open_to(address[0]):
            plain.close()
            plain, address = super().accept()
        connection = Connection(plain.family, plain.type, plain.proto, plain.detach())
        connection.door, connection.client = self.door, address[:2]
        self.door.enter(connection, address[:2])
        return connection, address


def listen(host: str, port: int, door: Door) -> Listener:
    """Listen at an address; a DataError says why that cannot be."""
    sslproto.SSLProtocol.max_size = _ENCRYPTED_BYTES
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = Listener(family, kind, number)
        listener.door = door
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What the system takes for a connection before anybody has looked at it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
        listener.bind(address)
    except OSError as problem:
        raise DataError(f"cannot listen on {host}, port {port}: {problem}; choose another with --port") from problem
    return listener


def protocol_at(door: Door) -> type[asyncio.Protocol]:
    """Uvicorn's protocol with limits on headers; it tells the door whose requests were let in."""

    class WithLimits(HttpToolsProtocol):
        _head = 0
        """Bytes of a header that is not complete; -1 while there is none."""
        _timer: TimerHandle | None = None

        def data_received(self, data: bytes) -> None:
            self._head += len(data) if self._head >= 0 else 0
            super().data_received(data)
            if self._head > _HEADER_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._head = max(self._head, 0)
            self._length = 0
            self._stop_timer()
            self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)
            if self.client is not None:
                client = self.client
                self.scope[LET_IN] = lambda: door.let_in(client)  # type: ignore[literal-required]

        def on_url(self, url: bytes) -> None:
            self._refuse_long(url)
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._refuse_long(name, value)
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._head = -1
            self._stop_timer()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _refuse_long(self, *parts: bytes) -> None:
            """All of a long header may come at once; the parser answers an error with 400."""
            self._length += sum(map(len, parts))
            if self._length > _HEADER_BYTES:
                raise ValueError("the header is too long")

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return WithLimits
