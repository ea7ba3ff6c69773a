"""For people who test methods and tools of their own: the contract, small federations, and messy but legal files.

federation = draw(7)
files = federation.write(folder)
compare_reading(from_files(files, id=federation.id, label=federation.label), federation.truth)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
