"""Who may ask: a token, or a client certificate that the connection was made with; and not too often."""

import gc
import ssl
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from time import monotonic
from typing import Any

from laconic.errors import DataError, MissingExtra
from laconic.values import Settings

LET_IN = "laconic.let_in"
"""Where the scope of a request has the function to call once its client may ask."""

_CLIENTS = 10_000
"""How many clients are remembered; whoever was silent longest is forgotten first."""


class Limits(Settings, frozen=True):
    """What one client may ask.

    Attributes:
        bytes: of a request's body.
        ids: in one request.
        requests: per second, on average; ten seconds' worth at once.
        ids_a_second: on average; ten seconds' worth at once.
    """

    bytes: int = 1 << 20
    ids: int = 1000
    requests: float = 500.0
    ids_a_second: float = 20_000.0

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if min(self.bytes, self.ids) < 1 or min(self.requests, self.ids_a_second) <= 0:
            raise ValueError(f"limits must be above 0, not {self}")


class Allowance:
    """How much each client may still ask: refilled as time goes by, up to ten seconds' worth."""

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._most, self._clock = rate, max(1.0, 10 * rate), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, client: str, amount: float = 1.0) -> float:
        """Take so much; 0 if there was enough, else the seconds to wait until there will be."""
        now = self._clock()
        left, then = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        # Once full, anything may be asked, even more than the most: or it could never be.
        enough = left >= min(amount, self._most)
        self._left[client] = (left - amount if enough else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if enough else (min(amount, self._most) - left) / self._rate


_LEAST = 16


class Access(Settings, frozen=True):
    """Who may ask.

    Attributes:
        tokens: SHA-256 digests, in hex, of the tokens that are let in; none if certificates are asked for.
        certificates: whether the connection itself demands a client certificate.
    """

    tokens: tuple[str, ...] = ()
    certificates: bool = False

    def __post_init__(self) -> None:
        """Refuse to let everybody in."""
        if not self.tokens and not self.certificates:
            raise ValueError("clients could not be identified: give a token file, or a client authority")


def read_tokens(text: str) -> tuple[str, ...]:
    """The digests of tokens, one per line; empty lines and lines that begin with # are left out."""
    tokens = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    short = [token for token in tokens if len(token) < _LEAST]
    if short or not tokens:
        raise DataError(
            f"the token file holds {len(tokens)} tokens, {len(short)} of them shorter than {_LEAST} characters; write "
            "one per line, such as `openssl rand -hex 32` prints"
        )
    return tuple(sha256(token.encode()).hexdigest() for token in tokens)


class Guard:
    """Lets requests in, and says to whom they belong; `requests` and `ids` are what each client may still ask."""

    def __init__(self, access: Access, limits: Limits) -> None:
        self._access = access
        self.requests, self.ids = Allowance(limits.requests), Allowance(limits.ids_a_second)

    def client(self, scope: dict[str, Any]) -> str | None:
        """Who asks, as a short name for limits; None if they may not."""
        if not self._access.tokens:
            client = scope.get("client")
            return str(client[0]) if client else "unknown"
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        found = sha256(token.strip()).hexdigest()
        matches = [compare_digest(found, known) for known in self._access.tokens]
        return found if kind.lower() == b"bearer" and any(matches) else None


LOCAL = ("127.0.0.1", "localhost", "::1")


class Address(Settings, frozen=True):
    """Where to listen, and by which certificates.

    Attributes:
        host, port: the address.
        certificate, key: PEM files of the server; none for plain HTTP, which only this machine may use.
        client_authority: PEM file of the authority whose client certificates are let in; none asks for no certificate.
        most_at_once: connections of clients that were let in, served at once; more are asked to come back.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: str | None = None
    key: str | None = None
    client_authority: str | None = None
    most_at_once: int = 200

    def __post_init__(self) -> None:
        """Refuse plain HTTP that others could read, and half a certificate."""
        if self.certificate is None and self.host not in LOCAL:
            raise ValueError(
                f"{self.host} can be heard by others, so HTTPS is needed: give a certificate and a key; plain HTTP is "
                "for 127.0.0.1 alone, such as behind a proxy on this machine"
            )
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate: give both")
        if self.client_authority is not None and self.certificate is None:
            raise ValueError("client certificates need HTTPS: give a certificate and a key")


def serve(app: object, address: Address) -> None:
    """Answer requests until the process is stopped; requests under way are finished first."""
    try:
        import uvicorn

        from laconic.inference.server.connections import MOST_STRANGERS, Door, listen, protocol_at
    except ImportError as problem:
        raise MissingExtra("uvicorn", "serve") from problem
    for file in (address.certificate, address.key, address.client_authority):
        if file is not None and not Path(file).is_file():
            raise DataError(f"there is no file {file}; check the path")
    door = Door()
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=protocol_at(door),
        loop="asyncio",  # The one that asks a listening socket of our own for connections.
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        ssl_ca_certs=address.client_authority,
        ssl_cert_reqs=ssl.CERT_NONE if address.client_authority is None else ssl.CERT_REQUIRED,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Strangers are counted too: they must not take the places of those who are let in.
        limit_concurrency=address.most_at_once + MOST_STRANGERS,
        timeout_graceful_shutdown=10,
        lifespan="on",
    )
    with listen(address.host, address.port, door) as listener:
        # What is loaded by now stays: looking for garbage among the rest is quick, and `Door` does so often.
        gc.collect()
        gc.freeze()
        uvicorn.Server(config).run([listener])
