# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

import laconic.deploy.execute as _execute

from .core.method import Method as Method
from .data.datasets import load as load
from .data.federation import Federation as Federation
from .data.partition.columns import Equal as Equal
from .data.partition.columns import deal as deal
from .data.partition.columns import disturb as disturb
from .data.partition.rows import Dirichlet as Dirichlet
from .data.partition.rows import deal_rows as deal_rows
from .data.readers.federate import federation as federation
from .data.readers.federate import from_files as from_files
from .data.readers.federate import rows_from_files as rows_from_files
from .data.readers.frames import from_frames as from_frames
from .data.readers.horizontal_frames import rows_from_frames as rows_from_frames
from .deploy.party_files import from_party_files as from_party_files
from .deploy.party_importance import importance as importance
from .deploy.result import Result as Result
from .deploy.tuning import read_results as read_results
from .errors import LaconicError as LaconicError
from .inference.estimators import FederatedClassifier as FederatedClassifier
from .inference.estimators import FederatedRegressor as FederatedRegressor
from .inference.fit import fit as fit
from .inference.merge import forget as forget
from .inference.predict import load_model as load_model
from .inference.save import save_model as save_model
from .inference.update import add_party as add_party
from .inference.update import add_rows as add_rows
from .methods.baselines.centralised import Centralised as Centralised
from .methods.baselines.late_fusion import LateFusion as LateFusion
from .methods.baselines.linear import Linear as Linear
from .methods.baselines.local_dp import LocalDp as LocalDp
from .methods.baselines.solo import Solo as Solo
from .methods.horizontal.analytic import Analytic as Analytic
from .methods.horizontal.cox import Cox as Cox
from .methods.horizontal.fedavg import FedAdam as FedAdam
from .methods.horizontal.fedavg import FedAvg as FedAvg
from .methods.horizontal.fedavg import FedYogi as FedYogi
from .methods.horizontal.feddf import FedDf as FedDf
from .methods.horizontal.fedkt import FedKt as FedKt
from .methods.horizontal.fedpft import FedPft as FedPft
from .methods.horizontal.fedprox import FedProx as FedProx
from .methods.horizontal.fedtrees import FedTrees as FedTrees
from .methods.horizontal.pate import Pate as Pate
from .methods.horizontal.pfnm import Pfnm as Pfnm
from .methods.horizontal.pooled_rows import PooledRows as PooledRows
from .methods.horizontal.scaffold import Scaffold as Scaffold
from .methods.horizontal.solo_rows import SoloRows as SoloRows
from .methods.vertical.fdml import Fdml as Fdml
from .methods.vertical.fedbcd import FedBCD as FedBCD
from .methods.vertical.fedcvt import FedCVT as FedCVT
from .methods.vertical.fedonce import FedOnce as FedOnce
from .methods.vertical.fewshot import FewShot as FewShot
from .methods.vertical.oneshot import OneShot as OneShot
from .methods.vertical.rap import Rap as Rap
from .methods.vertical.splitnn import SplitNN as SplitNN
from .methods.vertical.vafl import Vafl as Vafl
from .methods.vertical.vertical_xgboost import VerticalXgboost as VerticalXgboost
from .methods.vertical.vimadmm import VimAdmm as VimAdmm
from .methods.vertical.vimadmm_joint import VimAdmmJoint as VimAdmmJoint
from .methods.vertical.vimsgd import VimSgd as VimSgd
from .plan.plan import Budget as Budget
from .plan.plan import DataPlan as DataPlan
from .plan.plan import Plan as Plan
from .plan.text import read_plan as read_plan
from .plan.text import write_plan as write_plan
from .privacy.accounting import price as price
from .report.compared import compare as compare
from .report.disclosure import disclose as disclose
from .report.page.view import render_page as render_page
from .testing.check_method import check_method as check_method

__version__: str
simulate = _execute.simulate
train = _execute.train
execute = _execute.execute
