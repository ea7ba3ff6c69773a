"""What is installed for laconic: the distributions that its core and each of its extras need, all the way down."""

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "laconic-fl"
_EXTRA = re.compile(r"""\s*(and\s+)?extra\s*==\s*["'][^"']*["']""")


class Need(NamedTuple):
    """A distribution that is needed.

    Attributes:
        name: as an index spells it: small letters and hyphens.
        version: which is installed.
        marker: the machines on which laconic itself asks for it; nothing for all.
        needs: the names of what it needs in turn.
    """

    name: str
    version: str
    marker: str
    needs: tuple[str, ...]


def extras() -> tuple[str, ...]:
    """The extras of laconic, in order."""
    return tuple(sorted(distribution(ROOT).metadata.get_all("Provides-Extra", [])))


def needed(wanted: Iterable[str] = ()) -> dict[str, Need]:
    """Everything that laconic needs with these extras, laconic itself left out, by name and in order.

    >>> "numpy" in needed(), "pytest" in needed(), "pytest" in needed(["dev"])
    (True, False, True)
    """
    asked: dict[str, frozenset[str]] = {}
    found: dict[str, Need] = {}
    todo = [(ROOT, frozenset(wanted), "")]
    while todo:
        name, of_it, marker = todo.pop()
        if name in asked and of_it <= asked[name]:
            continue
        asked[name] = asked.get(name, frozenset()) | of_it
        one = distribution(name)
        requirements = _requirements(one, asked[name])
        found[name] = Need(name, one.version, marker, tuple(sorted({_name(need) for need in requirements} - {name})))
        todo += [
            (_name(need), frozenset(need.extras), _machines(need) if name == ROOT else "") for need in requirements
        ]
    del found[ROOT]
    return dict(sorted(found.items()))


def _requirements(one: Distribution, of_it: frozenset[str]) -> list[Requirement]:
    """What a distribution with these extras needs on this machine."""
    all_of_them = [Requirement(text) for text in one.requires or ()]
    return [
        need
        for need in all_of_them
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*of_it, ""))
    ]


def _name(need: Requirement) -> str:
    return str(canonicalize_name(need.name))


def _machines(need: Requirement) -> str:
    """A marker without what it says of extras."""
    return _EXTRA.sub("", str(need.marker or "")).strip().strip("()")
