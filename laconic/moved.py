"""Names that users may have typed before they moved or changed: understood for one version, with one line each.

`NEW_HOME`: names that were at the top of the package until version 0.1, and the package they are in now. `RENAMED`:
classes that are called otherwise now, in plans, in `--set` and in Python. `OLD_VERBS`: verbs that another one has
replaced. `with_moved`: names that another package has now. This file goes with 0.2.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from warnings import warn

_MOVED = {
    "laconic.align": "AgreedIds ExactMatch PrivateMatch SameColumns",
    "laconic.core": "Party Peers step task_of",
    "laconic.data": "Apart Biased Groups HalfTest Iid Patches Quadrants Rows Sizes",
    "laconic.deploy": "Faults Forked InProcess Processes ledgers_of",
    "laconic.deploy.party_files": "read_party",
    "laconic.deploy.party_importance": "Importance denoise summarise",
    "laconic.deploy.execute": "Trained",
    "laconic.errors": "DataError PartyAbsent PlanError",
    "laconic.inference": "Abstain Model Refit Scores SoloModel Zeros",
    "laconic.learn": (
        "Added Boosted Cnn FixMatch FixMatchTab Forest Joint Logistic Mlp Network PatchNet Pca "
        "RandomProjection ResNet Sgd WhitenedPca"
    ),
    "laconic.methods": "Gradients Prox SendLabels",
    "laconic.privacy": (
        "AsPublished BatchClip ClippedGaussian Codebook DpNat DpPca DpSgd GaussianVotes L0 L1 L2 LaplaceVotes "
        "LocalGaussian Moments Perturb Pld PrivateSteps PublicProjection PureNoise RandomisedResponse Rdp "
        "RowsOnce SimpleDivision"
    ),
    "laconic.report": "plot_bytes plot_importance plot_rounds plot_wire track",
    "laconic.tables": "Task",
}
OLD_VERBS = {
    "simulate": ("laconic.deploy.execute", "laconic.fit(method, federation).result"),
    "train": ("laconic.deploy.execute", "laconic.fit(method, federation)"),
    "execute": ("laconic.deploy.execute", "laconic.fit(plan).result"),
}
"""Verbs of before: where each is, and what to write instead."""

_BETWEEN_ROOMS = {
    "laconic.core": {
        "laconic.deploy": "Absence Leakage Look PartyTraffic RebuiltColumn Release Result Tuning run",
        "laconic.methods": "Contribution",
        "laconic.privacy": "Price",
        "laconic.tables": "Tried",
    },
    "laconic.privacy": {"laconic.deploy": "ledgers_of"},
}
"""Names that have gone from one package to another since version 0.1: by the package of before, where they are."""

FIRST_MODULES = {"AgreedIds": "laconic.align.agreed", "ExactMatch": "laconic.align.exact"}
"""Modules of before, by which journals and envelopes still name the questions of these classes."""

NEW_HOME = {name: home for home, names in _MOVED.items() for name in names.split()}

RENAMED = {
    "Added": "SummedHeads",
    "Apart": "RandomHoldout",
    "Several": "Ensemble",
    "Suited": "BestEncoder",
    "Trained": "FittedRun",
}
"""Old names and new ones."""


class RenamedWarning(FutureWarning):
    """A name that has changed was used; the old one is understood until the next version."""


def with_moved(package: str, find: Callable[[str], object]) -> Callable[[str], object]:
    """The `__getattr__` of a package that names have left: they still work, with a line that says where they are."""
    homes = {name: home for home, names in _BETWEEN_ROOMS[package].items() for name in names.split()}

    def find_moved(name: str) -> object:
        if name not in homes:
            return find(name)
        words = f"{package}.{name} has moved: write `from {homes[name]} import {name}`"
        warn(words, DeprecationWarning, stacklevel=2)
        return getattr(import_module(homes[name]), name)

    return find_moved


def current_name(name: str) -> str:
    """The name that is in use now; one that has changed is named in a warning of one line."""
    if name not in RENAMED:
        return name
    words = f"{name} is now called {RENAMED[name]}; the old name is understood until the next version"
    warn(words, RenamedWarning, stacklevel=3)
    return RENAMED[name]


def with_current_names(plain: Any) -> Any:
    """Settings that a file of an earlier version holds, with the names of now; without a warning, as nobody typed them.

    Example:
        >>> with_current_names({"type": "FedOnce", "encoder": {"type": "Suited", "dim": 8}})
        {'type': 'FedOnce', 'encoder': {'type': 'BestEncoder', 'dim': 8}}
    """
    if isinstance(plain, Mapping):
        return {
            key: RENAMED.get(value, value) if key == "type" and isinstance(value, str) else with_current_names(value)
            for key, value in plain.items()
        }
    if isinstance(plain, list | tuple):
        return type(plain)(with_current_names(value) for value in plain)
    return plain
