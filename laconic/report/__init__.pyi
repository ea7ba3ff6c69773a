# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .compared import Compared as Compared
from .plots import plot_bytes as plot_bytes
from .plots import plot_importance as plot_importance
from .plots import plot_learning as plot_learning
from .plots import plot_predictions as plot_predictions
from .plots import plot_rebuilt as plot_rebuilt
from .plots import plot_roc as plot_roc
from .plots import plot_rounds as plot_rounds
from .plots import plot_wire as plot_wire
from .reproduce import commands_for as commands_for
from .tables import show_card as show_card
from .tables import show_price as show_price
from .tracking import track as track
from .words import rows_of as rows_of
