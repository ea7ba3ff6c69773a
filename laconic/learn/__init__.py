"""What one party learns by itself: nets, trees, encoders and how they are trained."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
