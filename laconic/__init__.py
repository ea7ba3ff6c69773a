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
        return _find(name)
    warn(words, DeprecationWarning, stacklevel=2)
    # Kept, so that the line is said once.
    value: object = globals().setdefault(name, getattr(import_module(home), new))
    return value
