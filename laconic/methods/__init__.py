"""Every method, by its class."""

from typing import TypeAlias

from laconic.core.method import Method
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.late_fusion import LateFusion
from laconic.methods.baselines.linear import Linear
from laconic.methods.baselines.local_dp import LocalDp
from laconic.methods.baselines.solo import Solo
from laconic.methods.horizontal.fedavg import FedAvg
from laconic.methods.horizontal.feddf import FedDf
from laconic.methods.horizontal.fedkt import FedKt
from laconic.methods.horizontal.fedprox import FedProx
from laconic.methods.horizontal.pate import Pate
from laconic.methods.horizontal.pfnm import Pfnm
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.scaffold import Scaffold
from laconic.methods.horizontal.solo_rows import SoloRows
from laconic.methods.vertical.fdml import Fdml
from laconic.methods.vertical.fedbcd import FedBCD
from laconic.methods.vertical.fedcvt import FedCVT
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.fewshot import FewShot
from laconic.methods.vertical.oneshot import OneShot
from laconic.methods.vertical.rap import Rap
from laconic.methods.vertical.splitnn import SplitNN
from laconic.methods.vertical.vafl import Vafl
from laconic.methods.vertical.vertical_xgboost import VerticalXgboost
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.methods.vertical.vimadmm_joint import VimAdmmJoint
from laconic.methods.vertical.vimsgd import VimSgd

AnyMethod: TypeAlias = (
    FedOnce
    | OneShot
    | FewShot
    | Rap
    | SplitNN
    | FedBCD
    | FedCVT
    | VimSgd
    | VimAdmm
    | VimAdmmJoint
    | Vafl
    | Fdml
    | VerticalXgboost
    | Solo
    | Linear
    | LocalDp
    | LateFusion
    | Centralised
    | FedKt
    | FedAvg
    | FedProx
    | Scaffold
    | FedDf
    | Pfnm
    | Pate
    | SoloRows
    | PooledRows
)
METHODS: tuple[type[Method], ...] = (
    FedOnce,
    OneShot,
    FewShot,
    Rap,
    SplitNN,
    FedBCD,
    FedCVT,
    VimSgd,
    VimAdmm,
    VimAdmmJoint,
    Vafl,
    Fdml,
    VerticalXgboost,
    Solo,
    Linear,
    LocalDp,
    LateFusion,
    Centralised,
    FedKt,
    FedAvg,
    FedProx,
    Scaffold,
    FedDf,
    Pfnm,
    Pate,
    SoloRows,
    PooledRows,
)
