"""Everything that can be put on what a party's net puts out."""

from typing import TypeAlias

from laconic.privacy.outputs import AsPublished, BatchClip, PureNoise, RowsOnce
from laconic.privacy.steps import PrivateSteps

AnyProtection: TypeAlias = RowsOnce | PrivateSteps | BatchClip | AsPublished | PureNoise
