# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .datasets import Dataset as Dataset
from .federation import Federation as Federation
from .partition.columns import LABEL_HOLDER as LABEL_HOLDER
from .partition.columns import Biased as Biased
from .partition.columns import Equal as Equal
from .partition.columns import Groups as Groups
from .partition.columns import Patches as Patches
from .partition.columns import Quadrants as Quadrants
from .partition.columns import Rows as Rows
from .partition.columns import party_names as party_names
from .partition.columns import usual_cut as usual_cut
from .partition.rows import Dirichlet as Dirichlet
from .partition.rows import HalfTest as HalfTest
from .partition.rows import Iid as Iid
from .partition.rows import RandomHoldout as RandomHoldout
from .partition.rows import Reserve as Reserve
from .partition.rows import Sizes as Sizes
from .readers.source_table import read_own as read_own
from .schema import IdRules as IdRules
from .schema import OwnData as OwnData
