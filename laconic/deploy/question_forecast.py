"""The questions of a run in their order, as far as its scripts declare them: what a party can answer unasked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from laconic.align.alignment import Align
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.step import Ask, Opening
from laconic.core.wire import Heading, Question, encode, read_heading
from laconic.deploy.homecoming import Homecoming
from laconic.deploy.policy import SCORED
from laconic.deploy.transports.envelopes.cover import Asked
from laconic.tables.table import Table

SERVER = "server"
"""What a hub without rows is called."""


@dataclass(frozen=True)
class PredictedQuestion:
    """A question that a party can answer before it is asked, as the hub will write it."""

    script: Asked
    blob: bytes


class Due(NamedTuple):
    """A question that will come, as the hub will write it; its blob is None if it depends on somebody's rows."""

    script: Asked
    heading: Heading
    blob: bytes | None


@dataclass(frozen=True)
class QuestionForecast:
    """All that the order of a run's questions depends on; no align for rows that correspond already.

    `holder` has the labels where the hub is a server; empty if the hub has them. `home` is how the model comes home to
    parties that score it; None if the hub predicts.
    """

    method: Method
    align: Align | None
    hub: str
    seed: int
    look_every: int | None = None
    holder: str = ""
    home: Homecoming | None = None

    def opening(self) -> tuple[PredictedQuestion, ...]:
        """What a party is asked from the start, up to the first question that must be waited for."""
        return _known(self.dues())

    def following(self, question: bytes, confirmed: int | None) -> tuple[PredictedQuestion, ...]:
        """The questions after a given one that can be answered with it, as they wait for nothing else.

        Args:
            question: what the hub asked last.
            confirmed: in which round of phase `align` the matched rows were first confirmed; None if it is not known.
        """
        heading = read_heading(question)
        # How many questions it takes to match rows depends on how many there are.
        counted = self.align is not None and self.align.declares_all
        if not counted and (heading.phase == "align" or (self.align is not None and confirmed is None)):
            return ()
        dues = self.dues() if counted else self.dues(confirmed or 0, matched=True)
        found = [at for at, due in enumerate(dues) if due.heading == heading]
        return _known(dues[found[0] + 1 :]) if found else ()

    def predicting(self, phase: str, rows: str) -> tuple[PredictedQuestion, ...]:
        """What a party is asked when the fitted model predicts a cut, in a phase of its own."""
        return _known(self.predict_dues(phase, rows))

    def predict_dues(self, phase: str, rows: str) -> tuple[Due, ...]:
        """All questions that are declared for predicting a cut, in a phase of its own."""
        return _numbered([("method", phase, self.method.predict_opening(rows))])

    def dues(self, confirmed: int = 0, *, matched: bool = False) -> tuple[Due, ...]:
        """All questions that are declared, in their order.

        Args:
            confirmed: the last round of phase `align` before these.
            matched: leave out how rows are matched and confirmed before fitting.
        """
        return _numbered(self._parts(matched=matched), confirmed)

    @property
    def whole(self) -> bool:
        """Whether fitting and predicting ask nothing beyond what is declared."""
        asked = ("ends", "trains") if self.look_every is None else ("ends",)
        return self.method.fit_opening().then in asked and self.method.predict_opening(SCORED).then == "ends"

    def _parts(self, *, matched: bool) -> Iterator[tuple[Asked, str, Opening]]:
        """The functions of a run in their order, each with its script and phase."""
        if self.align is not None and not matched:
            hub = Party(self.hub, Table.without_rows(self.hub), self.seed)
            hub.turn("align", 0, self.holder)
            yield "align", "align", self.align.match_opening(hub.rng, server=self.method.server)
            yield "align", "align", self.align.confirm_opening()
        server = Party(self.hub, Table.without_rows(self.hub), self.seed)
        server.turn("fit", 0)
        fit = self.method.fit_opening_from(server.rng)
        yield "method", "fit", fit
        if self.look_every is not None:
            yield "method", "look", self.method.predict_opening(SCORED)
        # How often the model is looked at after that depends on how often `fit` yields.
        if fit.then == "yields" or (fit.then == "trains" and self.look_every is not None):
            return
        if self.align is not None:
            yield "align", "align", self.align.confirm_opening()
        if self.home is not None:
            yield "home", "final", Opening((Ask.later(self.home.take_model),), then="ends")
        else:
            yield "method", "final", self.method.predict_opening(SCORED)


def _numbered(parts: Iterable[tuple[Asked, str, Opening]], confirmed: int = 0) -> tuple[Due, ...]:
    """The questions of some parts with their rounds, up to a part after which nobody knows what comes."""
    rounds = {"align": confirmed}
    dues: list[Due] = []
    for script, phase, opening in parts:
        for ask in opening.asks:
            rounds[phase] = number = rounds.get(phase, 0) + 1
            blob = None if ask.payload is None else encode(Question(ask.step, phase, number, dict(ask.payload)))
            dues.append(Due(script, Heading(ask.step, phase, number), blob))
        if opening.then == "unknown":
            break
    return tuple(dues)


def _known(dues: Sequence[Due]) -> tuple[PredictedQuestion, ...]:
    known = takewhile(lambda due: due.blob is not None, dues)
    return tuple(PredictedQuestion(due.script, due.blob or b"") for due in known)
