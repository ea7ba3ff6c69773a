# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .check_method import BadParty as BadParty
from .check_method import bare_party as bare_party
from .check_method import check_method as check_method
from .check_method import drawn_times as drawn_times
from .check_method import find_leak as find_leak
from .check_method import flip_labels as flip_labels
from .check_method import leave_out as leave_out
from .check_method import open_peers as open_peers
from .check_method import rows_held_out as rows_held_out
from .check_method import small_federation as small_federation
from .check_method import small_horizontal as small_horizontal
from .check_method import small_overlap as small_overlap
from .messy import MessyFederation as MessyFederation
from .messy import Misread as Misread
from .messy import compare_new_rows as compare_new_rows
from .messy import compare_reading as compare_reading
from .messy import draw as draw
from .messy import messy_federations as messy_federations
from .messy_rows import CellTruth as CellTruth
from .messy_rows import PartyTruth as PartyTruth
from .messy_rows import Truth as Truth
from .messy_rows import frame_of as frame_of
from .messy_rows import write_public as write_public
