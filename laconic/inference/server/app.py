"""The hub's server as an ASGI application: it predicts from what is stored, or asks the parties."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from anyio import CapacityLimiter, move_on_after, to_thread
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from laconic.core.peers import Carrier
from laconic.core.traffic import WireLog
from laconic.errors import DataError, LaconicError
from laconic.inference.absent import WAYS, AnyAbsent, Measured, Store
from laconic.inference.predict import UNKNOWN, Model, Scores
from laconic.inference.server.guard import LET_IN, Access, Guard, Limits
from laconic.tables.columns import Column
from laconic.tables.table import Table

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counts:
    """What a server did: counters, and a histogram of how long predictions took, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests, by whether they were let in.", "let_in")
        self.people = self._counter("people", "People asked about, by what predicted them.", "answered_by")
        self.bytes = self._counter("bytes", "Bytes that crossed, both ways.", "party")
        self.absences = self._counter("absences", "Questions that a party did not answer.", "party")
        words = "Seconds that a request for predictions took."
        self.seconds = Histogram("laconic_predict_seconds", words, buckets=_EDGES, registry=self.registry)

    def _counter(self, name: str, words: str, label: str) -> Counter:
        return Counter(f"laconic_{name}", words, [label], registry=self.registry)


@dataclass(frozen=True)
class Live:
    """Parties that can be asked while the server runs.

    Attributes:
        rows: the hub's own rows, among which people are looked up.
        carrier: how to reach the others.
        deadline: seconds to wait for each answer; who is later is absent.
    """

    rows: Table
    carrier: Carrier
    deadline: float
    lock: Lock = field(default_factory=Lock)
    log: WireLog = field(default_factory=WireLog)


@dataclass(frozen=True)
class Answering:
    """A model ready to answer requests, from several threads.

    Attributes:
        live: parties to ask about people whom nothing is stored about; None to ask nobody.
        counts: what was done.
        known: scores of everybody who is stored, by what was done about absent parties.
    """

    model: Model
    live: Live | None = None
    counts: Counts = field(default_factory=Counts)
    lock: Lock = field(default_factory=Lock)
    known: dict[str, Scores] = field(default_factory=dict)

    def answer(self, wanted: "Request", absent: AnyAbsent) -> Scores:
        """Scores for whomever a request names."""
        return self.predict(wanted.ids or [], absent) if wanted.rows is None else self.predict_rows(wanted.rows)

    def predict_rows(self, rows: "Sequence[Mapping[str, Cell]]") -> Scores:
        """Scores for rows that the request brings."""
        from pandas import DataFrame

        columns = self.model.part.about.columns
        for place, row in enumerate(rows):
            _check_cells(place + 1, row, columns)
        notes: list[str] = []
        wanted = {column.name: [row[column.name] for row in rows] for column in columns}
        scores = self.model.predict(DataFrame(wanted, dtype=object), notes)
        if notes:
            raise DataError(f"{notes[0]}; nothing was predicted: correct the cell, or give null if it is not known")
        self.counts.people.labels("all").inc(len(rows))
        return scores

    def predict(self, ids: Sequence[str], absent: AnyAbsent) -> Scores:
        """Scores for these people, in this order: from what is stored if everybody's answers are, else by asking."""
        scores = self._stored(ids, absent)
        if self.live is not None:
            scores = self._asked_anew(self.live, scores, absent)
        for how in dict.fromkeys(scores.how):
            self.counts.people.labels(how).inc(scores.how.count(how))
        return scores

    def get_ready(self, absent: AnyAbsent) -> Scores:
        """Everybody's scores from what is stored, worked out once: it does not change while the server runs."""
        with self.lock:
            if absent.word not in self.known:
                store = self.model.part.store
                everybody = [] if store is None else sorted({*store.people, *_heard_of(store)})
                self.known[absent.word] = (
                    self.model.predict_stored(everybody, absent=absent) if everybody else self._nothing(())
                )
            return self.known[absent.word]

    def _stored(self, ids: Sequence[str], absent: AnyAbsent) -> Scores:
        known, nothing = self.get_ready(absent), self._nothing(ids)
        there = [place for place, one in enumerate(ids) if one in known.places]
        if len(there) == len(ids):
            return known.take(ids)
        found = nothing.with_others(there, known.take([ids[place] for place in there])) if there else nothing
        return self._with_own(found, absent)

    def _with_own(self, scores: Scores, absent: AnyAbsent) -> Scores:
        """The scores, with those of the hub's own people whom no party shares, as if all parties were absent.

        They are worked out when asked for only: a hub may have many more of them than it shares.
        """
        store = self.model.part.store
        if store is None or not store.own.columns:
            return scores
        wanted = {one for one, how in zip(scores.ids, scores.how, strict=True) if how == UNKNOWN}
        places = [at for at, one in enumerate(scores.ids) if one in wanted and one in store.own.places]
        if not places:
            return scores
        with self.lock:  # What is fitted for absent parties is fitted once.
            own = self.model.predict_stored([scores.ids[at] for at in places], absent=absent)
        return scores.with_others(places, own)

    def _nothing(self, ids: Sequence[str]) -> Scores:
        task, count = self.model.task, len(ids)
        nothing = np.full(task.shape(count), np.nan)
        return Scores(tuple(ids), nothing, ((),) * count, (UNKNOWN,) * count, task)

    def _asked_anew(self, live: Live, scores: Scores, absent: AnyAbsent) -> Scores:
        """The scores, with those that not all parties had a say in made anew by asking, if the hub knows the people."""
        known = set(scores.ids) if not live.rows.columns else live.rows.places.keys()
        places = [at for at, how in enumerate(scores.how) if how != "all" and scores.ids[at] in known]
        if not places:
            return scores
        return scores.with_others(places, self._ask(live, [scores.ids[at] for at in places], absent))

    def _ask(self, live: Live, ids: list[str], absent: AnyAbsent) -> Scores:
        with live.lock:
            try:
                # One log for all requests: its rounds go on counting, so that randomness is fresh for each.
                return self.model.ask(live.rows, live.carrier, ids, absent=absent, log=live.log, deadline=live.deadline)
            finally:
                for one in live.log.crossings:
                    self.counts.bytes.labels(one.party).inc(one.down + (one.up or 0))
                    if one.up is None:
                        self.counts.absences.labels(one.party).inc()
                live.log.crossings.clear()


def _check_cells(place: int, row: "Mapping[str, Cell]", columns: Sequence[Column]) -> None:
    """Refuse a row without one of these cells, or with anything but a number among numbers."""
    for column in columns:
        if column.name not in row:
            raise DataError(f"row {place} has no cell {column.name!r}; give null if it is not known")
        cell = row[column.name]
        if column.kind == "numeric" and isinstance(cell, str | bool):
            raise DataError(f"row {place}, {column.name!r}: {cell!r} is no number; give null if it is not known")


def _heard_of(store: Store) -> set[str]:
    """People whom parties have answered about, if the hub can predict them without columns of its own."""
    return set() if store.own.columns else {one for answers in store.answers.values() for one in answers.ids}


Way = Literal["best", "zeros", "gaps", "refit", "solo", "abstain"]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


Cell = str | bool | int | float | None


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to predict: people by their ids, or rows by their cells, one of the two.

    Attributes:
        ids: the people, in the order in which answers come.
        absent: what to do about parties that are not there; as the server was started if left out.
        rows: cells by column, for a model that has to ask nobody; answers are named by place, from 1.
    """

    ids: Annotated[list[Id], msgspec.Meta(min_length=1)] | None = None
    absent: Way | None = None
    rows: Annotated[list[dict[str, Cell]], msgspec.Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse a request that names nobody, and one that names some in both ways."""
        if (self.ids is None) == (self.rows is None):
            raise ValueError("give ids, or rows, one of the two")

    @property
    def count(self) -> int:
        """How many predictions are asked for."""
        return len(self.ids or self.rows or ())


class Answer(msgspec.Struct, frozen=True):
    """One person's score.

    Attributes:
        prediction: the likeliest class, or the number; null if there is no answer.
        probabilities: of each class; null for numbers, or if there is no answer.
        answered_by: `all`, what was done about absent parties, or why there is no answer.
        parties: who, beside the hub, had a say.
    """

    id: str
    prediction: str | float | None
    probabilities: dict[str, float] | None
    answered_by: str
    parties: list[str]


class Answers(msgspec.Struct, frozen=True):
    """Everybody's score, in the order asked."""

    label: str
    scores: list[Answer]


class Health(msgspec.Struct, frozen=True):
    """Whether the server can answer, and from what."""

    status: Literal["ok"]
    method: str
    label: str
    people: int
    asks: list[str]


class Problem(msgspec.Struct, frozen=True):
    """Why there is no answer, and what to do."""

    error: str


_TROUBLE = {
    "400": "The request is not as described.",
    "401": "No token, or one that is not known.",
    "413": "The request is larger than allowed.",
    "429": "Too many requests; wait as long as Retry-After says.",
    "503": "The server is busy, or the parties it needs are not there.",
}

_ANYWHERE = ("401", "429", "503")
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def describe(limits: Limits, *, tokens: bool, columns: Sequence[Column] = ()) -> dict[str, Any]:
    """The OpenAPI description of the hub's server; it takes rows of these columns, if the model has to ask nobody."""
    kinds = (Request, Answers, Health, Problem)
    refs, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    request, answers, health, problem = refs
    _describe_request(parts["Request"], limits.ids, columns)
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    predict = _operation("predict", "Predict people by their ids, or rows by their cells.", _json(answers), problem)
    paths = {
        "/predict": {"post": predict | {"requestBody": body}},
        "/health": {"get": _operation("health", "Whether the server can answer.", _json(health), problem, _ANYWHERE)},
        "/metrics": {"get": _operation("metrics", "Counters for Prometheus.", _TEXT, problem, _ANYWHERE)},
        "/openapi.json": {"get": _operation("openapi", "This page.", _json({"type": "object"}), problem, _ANYWHERE)},
    }
    info = {"title": "Laconic predictions", "version": "1"}
    found: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": parts}}
    if tokens:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _describe_request(request: dict[str, Any], most: int, columns: Sequence[Column]) -> None:
    """Say that a request has ids or rows, how many, and which cells a row has."""
    cell = {"type": ["string", "number", "boolean", "null"]}
    cells = {one.name: {"type": ["number", "null"]} if one.kind == "numeric" else cell for one in columns}
    row = {"type": "object", "properties": cells, "required": list(cells), "additionalProperties": cell}
    ids = next(one for one in request["properties"]["ids"]["anyOf"] if one.get("type") == "array")
    request["properties"]["ids"] = ids | {"maxItems": most}
    request["properties"]["rows"] = {"type": "array", "items": row, "minItems": 1, "maxItems": most}
    request["oneOf"] = [{"required": ["ids"]}, {"required": ["rows"]}]
    if not columns:
        del request["properties"]["rows"], request["oneOf"]
        request["required"] = ["ids"]


def _operation(
    name: str, words: str, answer: dict[str, Any], problem: dict[str, Any], trouble: tuple[str, ...] = tuple(_TROUBLE)
) -> dict[str, Any]:
    replies = {code: {"description": _TROUBLE[code], "content": _json(problem)} for code in trouble}
    replies["200"] = {"description": "The answer.", "content": answer}
    return {"operationId": name, "summary": words, "responses": replies}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_THREADS = 4
_PATIENCE = 10.0
CLIENT = "laconic.client"
"""Where the scope of a request says who asks."""


def make_app(answering: Answering, *, absent: AnyAbsent, access: Access, limits: Limits) -> "Guarded":
    """The application: predictions, health, metrics and its own description, none of them without authorisation."""
    answering.get_ready(absent)
    service = _Service(answering, absent, Guard(access, limits), limits)
    model = answering.model
    columns = model.part.about.columns if model.asks_nobody else ()
    described = _json_of(describe(limits, tokens=bool(access.tokens), columns=columns))

    async def describe_it(_: HttpRequest) -> Response:
        return described

    routes = [
        Route("/predict", service.predict, methods=["POST"]),
        Route("/health", service.health, methods=["GET"]),
        Route("/metrics", service.metrics, methods=["GET"]),
        Route("/openapi.json", describe_it, methods=["GET"]),
    ]
    return Guarded(Starlette(routes=routes), service.guard, answering.counts)


class Guarded:
    """An application that answers nobody who may not ask, nor anybody who asks too often."""

    def __init__(self, within: Starlette, guard: Guard, counts: Counts) -> None:
        self._within, self._guard, self._counts = within, guard, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._within(scope, receive, send)
            return
        client = scope[CLIENT] = self._guard.client(dict(scope))
        if client is not None and LET_IN in scope:
            scope[LET_IN]()
        refusal = self._refuse(client)
        self._counts.requests.labels("no" if refusal else "yes").inc()
        await (refusal or self._within)(scope, receive, send)

    def _refuse(self, client: str | None) -> Response | None:
        if client is None:
            # Closed, so that the rest of a request that was not let in need not be waited for.
            headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
            return refuse(401, "give a token: Authorization: Bearer ...", headers)
        return _too_often(self._guard.requests.spend(client))


class _Service:
    def __init__(self, answering: Answering, absent: AnyAbsent, guard: Guard, limits: Limits) -> None:
        self.answering, self.absent, self.guard, self.limits = answering, absent, guard, limits
        self._threads = CapacityLimiter(_THREADS)

    async def predict(self, request: HttpRequest) -> Response:
        started = perf_counter()
        body = await read_body(request, self.limits.bytes)
        if body is None:
            return refuse(413, f"the body is over {self.limits.bytes:,} bytes; ask about fewer people at once")
        try:
            wanted = msgspec.json.decode(body, type=Request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            return refuse(400, f"the body is not as described in /openapi.json: {problem}")
        if wanted.count > self.limits.ids:
            what = "ids" if wanted.rows is None else "rows"
            return refuse(400, f"{wanted.count:,} {what} at once are over the limit of {self.limits.ids:,}")
        refusal = _too_often(self.guard.ids.spend(request.scope[CLIENT], wanted.count))
        if refusal is not None:
            return refusal
        way = self.absent
        if wanted.absent is not None:
            way = next(one for one in (Measured(), *WAYS) if one.word == wanted.absent)
        try:
            answer = partial(self.answering.answer, wanted, way)
            scores = await to_thread.run_sync(answer, limiter=self._threads)
        except DataError as problem:
            return refuse(400, str(problem))
        except LaconicError as problem:
            return refuse(503, str(problem))
        self.answering.counts.seconds.observe(perf_counter() - started)
        return _json_of(Answers(scores.task.label, as_answers(scores)))

    async def health(self, request: HttpRequest) -> Response:
        model, live = self.answering.model, self.answering.live
        people = 0 if model.part.store is None else len(model.part.store.people)
        asks = [] if live is None else list(live.carrier.names)
        return _json_of(Health("ok", type(model.method).__name__, model.task.label, people, asks))

    async def metrics(self, request: HttpRequest) -> Response:
        return Response(generate_latest(self.answering.counts.registry), media_type="text/plain; version=0.0.4")


def as_answers(scores: Scores) -> list[Answer]:
    """Scores as they are sent: numbers that JSON has, and null where there is no answer."""
    shares = scores.probabilities.tolist() if scores.task.of_classes else None
    found = []
    for place, (one, decision) in enumerate(zip(scores.ids, scores.decisions, strict=True)):
        by_class = None
        if shares is not None and decision is not None:
            by_class = dict(zip(scores.task.classes, shares[place], strict=True))
        found.append(Answer(one, decision, by_class, scores.how[place], list(scores.present[place])))
    return found


async def read_body(request: HttpRequest, most: int) -> bytes | None:
    """The body of a request, or None if it is larger than allowed; no more than that is ever held.

    One that does not come within ten seconds counts as empty.
    """
    body = bytearray()
    with move_on_after(_PATIENCE):
        async for block in request.stream():
            body += block
            if len(body) > most:
                return None
        return bytes(body)
    return b""


def refuse(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    """Why there is no answer, as JSON."""
    return Response(msgspec.json.encode(Problem(words)), status, headers, media_type="application/json")


def _json_of(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _too_often(wait: float) -> Response | None:
    """A refusal that says how many seconds to wait; None for none."""
    seconds = max(1, round(wait + 0.5))
    again = {"Retry-After": str(seconds)}
    return refuse(429, f"too many requests; try again in {seconds} s", again) if wait else None
