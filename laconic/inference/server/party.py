"""A party's own server: it answers the questions that the hub asks when it predicts, and no others."""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from time import monotonic
from urllib.parse import urlsplit

import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.step import Script
from laconic.core.wire import decode_question, encode, read_heading
from laconic.deploy.party_memory import respond
from laconic.errors import LaconicError, PlanError, StepError
from laconic.inference.bundle import Part
from laconic.inference.predict import FindRows
from laconic.inference.server.app import Counts, Guarded, read_body, refuse
from laconic.inference.server.guard import LOCAL, Access, Guard, Limits
from laconic.privacy.row_releases import spent
from laconic.tables.table import Table

PATH = "/answer"


class Answerer:
    """A party that answers from its own rows, one question at a time.

    Attributes:
        part: its part of the model.
        party: the party itself, with what it remembers and its ledger.
        asked: how many questions it was asked; its randomness is drawn by this count, whatever the hub says.
    """

    def __init__(self, part: Part, rows: Table) -> None:
        self.part, self.party, self.asked = part, part.party(rows), 0
        self._method, self._lock = part.method(), Lock()
        part.note_use()
        self._before = spent(self.party)
        _ = rows.x, rows.places  # All that takes time is done before the first question.

    def answer(self, blob: bytes) -> bytes:
        """Answer one question, if it is one of those that a prediction asks."""
        question = decode_question(blob)
        script = FindRows() if question.step == "find_rows" else self._method
        with self._lock:
            mine = msgspec.structs.replace(question, phase="final", round=self.asked + 1)
            return respond(script, self.party, encode(mine), self)

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question that no prediction asks."""
        step, steps = read_heading(blob).step, self.part.about.steps or ()
        if step not in steps:
            raise StepError(
                f"{self.part.about.party} does not answer `{step}` after training; it answers {', '.join(steps)}"
            )
        self.asked += 1
        self._before = spent(party)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Write down what an answer costs before it leaves: after a crash, the same row would be released again."""
        if spent(party) != self._before:
            self.save()

    def save(self) -> None:
        """Write down what was given away, and what is remembered."""
        self.part.keep(self.party)


def make_party_app(answerer: Answerer, *, access: Access, limits: Limits) -> Guarded:
    """The application of a party that is not the hub."""

    async def answer_it(request: HttpRequest) -> Response:
        body = await read_body(request, limits.bytes)
        if body is None:
            return refuse(413, f"the question is over {limits.bytes:,} bytes")
        try:
            blob = await to_thread.run_sync(answerer.answer, body)
        except (LaconicError, ValueError) as problem:
            return refuse(400, str(problem))
        return Response(blob, media_type="application/octet-stream")

    @asynccontextmanager
    async def save_at_the_end(_: Starlette) -> AsyncIterator[None]:
        yield
        answerer.save()

    app = Starlette(routes=[Route(PATH, answer_it, methods=["POST"])], lifespan=save_at_the_end)
    return Guarded(app, Guard(access, limits), Counts())


_DEADLINE = 10.0
_LARGEST = 1 << 30


class Addresses:
    """Parties by their addresses.

    A party that cannot be reached, or takes longer than the deadline, is absent; one that refuses is an error.
    """

    def __init__(self, urls: Mapping[str, str], token: str, trusted: ssl.SSLContext | None = None) -> None:
        """Note the address of each party, the token they know the hub by, and whose certificates are trusted."""
        for name, url in urls.items():
            parts = urlsplit(url)
            local = parts.hostname in LOCAL
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
