"""What the hub looks at in an answer before it is written down: a bad one that is in the journal is bad for ever."""

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from laconic.core.ledger import Noised
from laconic.core.party import Party
from laconic.core.peers import read_answer
from laconic.core.step import Script, steps_of
from laconic.core.wire import Blob, decode_question, describe
from laconic.errors import StepError

_SHARED = ("train", "valid", "test")
"""The cuts that hold the same people at all parties, once rows are matched."""
_REMEDY = "it was not kept: ask that party to look into it, then start the run again, with it or without"


class AnswerCheck:
    """Refuses answers that cannot be used, with the party's name.

    An answer must hold no NaN, be of the type that the step declares to return, and have one row for each person of the
    cuts that it is about.

    Args:
        holder: a party with the matched rows of the run; None where parties hold different people.
    """

    def __init__(self, holder: Party | None = None) -> None:
        self._holder = holder

    def __call__(self, script: Script, party: str, question: bytes, reply: Blob) -> None:
        """Refuse a reply that cannot be used."""
        asked = decode_question(question)
        value = read_answer(party, asked.step, reply)
        faults = (
            _number_fault(value),
            _type_fault(script, asked.step, value),
            self._rows_fault(asked.payload, value) if steps_of(script)[asked.step].by_row else "",
        )
        for fault in faults:
            if fault:
                raise StepError(f"the answer of {party} to `{asked.step}` {fault}; {_REMEDY}")

    def _rows_fault(self, payload: Mapping[str, Any], value: Any) -> str:
        """What is wrong with how many rows an answer has."""
        parts = value if isinstance(value, dict) else {payload.get("rows"): value}
        cuts = {} if self._holder is None else self._holder.data.cuts
        for cut in _SHARED:
            part = parts.get(cut)
            if cut in cuts and part is not None and np.shape(part)[:1] != (len(cuts[cut]),):
                return f"is {describe(part)[:200]} for the {len(cuts[cut]):,} rows of cut {cut!r}"
        return ""


def _number_fault(value: Any) -> str:
    """Minus infinity may mean something, as for splits that cannot be made."""
    if not _has_bad_number(value):
        return ""
    return "holds numbers that are NaN or infinite (if learning diverges, try a smaller learning rate)"


def _has_bad_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_bad_number, value.values() if isinstance(value, dict) else value))
    if not isinstance(value, float | np.ndarray) or np.asarray(value).dtype.kind != "f":
        return False
    return bool((np.isnan(value) | np.isposinf(value)).any())


def _type_fault(script: Script, step: str, value: Any) -> str:
    """What is wrong with the type of an answer, by what the step says that it returns."""
    wanted = NoneType if steps_of(script)[step].gives is None else _returned(type(script), step)
    return "" if _fits(value, wanted) else f"is {describe(value)[:200]}, and not what that step returns"


@cache
def _returned(kind: type[Script], step: str) -> Any:
    """What a step says that it returns; anything where only a type checker could tell."""
    try:
        return get_type_hints(getattr(kind, step)).get("return", Any)
    except NameError:
        return Any


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value that crossed is of a type; what cannot be decided fits."""
    origin, inner = get_origin(wanted) or wanted, get_args(wanted)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Noised:
        return _fits(value, inner[0])
    if origin is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inner[0]) for one in value)
    if origin is float:
        return isinstance(value, float | int)
    return isinstance(value, origin) if origin in (np.ndarray, NoneType, None, str, int, bool) else True
