# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .families.guided import Gradients as Gradients
from .families.guided import SendLabels as SendLabels
from .horizontal.fedkt import Prox as Prox
