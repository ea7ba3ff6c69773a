"""The few value types that every layer shares."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Weights: TypeAlias = dict[str, Array]
"""What a learner has learnt, by name: plain arrays, so that it can be stored, sent and loaded without code."""

Rng: TypeAlias = np.random.Generator
Listener: TypeAlias = Callable[[str, int, int | None], None]
"""Told `(what, done, of)` as long work goes on; `of` is None when the end is not known."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Frozen settings that can be written as text and back; the class name is the tag `type`.

    Check values in `__post_init__`: it runs for settings made in Python and for those read from a plan alike.
    """
