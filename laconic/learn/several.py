"""Several nets of one form that learn side by side, and speak as one: their numbers are averaged.

Nets that start from different weights err in different places. Averaged, they know how sure to be, which one net that
has learnt few rows by heart does not; where parties' words are added up, that matters more than being right alone.
"""

from typing import TypeAlias

from torch import Tensor, nn

from laconic.core.values import Settings
from laconic.learn.nets import Net, Shape


class Several(Settings, frozen=True):
    """Nets of one form whose numbers are averaged: no more numbers cross than from one, for `count` times the work.

    What a class head says of the mean is the mean of what it says of each, since it is linear.

    Attributes:
        net: the form of each.
        count: how many.
    """

    net: Net
    count: int = 2

    def __post_init__(self) -> None:
        """Refuse to average nothing."""
        if self.count < 1:
            raise ValueError(f"count must be 1 or more, not {self.count}")

    def build(self, shape: Shape, outputs: int) -> "Members":
        """The nets for rows of this shape, their weights unset."""
        return Members(self.net.build(shape, outputs) for _ in range(self.count))


class Members(nn.ModuleList):
    """What `Several` builds."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean of what all make of the rows."""
        total: Tensor = sum(member(x) for member in self)
        return total / len(self)


AnyExtractor: TypeAlias = Net | Several
"""A net, or several, that puts a row into a few numbers."""


def members_of(body: nn.Module) -> list[nn.Module]:
    """The nets that learn each by itself in a body built by `AnyExtractor`."""
    return list(body) if isinstance(body, Members) else [body]
