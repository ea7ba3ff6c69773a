"""Noise, what it costs, and who keeps count."""

import lazy_loader

from laconic.moved import with_moved

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_moved(__name__, _find)
