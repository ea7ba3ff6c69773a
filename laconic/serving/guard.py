"""Who may ask: a token, or a client certificate that the connection was made with; and not too often."""

from hashlib import sha256
from hmac import compare_digest
from typing import Any

from laconic.core.errors import DataError
from laconic.core.values import Settings
from laconic.serving.limits import Allowance, Limits

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
            raise ValueError("nobody could be told apart: give a token file, or the authority of client certificates")


def read_tokens(text: str) -> tuple[str, ...]:
    """The digests of tokens, one a line; empty lines and lines that begin with # are left out."""
    tokens = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    short = [token for token in tokens if len(token) < _LEAST]
    if short or not tokens:
        raise DataError(
            f"the token file holds {len(tokens)} tokens, {len(short)} of them shorter than {_LEAST} characters; write "
            "one a line, such as `openssl rand -hex 32` prints"
        )
    return tuple(sha256(token.encode()).hexdigest() for token in tokens)


class Guard:
    """Lets requests in, and says to whom they belong."""

    def __init__(self, access: Access, limits: Limits) -> None:
        self._access = access
        self._requests, self._ids = Allowance(limits.requests), Allowance(limits.ids_a_second)

    def client(self, scope: dict[str, Any]) -> str | None:
        """Who asks, as a short name for limits; None if they may not."""
        if not self._access.tokens:
            return _address(scope)
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        found = sha256(token.strip()).hexdigest()
        matches = [compare_digest(found, known) for known in self._access.tokens]
        return found if kind.lower() == b"bearer" and any(matches) else None

    def wait_for_request(self, client: str) -> float:
        """Seconds until the client may send another request; 0 for now."""
        return self._requests.spend(client)

    def wait_for_ids(self, client: str, count: int) -> float:
        """Seconds until the client may ask about so many people; 0 for now."""
        return self._ids.spend(client, count)


def _address(scope: dict[str, Any]) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
