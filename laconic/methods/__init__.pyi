# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .families.contributions import Check as Check
from .families.contributions import Contribution as Contribution
from .families.guided import Gradients as Gradients
from .families.guided import SendLabels as SendLabels
from .families.model_checks import ModelCheck as ModelCheck
from .families.rows import batch_rows as batch_rows
from .families.rows import labelled as labelled
from .families.summed import Admm as Admm
from .families.sums import SecureSums as SecureSums
from .horizontal.fedkt import Majority as Majority
from .horizontal.fedkt import PooledShares as PooledShares
from .horizontal.fedkt import Prox as Prox
from .horizontal.fedkt import ServerShares as ServerShares
from .registry import methods as methods
from .vertical.rap import MixedRows as MixedRows
from .vertical.vertical_xgboost import Socket as Socket
