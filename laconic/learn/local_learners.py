"""The ways in which a party learns from few labels by itself, and which one suits which rows."""

from typing import TypeAlias

from laconic.learn.fixmatch import FixMatch
from laconic.learn.fixmatch_tab import FixMatchTab
from laconic.learn.nets import Mlp, Net, Shape
from laconic.learn.patches import PatchNet

AnyLocal: TypeAlias = FixMatch | FixMatchTab


def default_local(shape: Shape) -> AnyLocal:
    """FixMatch for images, FixMatch-tab for columns."""
    return FixMatch() if len(shape) == 3 else FixMatchTab()


def default_extractor(shape: Shape) -> Net:
    """A small net, rectified in the end: patches found without labels for images, one hidden layer for columns."""
    return PatchNet(final="relu") if len(shape) == 3 else Mlp(hidden=(64,), final="relu")
