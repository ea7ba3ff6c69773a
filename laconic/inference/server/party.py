"""A party's own server: it answers the questions that the hub asks when it predicts, and no others.

What may leave is up to the rules of its `party.toml`, and to limits per client.
"""

import secrets
import ssl
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from laconic.core.ledger import Entry, Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Script, steps_of
from laconic.core.wire import Question, decode_question, encode, read_heading
from laconic.deploy.party_account import EpsilonAccount, Limit, open_account
from laconic.deploy.party_files import LOG, PartyFile
from laconic.deploy.party_memory import respond
from laconic.deploy.policy import NEW, Gatekeeper, Policy, read_policy
from laconic.deploy.responder import ErrorLog
from laconic.errors import PlanError, Refused, StepError
from laconic.inference.bundle import About, Part, PartInUse
from laconic.inference.bundle_files import PartState
from laconic.inference.predict import ASKED, FindRows, cut_name
from laconic.inference.server.app import CLIENT, Counts, Guarded, read_body, refuse
from laconic.inference.server.guard import LOCAL, Access, Guard, Limits
from laconic.plan.keys import to_settings
from laconic.tables.table import Table
from laconic.values import Settings

_DAY, _LINEAGE = "day", "account"


class DailyLimits(Settings, frozen=True, tag=False):
    """The `[serve]` table of `party.toml`: how much one client may ask on one day.

    Attributes:
        ids_per_day: the most people that its questions may be about; a question asked again counts again.
        unknown_ids_per_day: the most different people among them whom the party does not know. With one more, the
            client gets no answer at all until the next day: guessing does not list the party's customers.
    """

    ids_per_day: int = 10_000
    unknown_ids_per_day: int = 1_000

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        if self.ids_per_day < 1 or self.unknown_ids_per_day < 0:
            raise ValueError("ids_per_day must be above 0, and unknown_ids_per_day 0 or more")


def read_daily_limits(plain: Mapping[str, Any], path: str = "party.toml") -> DailyLimits:
    """The limits in a `[serve]` table."""
    try:
        return to_settings(dict(plain), DailyLimits)
    except PlanError as problem:
        raise PlanError(f"{path}, [serve]: {problem}") from problem


class DailyLimitReached(Refused):
    """A client has asked enough for today; tomorrow it is answered again."""


class _Day(msgspec.Struct):
    """What one client has asked on one day; `unknown` are marks of eight bytes for each person."""

    day: str
    asked: int = 0
    unknown: bytes = b""
    closed: bool = False


def count_asked(
    limits: DailyLimits, state: PartState, party: str, client: str, people: int, unknown: Collection[str]
) -> None:
    """Count what a client asks, and refuse what is too much; in the part's folder, for all its servers together.

    Args:
        people: how many the question is about.
        unknown: those among them whom the party does not know.
    """
    key = blake2b(client.encode(), digest_size=16).hexdigest()
    with state.writing():
        kept = state.get(_DAY, key)
        day, today = msgspec.convert(kept, _Day) if kept else _Day(""), datetime.now(UTC).date().isoformat()
        if today > day.day:  # A clock that is put back gives nobody a new day.
            day = _Day(today)
        refused = _refuse(limits, day, party, people, unknown)
        state.put(_DAY, key, msgspec.structs.asdict(day))
    if refused:
        raise DailyLimitReached(refused)


def _refuse(limits: DailyLimits, day: _Day, party: str, people: int, unknown: Collection[str]) -> str:
    """Why a question is too much for today; nothing if it is not, and then the day has it."""
    again = "ask again tomorrow, or have [serve] in its party.toml allow more"
    over = (
        f"{party} answers no more today: it was asked about more than "
        f"unknown_ids_per_day = {limits.unknown_ids_per_day:,} people whom it does not know; {again}"
    )
    if day.closed:
        return over
    if day.asked + people > limits.ids_per_day:
        return f"{party} does not answer about more than ids_per_day = {limits.ids_per_day:,} people; {again}"
    day.asked += people
    marks = {day.unknown[at : at + 8] for at in range(0, len(day.unknown), 8)}
    marks |= {blake2b(one.encode(), digest_size=8).digest() for one in unknown}
    if len(marks) > limits.unknown_ids_per_day:
        day.closed = True
        return over
    day.unknown = b"".join(sorted(marks))
    return ""


class ServingRules:
    """A party's rules while it serves: the questions of predictions, and what `[allow]` says of their answers.

    Args:
        about: what the part says of itself.
        gate: the rules of the party's file, and what this model has released so far counts; None for no such rules.
        base: releases that another run in the account has already.
    """

    def __init__(self, about: About, gate: Gatekeeper | None = None, base: Ledger | None = None) -> None:
        self._about, self._gate, self._base = about, gate, base or Ledger()

    def admit(self, script: Script, party: Party, blob: bytes) -> None:
        """Refuse a question that no prediction asks, or that the party's file does not allow."""
        step, steps = read_heading(blob).step, self._about.steps or ()
        if step not in steps:
            raise Refused(f"{party.name} does not answer that after training; it answers {', '.join(steps)}")
        # `find_rows` is no step of a method, and its answer bears no noise: the limits of a day are for it.
        if self._gate is not None and isinstance(script, Method):
            self._gate.admit(script, self._counted(party), blob)

    def release(self, script: Script, party: Party, blob: bytes, reply: bytes) -> None:
        """Refuse an answer, or write what it costs to the party's account before it leaves."""
        if self._gate is not None and isinstance(script, Method):
            self._gate.release(script, self._counted(party), blob, reply)

    def _counted(self, party: Party) -> Party:
        """The party with what this run of the account counts."""
        return Party(party.name, party.data, 0, party.memory, since(party.ledger, self._base))


def rules_of(file: PartyFile, about: About, method: Method, use: PartInUse) -> ServingRules:
    """The rules of a party's file for a part in use; refuses a part whose questions they do not allow at all."""
    if file.name != about.party:
        raise PlanError(
            f"{file.path} is of {file.name}, but the part of the model is {about.party}'s; name its own file"
        )
    allowed, account = read_policy(file.allow, file.path), open_account(file)
    if allowed.rows is not None and NEW not in allowed.rows:
        raise Refused(
            f"{file.name} does not allow answers about rows {NEW!r}, which a model in use asks for; [allow] in "
            f"{file.path} lists rows: {', '.join(allowed.rows) or 'none'}"
        )
    run, base = _count_training(account.spent, allowed, use)
    rules = ServingRules(about, Gatekeeper(allowed, account, run, about.hub, about.peers), base)
    for step in steps_of(method).keys() & set(about.steps or ()):
        rules.admit(method, use.party, encode(Question(step, "final", 0, {})))
    return rules


def _count_training(account: EpsilonAccount, allowed: Policy, use: PartInUse) -> tuple[str, Ledger]:
    """The run under which the account has this part's releases, and releases that it has under another one.

    A folder that was put back from a backup knows less than the account: what it releases from then on is counted as
    another run, and nothing in the account goes down.
    """
    limit = None if allowed.max_epsilon is None else Limit(use.party.name, allowed.max_epsilon, allowed.delta)
    with use.state.answering(use.party):
        ledger = use.party.ledger
        kept = use.state.get(_LINEAGE) or {"run": "", "base": []}
        run, base = kept["run"], Ledger(tuple(msgspec.convert(kept["base"], list[Entry])))
        spent = account.epsilon(allowed.delta)
        if not run or account.with_run(run, since(ledger, base), allowed.delta) < spent:
            base = ledger if run else Ledger()
            run = f"model {secrets.token_hex(8)}"
            kept = {"run": run, "base": list(msgspec.to_builtins(base.entries))}
            use.state.put(_LINEAGE, "", kept)
        account.write(run, since(ledger, base), limit)
        return run, Ledger(base.entries)


def since(ledger: Ledger, base: Ledger) -> Ledger:
    """What a ledger has more than an earlier one."""
    before = {(one.phase, one.step, one.words, one.noise): one for one in base.entries}
    found = []
    for entry in ledger.entries:
        old = before.get((entry.phase, entry.step, entry.words, entry.noise))
        if old is None:
            found.append(entry)
        elif entry.times > old.times:
            found.append(msgspec.structs.replace(entry, times=entry.times - old.times, bytes=entry.bytes - old.bytes))
    return Ledger(tuple(found))


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
