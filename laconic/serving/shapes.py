"""What requests and answers look like, and the OpenAPI description of both."""

from typing import Annotated, Any, Literal

import msgspec

from laconic.serving.limits import Limits

Way = Literal["zeros", "refit", "solo", "abstain"]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to predict.

    Attributes:
        ids: the people, in the order in which answers come.
        absent: what to do about parties that are not there; as the server was started if left out.
    """

    ids: Annotated[list[Id], msgspec.Meta(min_length=1)]
    absent: Way | None = None


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


def describe(limits: Limits, *, tokens: bool) -> dict[str, Any]:
    """The OpenAPI description of the hub's server."""
    kinds = (Request, Answers, Health, Problem)
    refs, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    request, answers, health, problem = refs
    parts["Request"]["properties"]["ids"]["maxItems"] = limits.ids
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    predict = _operation("predict", "Predict people by their ids.", _json(answers), problem)
    paths = {
        "/predict": {"post": predict | {"requestBody": body}},
        "/health": {"get": _operation("health", "Whether the server can answer.", _json(health), problem, _ANYWHERE)},
        "/metrics": {"get": _operation("metrics", "Counters for Prometheus.", _TEXT, problem, _ANYWHERE)},
        "/openapi.json": {"get": _operation("openapi", "This page.", _json({"type": "object"}), problem, _ANYWHERE)},
    }
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Laconic predictions", "version": "1"},
        "paths": paths,
        "components": {"schemas": parts},
    }
    if tokens:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
    return found


def _operation(
    name: str, words: str, answer: dict[str, Any], problem: dict[str, Any], trouble: tuple[str, ...] = tuple(_TROUBLE)
) -> dict[str, Any]:
    bad = {code: {"description": _TROUBLE[code], "content": _json(problem)} for code in trouble}
    return {
        "operationId": name,
        "summary": words,
        "responses": {"200": {"description": "The answer.", "content": answer}} | bad,
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
