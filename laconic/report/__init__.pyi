# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .plots import plot_bytes as plot_bytes
from .plots import plot_importance as plot_importance
from .plots import plot_rounds as plot_rounds
from .plots import plot_wire as plot_wire
from .tracking import track as track
