# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .absent import Abstain as Abstain
from .absent import Refit as Refit
from .absent import SoloModel as SoloModel
from .absent import Zeros as Zeros
from .predict import Model as Model
from .predict import Scores as Scores
