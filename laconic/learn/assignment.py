"""Which target each row of a batch should chase: the least total squared distance, or nearly so."""

from typing import TypeAlias

import lap
import numpy as np

from laconic.core.values import Array, Settings


class Exact(Settings, frozen=True):
    """Find the best assignment of a batch's targets to its rows."""

    def assign(self, outputs: Array, targets: Array, epoch: int) -> Array:
        """The targets in their best order, each still there exactly once."""
        ordered: Array = targets[_best_order(outputs, targets)]
        return ordered


class Swaps(Settings, frozen=True):
    """Let pairs of rows swap targets where both are each other's best partner.

    A pass looks at all pairs of the batch in one matrix product. Rows meet others every epoch, so one pass is
    enough once the targets are roughly sorted; the first epoch sorts them exactly within small blocks.

    Attributes:
        block: rows in a block that is solved exactly in the first epoch.
    """

    block: int = 25

    def __post_init__(self) -> None:
        """Refuse a block below 1."""
        if self.block < 1:
            raise ValueError(f"block must be 1 or more, not {self.block}")

    def assign(self, outputs: Array, targets: Array, epoch: int) -> Array:
        """The targets in a better order, or the same, each still there exactly once."""
        targets = targets.copy()
        for start in range(0, len(targets), self.block) if epoch == 0 else ():
            rows = slice(start, start + self.block)
            targets[rows] = targets[rows][_best_order(outputs[rows], targets[rows])]
        return _swap(outputs, targets)


AnyAssignment: TypeAlias = Exact | Swaps


def _best_order(outputs: Array, targets: Array) -> Array:
    if len(targets) == 1:
        return np.zeros(1, dtype=np.intp)
    # Least squared distance is largest inner product: the squared norms are the same in every order.
    order: Array = lap.lapjvr(-(outputs @ targets.T))[-1]
    return order


def _swap(outputs: Array, targets: Array) -> Array:
    """Swap, in place, the targets of all pairs of rows that are each other's best partner."""
    rows = np.arange(len(targets))
    gain = outputs @ targets.T
    gain -= gain.diagonal().copy()
    gain = gain + gain.T
    partner = gain.argmax(axis=1)
    # The sum above is symmetric to the last bit, so that both rows of a pair agree on its gain.
    swapping = ((partner[partner] == rows) & (gain[rows, partner] > 0)).nonzero()[0]
    targets[swapping] = targets[partner[swapping]]
    return targets
