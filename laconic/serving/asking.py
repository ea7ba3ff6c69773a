"""Reaching parties that serve their own part over HTTPS: a carrier like any other."""

import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic
from urllib.parse import urlsplit

from laconic.core.errors import PlanError, StepError
from laconic.core.ledger import Ledger
from laconic.core.script import Script
from laconic.serving.party import PATH

_DEADLINE = 10.0
_LARGEST = 1 << 30


class Addresses:
    """Parties by their addresses.

    A party that cannot be reached, or takes longer than the deadline, is absent; one that refuses is an error.
    """

    def __init__(self, urls: Mapping[str, str], token: str, trusted: ssl.SSLContext | None = None) -> None:
        """Note where parties are.

        Args:
            urls: by party, such as https://shop.example:8443.
            token: what they know the hub by.
            trusted: whose certificates are trusted; None for those that this machine trusts.
        """
        for name, url in urls.items():
            parts = urlsplit(url)
            local = parts.hostname in ("127.0.0.1", "localhost", "::1")
            if parts.scheme != "https" and not (parts.scheme == "http" and local):
                raise PlanError(f"the address of {name} must begin with https://, not {url!r}")
        self._urls, self._token = dict(urls), token
        self._trusted = trusted or ssl.create_default_context()

    @property
    def names(self) -> tuple[str, ...]:
        """The parties there are."""
        return tuple(self._urls)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        """Ask all at once, and take answers as they come."""
        wait = _DEADLINE if deadline is None else deadline
        with ThreadPoolExecutor(max(1, len(blobs))) as pool:
            asked = {pool.submit(self._ask, name, blob, wait): name for name, blob in blobs.items()}
            for one in as_completed(asked):
                reply = one.result()
                if reply is not None:
                    yield asked[one], reply

    def ledgers(self) -> dict[str, Ledger]:
        """Each party keeps its own, on its own side."""
        return {}

    def _ask(self, name: str, blob: bytes, wait: float) -> bytes | None:
        parts = urlsplit(self._urls[name])
        host, port = parts.hostname or "", parts.port
        line: HTTPConnection = (
            HTTPSConnection(host, port or 443, timeout=wait, context=self._trusted)
            if parts.scheme == "https"
            else HTTPConnection(host, port or 80, timeout=wait)
        )
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream"}
        ends = monotonic() + wait
        try:
            line.request("POST", PATH, blob, headers)
            reply = line.getresponse()
            body = _read(reply, ends)
        except ssl.SSLCertVerificationError as problem:
            raise StepError(f"the certificate of {name} is not trusted: {problem}; give its authority") from problem
        except (OSError, HTTPException):
            return None
        finally:
            line.close()
        if reply.status in (400, 401, 403, 413):
            words = body[:200].decode(errors="replace")
            raise StepError(f"{name} refused the question ({reply.status}): {words}; check its token and its plan")
        return body if reply.status == 200 else None


def _read(reply: HTTPResponse, ends: float) -> bytes:
    """All of an answer, if it comes in time: each block may come within the deadline and all of them long after."""
    body = bytearray()
    while block := reply.read1(1 << 20):
        body += block
        if monotonic() > ends or len(body) > _LARGEST:
            raise TimeoutError("the answer takes too long or is too large")
    return bytes(body)
