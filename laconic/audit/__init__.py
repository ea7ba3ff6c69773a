"""Attacks to run against one's own upload before it is sent: what its receiver could find out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
