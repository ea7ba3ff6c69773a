"""The few value types that every layer shares, and how long work says how far it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import cache
from math import inf, prod
from numbers import Integral, Real
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import inspect

Array: TypeAlias = npt.NDArray[Any]
Weights: TypeAlias = dict[str, Array]
"""What a learner has learnt, by name: plain arrays, so that it can be stored, sent and loaded without code."""

Rng: TypeAlias = np.random.Generator
Listener: TypeAlias = Callable[[str, int, int | None], None]
"""Called with `(what, done, of)` as long work goes on; `of` is None when the end is not known."""


def flat(rows: Array) -> Array:
    """Each row as one line of numbers; also where there is no row, of which numpy could not tell the width."""
    return rows.reshape(len(rows), prod(rows.shape[1:]))


class _Checked(msgspec.StructMeta):
    """Refuses a setting that does not exist, and one of another type, where it is written in Python.

    A plan's text is checked by msgspec as it is read; without this, `encoder="Pca"` in Python would end in an error of
    some other line, long after.
    """

    def __call__(self, *args: Any, **given: Any) -> Any:
        known = self.__struct_fields__
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise TypeError(
                    f"{self.__name__} has no setting {name!r}; {hint}Its settings are: {', '.join(known) or 'none'}"
                )
        options = _options(self)
        for name, value in {**dict(zip(known, args, strict=False)), **given}.items():
            if name in options and not any(_fits(value, option) for option in options[name]):
                *first, last = dict.fromkeys(_said(option) for option in options[name])
                wanted = f"{', '.join(first)} or {last}" if first else last
                raise TypeError(f"{name} of {self.__name__} must be {wanted}, not {_found(value)}")
        return super().__call__(*args, **given)


class Settings(msgspec.Struct, metaclass=_Checked, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Frozen settings that can be written as text and back; the class name is the tag `type`.

    Types are checked when settings are made. Check values in `__post_init__`: it runs for settings made in Python and
    for those read from a plan.
    """


@cache
def _options(kind: type) -> dict[str, tuple[inspect.Type, ...]]:
    """What types each setting may have; empty for a class whose annotations msgspec cannot read."""
    try:
        fields = getattr(inspect.type_info(kind), "fields", ())
    except (NameError, TypeError):
        return {}
    return {one.name: one.type.types if isinstance(one.type, inspect.UnionType) else (one.type,) for one in fields}


def _fits(value: Any, option: inspect.Type) -> bool:
    """Whether a value may be meant: plain types are held to exactly; of settings, only what can be none is refused."""
    if value is msgspec.UNSET:
        return True
    match option:
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool | np.bool_)
        case inspect.IntType():
            return isinstance(value, Integral) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, Real) and not isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.LiteralType():
            return value in option.values
        case inspect.StructType():
            if isinstance(value, msgspec.Struct) and type(value).__module__.startswith("laconic."):
                return isinstance(value, option.cls)
            return value is not None and not isinstance(value, str | bytes | Real | type | dict | list | tuple | set)
        case _:
            return True


_WORDS: dict[type, str] = {
    inspect.NoneType: "None",
    inspect.BoolType: "True or False",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
}


def _said(option: inspect.Type) -> str:
    if isinstance(option, inspect.LiteralType):
        return " or ".join(map(repr, option.values))
    return f"{option.cls.__name__}()" if isinstance(option, inspect.StructType) else _WORDS[type(option)]


def _found(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        return f"{'.'.join(type(value).__module__.split('.')[:2])}.{type(value).__name__}()"
    return f"the class {value.__name__}; write {value.__name__}()" if isinstance(value, type) else repr(value)


def check_least(least: float, **values: float | None) -> None:
    """Refuse settings, by name, that are below `least` or not finite; None is not looked at."""
    for name, value in values.items():
        if value is not None and not least <= value < inf:
            raise ValueError(f"{name} must be {least:g} or more, not {value}")


def check_above_zero(most: float = inf, /, **values: float) -> None:
    """Refuse settings, by name, that are not above 0, or above `most`."""
    for name, value in values.items():
        if not 0 < value <= most or value == inf:
            upper = "" if most == inf else f" and at most {most:g}"
            raise ValueError(f"{name} must be above 0{upper}, not {value}")


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def track(count: int, what: str) -> Iterator[int]:
    """Count from 0 to `count` - 1 and call the listener, if there is one, after each turn."""
    listener = _listener.get()
    for turn in range(count):
        yield turn
        if listener is not None:
            listener(what, turn + 1, count)


def heard() -> Listener | None:
    """Who is called with progress in this block; None if nobody listens."""
    return _listener.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within this block, `listener` is called with all progress."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
