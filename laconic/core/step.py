"""Scripts and steps: what a party may be asked, and the one place where every question ends."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from laconic.core.ledger import entry_of, unwrap, words_of
from laconic.core.party import Party
from laconic.core.wire import decode_question, describe, encode
from laconic.errors import Refused, StepError
from laconic.threads import limit_threads
from laconic.values import Settings

Step = Callable[..., Any]
F = TypeVar("F", bound=Step)
_MARK = "_laconic_declared"


class Script(Settings, frozen=True):
    """Frozen settings with steps: what the hub may ask of a party."""

    long_products: ClassVar[bool] = False
    """Whether steps spend their time in long matrix products, so that several parties are worth a core each."""

    long_training: ClassVar[bool] = False
    """Whether parties train models by themselves for long, so that many of them are worth a process per core."""

    @property
    def allowed_as(self) -> str:
        """The name by which a party allows it, among the `methods` of its rules."""
        return type(self).__name__


class Declared(msgspec.Struct, frozen=True):
    """What a step says of itself, in words for a data owner; None means nothing made from rows crosses that way."""

    takes: str | None
    gives: str | None
    by_row: bool = True
    hides: str = ""


def step(*, takes: str | None, gives: str | None, by_row: bool = True, hides: str = "") -> Callable[[F], F]:
    """Mark a method of a script as a question that a party may be asked.

    Args:
        takes: what the question brings that was made from the hub's rows or labels. None: it brings public words and
            whole numbers only, and this is enforced.
        gives: what the answer gives away of this party's rows. None: nothing, and this is enforced. Say `raw columns`
            if that is what leaves: `check_method` looks for them everywhere else.
        by_row: whether what it gives about a cut has one row for each of the cut's rows. The hub refuses other answers
            before it keeps them; say False if this one is of another shape.
        hides: what cryptography keeps from whoever receives it: what, and from whom. Empty if nothing does.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, Declared(takes, gives, by_row, hides))
        return function

    return mark


def declared(function: Step) -> Declared:
    """What a step declares; a function that is not a step is a `StepError`."""
    found: Declared | None = getattr(function, _MARK, None)
    if found is None:
        name = getattr(function, "__name__", repr(function))
        raise StepError(f"`{name}` is not a step; mark it with @step(takes=..., gives=...) to let parties answer it")
    return found


def steps_of(script: Script | type[Script]) -> dict[str, Declared]:
    """All the questions a script may ask, by name."""
    return _steps_of(script if isinstance(script, type) else type(script))


def answer(script: Script, party: Party, blob: bytes) -> bytes:
    """Answer one question at a party: every runtime ends here."""
    question = decode_question(blob)
    words = steps_of(script).get(question.step)
    if words is None:
        known = ", ".join(steps_of(script)) or "none"
        raise StepError(f"{party.name} knows no step `{question.step}` of {type(script).__name__}; it has: {known}")
    check_payload(question.step, words, question.payload)
    party.turn(question.phase, question.round)
    bound = getattr(script, question.step)
    try:
        _signature(type(script), question.step).bind(script, party, **question.payload)
    except TypeError as problem:
        raise StepError(f"`{question.step}` at {party.name} was asked wrongly: {problem}") from problem
    try:
        with limit_threads():
            given = bound(party, **question.payload)
    except Refused as problem:  # Only a party's rules refuse: their words reach the hub, those of a step do not.
        raise StepError(f"`{question.step}` failed at {party.name}: {problem}") from problem
    value, noises = unwrap(given)
    if words.gives is None and value is not None:
        raise StepError(
            f"`{question.step}` says it gives nothing, but returned {describe(value)} at {party.name}; "
            "return None or say in gives= what leaves"
        )
    reply = encode(value)
    if words.gives is not None:
        said = words_of(given, words.gives)
        entry = entry_of(question.phase, question.step, said, describe(value), reply, words.hides)
        party.ledger.write_parts(entry, noises)
    return reply


def check_payload(name: str, words: Declared, payload: dict[str, Any]) -> None:
    """A question that declares to take nothing may bring only public words and whole numbers."""
    if words.takes is not None:
        return
    for key, value in payload.items():
        if not isinstance(value, str | int | None):
            raise StepError(
                f"`{name}` says it takes nothing, but `{key}` brings {describe(value)}; say in takes= what it brings"
            )


@cache
def _signature(kind: type[Script], name: str) -> inspect.Signature:
    """What a step wants to be asked; worked out once, as it takes longer than many an answer."""
    return inspect.signature(getattr(kind, name))


@cache
def _steps_of(kind: type[Script]) -> dict[str, Declared]:
    functions = [(name, member) for name, member in inspect.getmembers_static(kind) if inspect.isfunction(member)]
    return {name: getattr(member, _MARK) for name, member in functions if hasattr(member, _MARK)}


Then: TypeAlias = Literal["unknown", "yields", "trains", "ends"]
"""What comes after the questions declared.

`unknown`: that depends on somebody's rows. `yields`: `fit` yields, and then it is unknown. `trains`: no more questions,
but `fit` yields any number of times, at least once. `ends`: no more questions, and `fit` yields once.
"""


class Ask(NamedTuple):
    """One question that every peer without labels is asked, all of them in the same round.

    Its payload is None if that depends on somebody's rows or labels.
    """

    step: str
    payload: Mapping[str, Any] | None

    @classmethod
    def known(cls, question: Step, /, **payload: Any) -> "Ask":
        """A question whose every byte follows from the plan, written as it is asked: `Ask.known(self.mix, rows=x)`."""
        declared(question)
        return cls(question.__name__, payload)

    @classmethod
    def later(cls, question: Step, /) -> "Ask":
        """A question that brings something made from rows or labels, so that it must be waited for."""
        declared(question)
        return cls(question.__name__, None)


class Opening(NamedTuple):
    """What one function of a script asks, from its first question on, and what comes after that."""

    asks: tuple[Ask, ...] = ()
    then: Then = "unknown"
