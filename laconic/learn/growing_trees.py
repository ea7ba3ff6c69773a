"""Trees under way, one for each output: which nodes are open, which splits were picked, and what is known of each node.

Nodes are numbered as in `laconic.learn.growth`, holders of columns by their place among all holders.
"""

from collections.abc import Sequence

import numpy as np

from laconic.core.values import Array, Weights
from laconic.learn.growth import child_of, nodes_in, pairs_of
from laconic.learn.histograms import Splits, leaf_of
from laconic.learn.joined_trees import NOBODY, with_trees

_LEAST_GAIN = 1e-6
"""XGBoost splits a node only for more than this."""


class GrowingTrees:
    """One round of boosting, as whoever picks the splits sees it.

    Attributes:
        open: the nodes of this level, which may be split.
        built: those whose histograms are asked for; the others are parent less sibling.
        split: the nodes of the level above that `open` are the children of; none at the root.
    """

    def __init__(self, outputs: int, depth: int, roots: Array, totals: Array) -> None:
        self.open, self.built, self.split = roots, roots, roots[:0]
        self._depth = depth
        self._totals = np.zeros((outputs * nodes_in(depth), 2))
        self._totals[roots] = totals
        self._holder = np.full(len(self._totals), NOBODY)
        self._rule = np.zeros(len(self._totals), np.int64)

    @property
    def totals(self) -> Array:
        """Sums of gradients and hessians of the open nodes."""
        return np.asarray(self._totals[self.open])

    def pick(self, offers: Sequence[Splits], rules: Sequence[int]) -> dict[int, tuple[Array, Array, Array]]:
        """Take the best offer for each open node, and go on to the nodes below.

        Args:
            offers: each holder's best splits of the open nodes. Of equally good ones the first holder's is taken, as
                XGBoost takes the first column's.
            rules: how many rules each holder keeps already.

        Returns:
            By holder, the nodes that it is to split, and by which column and cut.
        """
        gains = np.stack([offer.gain for offer in offers])
        winner = gains.argmax(axis=0)
        wanted = np.flatnonzero(gains.max(axis=0) > _LEAST_GAIN)
        chosen, winner = self.open[wanted], winner[wanted]
        left, right = (
            np.array([getattr(offers[who], side)[at] for who, at in zip(winner, wanted, strict=True)]).reshape(-1, 2)
            for side in ("left", "right")
        )
        picked = {}
        for who in np.unique(winner).tolist():
            mine, at = chosen[winner == who], wanted[winner == who]
            picked[who] = (mine, offers[who].column[at], offers[who].cut[at])
            self._holder[mine], self._rule[mine] = who, rules[who] + np.arange(len(mine))
        self.split, self.open = chosen, pairs_of(chosen, self._depth)
        self._totals[child_of(chosen, 0, self._depth)] = left
        self._totals[child_of(chosen, 1, self._depth)] = right
        # The lighter child, as XGBoost does it: the other's histogram follows with the same rounding.
        self.built = child_of(chosen, right[:, 1] < left[:, 1], self._depth)
        return picked

    def answers(self, lr: float, penalty: float) -> Array:
        """What the rows of each node are told."""
        return leaf_of(self._totals, penalty) * np.float32(lr)

    def add_to(self, model: Weights, answers: Array) -> Weights:
        """The model with these trees."""
        trees = nodes_in(self._depth)
        inner = trees // 2 - 1
        holder, rule, told = (one.reshape(-1, trees) for one in (self._holder, self._rule, answers))
        return with_trees(model, holder[:, :inner], rule[:, :inner], told[:, : trees - 1])
