"""Trained models: saved per party, used for predictions, updated and forgotten."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
