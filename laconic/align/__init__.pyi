# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .agreed import AgreedIds as AgreedIds
from .alignment import ExactMatch as ExactMatch
from .psi import PrivateMatch as PrivateMatch
from .schema import SameColumns as SameColumns
