"""Federated learning that speaks seldom: one exchange where others need thousands.

The public names, each imported when it is first used: importing laconic itself imports nothing heavy. Which they are
stands in `tools/names.py`, from which the stub beside this file is written.
"""

from importlib import import_module
from warnings import warn

import lazy_loader

from laconic.moved import NEW_HOME, RENAMED

__version__ = "0.1.0"

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used; one that has moved still works, with a line that says where to."""
    if name not in NEW_HOME:
        return _find(name)
    home, new = NEW_HOME[name], RENAMED.get(name, name)
    warn(f"laconic.{name} has moved: write `from {home} import {new}`", DeprecationWarning, stacklevel=2)
    # Kept, so that the line is said once.
    value: object = globals().setdefault(name, getattr(import_module(home), new))
    return value
