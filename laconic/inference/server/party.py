"""A party's own server: it answers the questions that the hub asks when it predicts, and no others."""

import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import NamedTuple
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
from laconic.core.wire import Question, decode_question, encode
from laconic.deploy.consortium import LOG
from laconic.deploy.error_log import ErrorLog
from laconic.deploy.party_config import PartyFile
from laconic.deploy.party_memory import respond
from laconic.errors import PlanError, Refused, StepError
from laconic.inference.bundle import Part
from laconic.inference.predict import ASKED, FindRows, cut_name
from laconic.inference.server.app import CLIENT, Counts, Guarded, read_body, refuse
from laconic.inference.server.guard import LOCAL, Access, Guard, Limits
from laconic.inference.server.rules import (
    DailyLimitReached,
    DailyLimits,
    ServingRules,
    count_asked,
    read_daily_limits,
    rules_of,
)
from laconic.tables.table import Table

PATH = "/answer"


class Denied(NamedTuple):
    """Why there is no answer: an HTTP status, and words that hold nothing of rows."""

    status: int
    words: str


class Answerer:
    """A party that answers from its own rows, one question at a time.

    Args:
        part: its part of the model.
        rows: its rows.
        file: the party's own file, whose rules every answer is held to; None for no rules but the limits of a day.
            Details of errors go to a log beside it, or in the part's folder.
    """

    def __init__(self, part: Part, rows: Table, file: PartyFile | None = None) -> None:
        self.part, self._method, self._lock = part, part.method(), Lock()
        self._use, self._asked = part.use(rows), 0
        self._rules = ServingRules(part.about) if file is None else rules_of(file, part.about, self._method, self._use)
        self._limits = DailyLimits() if file is None else read_daily_limits(file.serve, file.path)
        beside = part.path if file is None else Path(file.path).parent
        self._log = ErrorLog((beside or Path()) / LOG)
        _ = rows.x, rows.places  # All that takes time is done before the first question.

    def hear(self, blob: bytes, client: str = "") -> bytes | Denied:
        """Answer one question of a client, or say why not: by a rule's words, or by a reference to the party's log."""
        try:
            return self.answer(blob, client)
        except DailyLimitReached as problem:
            return Denied(429, problem.words)
        except Refused as problem:
            return Denied(403, problem.words)
        # Whatever else is raised may quote rows, and must neither reach the client nor end this party.
        except (Exception, SystemExit) as problem:
            return Denied(400, self._log.note(problem))

    def answer(self, blob: bytes, client: str = "") -> bytes:
        """Answer one question of a client, if it is one of those that a prediction asks."""
        question = decode_question(blob)
        script = FindRows() if question.step == "find_rows" else self._method
        party, state = self._use.party, self._use.state
        with self._lock:
            # Its randomness is drawn by this count, whatever the hub says.
            self._asked += 1
            mine = msgspec.structs.replace(question, phase="final", round=self._asked)
            count_asked(self._limits, state, party.name, client, *_people(party, question))
            with state.answering(party):
                return respond(script, party, encode(mine), self._rules)


def _people(party: Party, question: Question) -> tuple[int, list[str]]:
    """How many people a question is about, and those among them whom the party does not know."""
    rows, ids = question.payload.get("rows"), question.payload.get("ids")
    if question.step != "find_rows":
        if not isinstance(rows, str) or not rows.startswith(ASKED) or rows not in party.data.cuts:
            raise Refused(
                f"{party.name} answers about people whom it was asked for by their ids just before, and about no other "
                "rows; ask `find_rows` first"
            )
        return len(party.data.cut(rows)), []
    if not isinstance(ids, list) or not all(isinstance(one, str) and "\0" not in one for one in ids):
        raise Refused(f"{party.name} finds rows by a list of ids")
    # Noise and prices may hang on the name: one that the asker chose could come to mean other people.
    if rows != cut_name(ids):
        raise Refused(f"{party.name} calls the rows of people by a name that follows from their ids, and by no other")
    return len(ids), [one for one in ids if one not in party.data.places]


def make_party_app(answerer: Answerer, *, access: Access, limits: Limits) -> Guarded:
    """The application of a party that is not the hub."""

    async def answer_it(request: HttpRequest) -> Response:
        body = await read_body(request, limits.bytes)
        if body is None:
            return refuse(413, f"the question is over {limits.bytes:,} bytes")
        # Certificates do not say here who of those let in asks: a day's limits are then for all of them together.
        client = request.scope[CLIENT] if access.tokens else "certificate"
        said = await to_thread.run_sync(answerer.hear, body, client)
        if isinstance(said, Denied):
            return refuse(*said, {"Retry-After": "86400"} if said.status == 429 else None)
        return Response(said, media_type="application/octet-stream")

    return Guarded(Starlette(routes=[Route(PATH, answer_it, methods=["POST"])]), Guard(access, limits), Counts())


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
