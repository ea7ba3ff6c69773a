# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .accounting import Moments as Moments
from .accounting import Pld as Pld
from .accounting import Rdp as Rdp
from .accounting import SimpleDivision as SimpleDivision
from .accounting import ledgers_of as ledgers_of
from .encoders import Codebook as Codebook
from .encoders import DpNat as DpNat
from .encoders import DpPca as DpPca
from .encoders import PublicProjection as PublicProjection
from .mechanisms.gaussian import LocalGaussian as LocalGaussian
from .mechanisms.outputs import AsPublished as AsPublished
from .mechanisms.outputs import BatchClip as BatchClip
from .mechanisms.outputs import PrivateSteps as PrivateSteps
from .mechanisms.outputs import PureNoise as PureNoise
from .mechanisms.outputs import RowsOnce as RowsOnce
from .mechanisms.rows import ClippedGaussian as ClippedGaussian
from .mechanisms.rows import Perturb as Perturb
from .mechanisms.rows import RandomisedResponse as RandomisedResponse
from .mechanisms.sums import GaussianSums as GaussianSums
from .mechanisms.votes import L0 as L0
from .mechanisms.votes import L1 as L1
from .mechanisms.votes import L2 as L2
from .mechanisms.votes import GaussianVotes as GaussianVotes
from .mechanisms.votes import LaplaceVotes as LaplaceVotes
from .private_sgd import DpSgd as DpSgd
