"""Federated learning that speaks seldom: one exchange where others need thousands.

The public names, each imported when it is first used: importing laconic itself imports nothing heavy. Which they are
stands in `tools/names.py`, from which the stub beside this file is written.
"""

from importlib import import_module
from warnings import warn

import lazy_loader

from laconic.moved import NEW_HOME, OLD_VERBS, RENAMED

__version__ = "0.1.0"

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used; one that has moved still works, with a line that says where to."""
    if name in OLD_VERBS:
        (home, instead), new = OLD_VERBS[name], name
        words = f"laconic.{name} will go with version 0.2: write `{instead}`"
    elif name in NEW_HOME:
        home, new = NEW_HOME[name], RENAMED.get(name, name)
        words = f"laconic.{name} has moved: write `from {home} import {new}`"
    else:
        try:
            return _find(name)
        except AttributeError:
            raise AttributeError(_where_else(name)) from None
    warn(words, DeprecationWarning, stacklevel=2)
    # Kept, so that the line is said once.
    value: object = globals().setdefault(name, getattr(import_module(home), new))
    return value


def _where_else(name: str) -> str:
    """What to write instead of a name that is not here: the package that has it, or the nearest name."""
    from difflib import get_close_matches
    from pathlib import Path

    words = f"laconic has no {name!r}"
    for stub in [] if name.startswith("_") else sorted(Path(__file__).parent.glob("*/__init__.pyi")):
        package = f"laconic.{stub.parent.name}"
        if name in import_module(package).__all__:
            return f"{words}; write `from {package} import {name}`"
    near = get_close_matches(name, __all__, 1)
    return f"{words}; did you mean {near[0]}?" if near else words
