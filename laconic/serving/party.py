"""A party's own server: it answers the questions that the hub asks when it predicts, and no others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import msgspec
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from laconic.core.errors import LaconicError, StepError
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.script import answer
from laconic.core.table import Table
from laconic.core.wire import decode_question, encode
from laconic.model.asking import FindRows
from laconic.model.part import Part, save_part
from laconic.privacy.told import spent
from laconic.serving.app import Guarded, read_body
from laconic.serving.counts import Counts
from laconic.serving.guard import Access, Guard
from laconic.serving.limits import Limits
from laconic.serving.shapes import Problem
from laconic.simulation import on_threads

PATH = "/answer"


@dataclass
class Answerer:
    """A party that answers from its own rows, one question at a time.

    Attributes:
        part: its part of the model. rows: its rows.
        party: the party itself, with what it remembers and its ledger.
        asked: how many questions it was asked; its chance is by this count, whatever the hub says.
    """

    part: Part
    rows: Table
    party: Party = field(init=False)
    method: Method = field(init=False)
    asked: int = 0
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Begin with fresh chance, and with all that takes time done before the first question."""
        self.method = self.part.method()
        self.party = self.part.party(self.rows)
        self.part.note_use()
        with on_threads(1):
            _ = self.rows.x, self.rows.places

    def answer(self, blob: bytes) -> bytes:
        """Answer one question, if it is one of those that a prediction asks."""
        question = decode_question(blob)
        if question.step not in (self.part.about.steps or ()):
            raise StepError(
                f"{self.part.about.party} does not answer `{question.step}` after training; it answers "
                f"{', '.join(self.part.about.steps or ())}"
            )
        script = FindRows() if question.step == "find_rows" else self.method
        with self.lock, on_threads(1):
            self.asked += 1
            mine = msgspec.structs.replace(question, phase="final", round=self.asked)
            before = spent(self.party)
            found = answer(script, self.party, encode(mine))
            # Before it leaves: after a crash the same row would else be told of again as if for the first time.
            if spent(self.party) != before:
                self.save()
            return found

    def save(self) -> None:
        """Write down what was given away, and what is remembered."""
        changed = replace(self.part, memory=self.party.memory, ledger=Ledger(self.party.ledger.entries))
        save_part((self.part.path or Path()).parent, changed)


def make_party_app(answerer: Answerer, *, access: Access, limits: Limits) -> Guarded:
    """The application of a party that is not the hub."""

    async def answer_it(request: HttpRequest) -> Response:
        body = await read_body(request, limits.bytes)
        if body is None:
            return _trouble(413, f"the question is over {limits.bytes:,} bytes")
        try:
            blob = await to_thread.run_sync(answerer.answer, body)
        except (LaconicError, ValueError) as problem:
            return _trouble(400, str(problem))
        return Response(blob, media_type="application/octet-stream")

    @asynccontextmanager
    async def save_at_the_end(_: Starlette) -> AsyncIterator[None]:
        yield
        answerer.save()

    app = Starlette(routes=[Route(PATH, answer_it, methods=["POST"])], lifespan=save_at_the_end)
    return Guarded(app, Guard(access, limits), Counts())


def _trouble(status: int, words: str) -> Response:
    return Response(msgspec.json.encode(Problem(words)), status, media_type="application/json")
