"""For people who test methods and tools of their own: federations of messy but legal files, and what is in them.

federation = draw(7)
files = federation.write(folder)
compare_reading(from_files(files, id=federation.id, label=federation.label), federation.truth)
"""

from laconic.testing.messy import MessyFederation, draw, messy_federations
from laconic.testing.notations import CellTruth, PartyTruth, Truth
from laconic.testing.reading import Misread, compare_new_rows, compare_reading

__all__ = [
    "CellTruth",
    "MessyFederation",
    "Misread",
    "PartyTruth",
    "Truth",
    "compare_new_rows",
    "compare_reading",
    "draw",
    "messy_federations",
]
