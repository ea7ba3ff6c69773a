# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .columns import Column as Column
from .columns import Recipe as Recipe
from .columns import Scaled as Scaled
from .columns import apply_recipe as apply_recipe
from .columns import fit_recipe as fit_recipe
from .table import Table as Table
from .table import fingerprint as fingerprint
from .task import Bin as Bin
from .task import LabelScale as LabelScale
from .task import Quality as Quality
from .task import Score as Score
from .task import Task as Task
from .task import Tried as Tried
from .task import deviances as deviances
from .task import events_of as events_of
from .task import headline as headline
from .task import metrics as metrics
from .task import pairs_of as pairs_of
from .task import signed_times as signed_times
