"""Federated learning that speaks seldom: one exchange where others need thousands.

The public names, each imported when it is first used: importing laconic itself imports nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from laconic.homes import HOME_OF

if TYPE_CHECKING:
    from laconic.align.agreed import AgreedIds
    from laconic.align.columns import SameColumns
    from laconic.align.exact import ExactMatch
    from laconic.align.psi import PrivateMatch
    from laconic.check import check_method
    from laconic.comparing import compare
    from laconic.core.errors import DataError, LaconicError, PartyAbsent, PlanError
    from laconic.core.method import Method, task_of
    from laconic.core.party import Party
    from laconic.core.peers import Peers
    from laconic.core.result import Result
    from laconic.core.script import step
    from laconic.core.task import Task
    from laconic.data.deal import deal
    from laconic.data.disturb import disturb
    from laconic.data.federation import Federation
    from laconic.data.files import from_files, rows_from_files
    from laconic.data.frames import from_frames
    from laconic.data.horizontal import Apart, Dirichlet, HalfTest, Iid, Sizes, deal_rows
    from laconic.data.rows_apart import rows_from_frames
    from laconic.data.sources import load
    from laconic.data.vertical import Biased, Equal, Groups, Patches, Quadrants, Rows
    from laconic.estimators import FederatedClassifier, FederatedRegressor
    from laconic.learn.class_heads import Added
    from laconic.learn.classifiers import Logistic, Network
    from laconic.learn.fixmatch import FixMatch
    from laconic.learn.fixmatch_tab import FixMatchTab
    from laconic.learn.nets import Cnn, Joint, Mlp
    from laconic.learn.patches import PatchNet
    from laconic.learn.pca import Pca, WhitenedPca
    from laconic.learn.projection import RandomProjection
    from laconic.learn.resnet import ResNet
    from laconic.learn.sgd import Sgd
    from laconic.learn.trees import Boosted, Forest
    from laconic.methods.baselines.centralised import Centralised
    from laconic.methods.baselines.late_fusion import LateFusion
    from laconic.methods.baselines.linear import Linear
    from laconic.methods.baselines.local_dp import LocalDp
    from laconic.methods.baselines.solo import Solo
    from laconic.methods.guides import Gradients, SendLabels
    from laconic.methods.horizontal.fedavg import FedAvg
    from laconic.methods.horizontal.feddf import FedDf
    from laconic.methods.horizontal.fedkt import FedKt, Prox
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
    from laconic.model.absent import Abstain, Refit, SoloModel, Zeros
    from laconic.model.growing import add_party, add_rows
    from laconic.model.leaving import forget
    from laconic.model.model import Model, load_model
    from laconic.model.saving import save_model
    from laconic.model.scores import Scores
    from laconic.party_importance import Importance, denoise, importance, summarise
    from laconic.plan import Budget, DataPlan, Plan, execute, read_plan, write_plan
    from laconic.plan.own_federation import from_party_files
    from laconic.plan.party_file import read_party
    from laconic.privacy.accountants import Moments, Pld, Rdp, SimpleDivision
    from laconic.privacy.codebook import Codebook
    from laconic.privacy.dpnat import DpNat
    from laconic.privacy.dppca import DpPca
    from laconic.privacy.dpsgd import DpSgd
    from laconic.privacy.labels import RandomisedResponse
    from laconic.privacy.levels import L0, L1, L2
    from laconic.privacy.local import LocalGaussian
    from laconic.privacy.noise import ClippedGaussian, Perturb
    from laconic.privacy.outputs import AsPublished, BatchClip, PureNoise, RowsOnce
    from laconic.privacy.price import ledgers_of, price
    from laconic.privacy.projection import PublicProjection
    from laconic.privacy.steps import PrivateSteps
    from laconic.privacy.votes import GaussianVotes, LaplaceVotes
    from laconic.report.disclosure import disclose
    from laconic.report.page import render_page
    from laconic.report.plots import plot_bytes, plot_importance, plot_rounds, plot_wire
    from laconic.report.tracking import track
    from laconic.runtime.faults import Faults
    from laconic.runtime.forked import Forked
    from laconic.runtime.inprocess import InProcess
    from laconic.runtime.processes import Processes
    from laconic.saved import read_results
    from laconic.simulation import simulate
    from laconic.trained import Trained, train

__all__ = [
    "L0",
    "L1",
    "L2",
    "Abstain",
    "Added",
    "AgreedIds",
    "Apart",
    "AsPublished",
    "BatchClip",
    "Biased",
    "Boosted",
    "Budget",
    "Centralised",
    "ClippedGaussian",
    "Cnn",
    "Codebook",
    "DataError",
    "DataPlan",
    "Dirichlet",
    "DpNat",
    "DpPca",
    "DpSgd",
    "Equal",
    "ExactMatch",
    "Faults",
    "Fdml",
    "FedAvg",
    "FedBCD",
    "FedCVT",
    "FedDf",
    "FedKt",
    "FedOnce",
    "FedProx",
    "FederatedClassifier",
    "FederatedRegressor",
    "Federation",
    "FewShot",
    "FixMatch",
    "FixMatchTab",
    "Forest",
    "Forked",
    "GaussianVotes",
    "Gradients",
    "Groups",
    "HalfTest",
    "Iid",
    "Importance",
    "InProcess",
    "Joint",
    "LaconicError",
    "LaplaceVotes",
    "LateFusion",
    "Linear",
    "LocalDp",
    "LocalGaussian",
    "Logistic",
    "Method",
    "Mlp",
    "Model",
    "Moments",
    "Network",
    "OneShot",
    "Party",
    "PartyAbsent",
    "PatchNet",
    "Patches",
    "Pate",
    "Pca",
    "Peers",
    "Perturb",
    "Pfnm",
    "Plan",
    "PlanError",
    "Pld",
    "PooledRows",
    "PrivateMatch",
    "PrivateSteps",
    "Processes",
    "Prox",
    "PublicProjection",
    "PureNoise",
    "Quadrants",
    "RandomProjection",
    "RandomisedResponse",
    "Rap",
    "Rdp",
    "Refit",
    "ResNet",
    "Result",
    "Rows",
    "RowsOnce",
    "SameColumns",
    "Scaffold",
    "Scores",
    "SendLabels",
    "Sgd",
    "SimpleDivision",
    "Sizes",
    "Solo",
    "SoloModel",
    "SoloRows",
    "SplitNN",
    "Task",
    "Trained",
    "Vafl",
    "VerticalXgboost",
    "VimAdmm",
    "VimAdmmJoint",
    "VimSgd",
    "WhitenedPca",
    "Zeros",
    "add_party",
    "add_rows",
    "check_method",
    "compare",
    "deal",
    "deal_rows",
    "denoise",
    "disclose",
    "disturb",
    "execute",
    "forget",
    "from_files",
    "from_frames",
    "from_party_files",
    "importance",
    "ledgers_of",
    "load",
    "load_model",
    "plot_bytes",
    "plot_importance",
    "plot_rounds",
    "plot_wire",
    "price",
    "read_party",
    "read_plan",
    "read_results",
    "render_page",
    "rows_from_files",
    "rows_from_frames",
    "save_model",
    "simulate",
    "step",
    "summarise",
    "task_of",
    "track",
    "train",
    "write_plan",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in HOME_OF:
        raise AttributeError(f"module 'laconic' has no attribute {name!r}")
    return getattr(import_module(HOME_OF[name]), name)


def __dir__() -> list[str]:
    """All public names."""
    return sorted(__all__)
