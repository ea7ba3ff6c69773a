"""A relay between a party and a server on this machine that counts bytes, and tells payload from framing.

In the clear, XGBoost's workers speak gRPC, which is HTTP/2: payload is what its DATA frames carry less gRPC's own five
bytes a message. Under TLS only records can be told apart: payload is what is inside records of application data, in
which HTTP/2's framing is hidden, and the rest is TLS's own.
"""

import socket
import threading
from contextlib import suppress

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
