"""Which methods there are, by name: ours from their files, others' from the packages that are installed.

Names are for the border only: plans, the command line and saved models. In code, pass the method itself.

A package of somebody else's offers a method by an entry point of the group `laconic.methods`, called as its class is:

    [project.entry-points."laconic.methods"]
    RandomSums = "their_package.random_sums:RandomSums"

Nothing is searched for before a name is first needed, so that their package may import anything of ours.
"""

import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, Union
from warnings import warn

import msgspec

from laconic.core.method import Method
from laconic.errors import PackageNotUsed, PlanError, closest
from laconic.moved import with_current_names

GROUP = "laconic.methods"
"""The group of entry points that other packages use."""

_FOLDERS = ("vertical", "horizontal", "baselines")
_TAG_FIELD = "type"

if TYPE_CHECKING:
    AnyMethod: TypeAlias = Method


def methods() -> Mapping[str, type[Method]]:
    """All methods by name: ours first, then those of other packages.

    Example:
        >>> methods()["FedOnce"].__module__
        'laconic.methods.vertical.fedonce'
    """
    return MappingProxyType(_ours() | _others()[0])


def unusable() -> Mapping[str, str]:
    """Methods that another package offers and that cannot be used, by name, each with the reason."""
    return MappingProxyType(_others()[1])


def find_method(name: str) -> type[Method]:
    """The method of that name, in whatever case.

    Raises:
        PlanError: there is none; names those that there are, or why the package that offers it cannot be used.
    """
    known = {one.casefold(): kind for one, kind in methods().items()}
    if name.casefold() in known:
        return known[name.casefold()]
    broken = {one.casefold(): reason for one, reason in unusable().items()}
    if name.casefold() in broken:
        raise PlanError(broken[name.casefold()])
    raise PlanError(f"there is no method {name!r}; {closest(name, list(methods()), 'The methods are')}")


def read_method(plain: Mapping[str, Any]) -> Method:
    """The method that plain settings, as results and saved models hold them, are of."""
    method: Method = msgspec.convert(with_current_names(plain), find_method(str(plain.get(_TAG_FIELD))))
    return method


def methods_in(module_name: str) -> Iterator[type[Method]]:
    """The methods that a module defines: public, and complete enough to be run."""
    for name, kind in vars(import_module(module_name)).items():
        is_method = isinstance(kind, type) and issubclass(kind, Method) and kind.__module__ == module_name
        if is_method and not name.startswith("_") and not _lacking(kind):
            yield kind


@cache
def _ours() -> dict[str, type[Method]]:
    folders = [import_module(f"laconic.methods.{folder}") for folder in _FOLDERS]
    modules = [
        f"{folder.__name__}.{found.name}" for folder in folders for found in pkgutil.iter_modules(folder.__path__)
    ]
    return {kind.__name__: kind for module in modules for kind in methods_in(module)}


@cache
def _others() -> tuple[dict[str, type[Method]], dict[str, str]]:
    """Methods of other packages, and why some cannot be used; each reason is said once, as a warning."""
    offers = sorted(entry_points(group=GROUP), key=lambda offer: (offer.name, _package(offer)))
    names = Counter(offer.name.casefold() for offer in offers)
    ours = {name.casefold() for name in _ours()}
    found: dict[str, type[Method]] = {}
    reasons: dict[str, str] = {}
    for offer in offers:
        head = f"the package {_package(offer)} offers a method {offer.name}, which is not used"
        if offer.name.casefold() in ours:
            reasons[f"{offer.name} of {_package(offer)}"] = f"{head}: Laconic has a method of that name; rename theirs"
        elif names[offer.name.casefold()] > 1:
            several = " and ".join(_package(one) for one in offers if one.name.casefold() == offer.name.casefold())
            reasons[offer.name] = f"the packages {several} all offer a method {offer.name}, so none is used; keep one"
        else:
            try:
                found[offer.name] = _load(offer)
            # Whatever their code raises must not keep our methods, or a third package's, from running.
            except Exception as problem:
                why = f"{type(problem).__name__}: {problem}"
                reasons[offer.name] = f"{head}: {why} (from {offer.value}); mend or uninstall it"
    for reason in reasons.values():
        warn(reason, PackageNotUsed, stacklevel=2)
    return found, reasons


def _load(offer: EntryPoint) -> type[Method]:
    """The class behind an entry point; refuses what plans could not hold."""
    kind = offer.load()
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise TypeError("it is not a class that derives from laconic.Method")
    if kind.__name__ != offer.name:
        raise ValueError(f"the class is called {kind.__name__}; the entry point must have the same name")
    if _lacking(kind):
        raise TypeError(f"{kind.__name__} lacks {', '.join(_lacking(kind))}")
    config = kind.__struct_config__
    if (config.tag_field, config.tag) != (_TAG_FIELD, offer.name):
        raise ValueError(f"{kind.__name__} sets tag or tag_field, by which plans know it; leave those out")
    # A setting whose type cannot be read would break the reading of every plan; one without a default, every draft.
    msgspec.inspect.type_info(kind)
    kind()
    return kind


def _lacking(kind: type) -> list[str]:
    """The abstract parts of a class that are still to be written."""
    members = inspect.getmembers_static(kind)
    return [name for name, member in members if getattr(member, "__isabstractmethod__", False)]


def _package(offer: EntryPoint) -> str:
    return f"{offer.dist.name} {offer.dist.version}" if offer.dist else offer.value.partition(":")[0]


def __getattr__(name: str) -> object:
    """`AnyMethod`: the type of all methods together, for reading plans."""
    if name != "AnyMethod":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Union[tuple(methods().values())]  # noqa: UP007 (there is no other way to join types that are found)
