"""Where rows come from: public sets, files and frames, and how a set is dealt among parties."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
