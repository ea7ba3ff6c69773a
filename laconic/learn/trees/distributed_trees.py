"""Trees whose rules are kept by several holders: what the label holder knows of them, and what they say of rows.

Every tree is padded to a complete one, as in `complete_trees`. Of each inner node the label holder knows who keeps its
rule and which of that holder's rules it is; what the rule says is known to its keeper alone.
"""

from collections.abc import Sequence

import numpy as np

from laconic.learn.trees.dense_trees import ALWAYS
from laconic.learn.trees.party_histograms import Splits, child_of, leaf_of, nodes_in, pairs_of
from laconic.tables.task import Task
from laconic.values import Array, Weights

NOBODY = -1
"""The holder of a padding node, at which all rows go left."""


def no_trees(task: Task, depth: int, base: float) -> Weights:
    """A model without trees yet."""
    inner, leaves = nodes_in(depth) // 2 - 1, nodes_in(depth) // 2
    return {
        "holder": np.empty((0, inner), np.int16),
        "rule": np.empty((0, inner), np.int32),
        "leaf": np.empty((0, leaves), np.float32),
        "output": np.empty(0, np.int16),
        "base": np.full(task.outputs, base, np.float32),
    }


def with_trees(model: Weights, holder: Array, rule: Array, answers: Array) -> Weights:
    """The model with one more tree for each output.

    Args:
        model: what there is.
        holder, rule: who keeps the rule of each inner node, and which of its rules it is, shape (outputs, inner nodes).
        answers: the answer for the rows of each node, shape (outputs, all nodes); of nodes below a leaf it may be
            anything.
    """
    inner, answers = holder.shape[1], answers.copy()
    for node in range(inner):
        ends = holder[:, node] == NOBODY
        for child in (2 * node + 1, 2 * node + 2):
            answers[ends, child] = answers[ends, node]
    added = {"holder": holder, "rule": rule, "leaf": answers[:, inner:], "output": np.arange(len(holder))}
    return model | {name: np.concatenate([model[name], part.astype(model[name].dtype)]) for name, part in added.items()}


def from_columns(task: Task, trees: Weights, widths: Sequence[int], base: float) -> Weights:
    """A model from complete trees over all holders' columns side by side, of which each has so many.

    A holder's rules are numbered as `rules_within` gives them.
    """
    column, real = trees["column"], trees["threshold"] < ALWAYS
    holder = np.where(real, np.searchsorted(np.cumsum(widths), column, side="right"), NOBODY)
    rule = np.zeros(column.shape, np.int32)
    for number in range(len(widths)):
        mine = holder == number
        rule[mine] = np.arange(mine.sum())
    bases = np.full(task.outputs, base, np.float32)
    said = {"leaf": trees["leaf"], "output": trees["output"]}
    return {"holder": holder.astype(np.int16), "rule": rule, "base": bases, **said}


def rules_within(trees: Weights, first: int, width: int) -> Weights:
    """Of complete trees over everybody's columns, the rules of `width` columns from `first` on, for `rule_sides`."""
    column = trees["column"].astype(np.int64) - first
    mine = (column >= 0) & (column < width) & (trees["threshold"] < ALWAYS)
    return {"column": column[mine], "edge": trees["threshold"][mine]}


def predict_joined(task: Task, model: Weights, sides: Sequence[Array], rows: int) -> Array:
    """Probabilities, or numbers, for rows.

    Args:
        task: what is predicted.
        model: from `with_trees`.
        sides: each holder's bits, from `rule_sides`.
        rows: how many rows there are.
    """
    from scipy.special import expit, softmax

    sums = np.repeat(model["base"][:, None].astype(np.float64), rows, axis=1)
    for holder, rule, leaf, output in zip(*(model[name] for name in ("holder", "rule", "leaf", "output")), strict=True):
        sums[output] += leaf[_leaves(holder, rule, sides, rows)]
    if task.kind == "regression":
        return np.asarray(sums[0])
    return np.asarray(expit(sums[0]) if task.kind == "binary" else softmax(sums, axis=0).T)


def _leaves(holder: Array, rule: Array, sides: Sequence[Array], rows: int) -> Array:
    """The leaf of one tree that each row ends in."""
    right = np.zeros((len(holder), rows), dtype=np.uint8)
    for number, packed in enumerate(sides):
        mine = np.flatnonzero(holder == number)
        right[mine] = np.unpackbits(packed[rule[mine]], axis=1, count=rows)
    at, everyone = np.zeros(rows, dtype=np.int64), np.arange(rows)
    for _ in range((len(holder) + 1).bit_length() - 1):
        at += at + 1 + right[at, everyone]
    return at - len(holder)


_LEAST_GAIN = 1e-6
"""XGBoost splits a node only for more than this."""


class TreeBuilder:
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
        """The answer for the rows of each node."""
        return leaf_of(self._totals, penalty) * np.float32(lr)

    def add_to(self, model: Weights, answers: Array) -> Weights:
        """The model with these trees."""
        trees = nodes_in(self._depth)
        inner = trees // 2 - 1
        holder, rule, leaves = (one.reshape(-1, trees) for one in (self._holder, self._rule, answers))
        return with_trees(model, holder[:, :inner], rule[:, :inner], leaves[:, : trees - 1])


_LEAST = np.float32(1e-16)
_ONE = np.float32(1.0)


def first_margins(task: Task, y: Array) -> Array:
    """What is said of every row before the first tree, shape (outputs, rows): the mean for numbers, else nothing."""
    start = float(np.mean(y)) if task.kind == "regression" else 0.0
    return np.full((task.outputs, len(y)), start, dtype=np.float32)


def gradients(task: Task, margins: Array, y: Array) -> Array:
    """Gradient and hessian of the loss at each margin, shape (outputs, rows, 2), float32."""
    if task.kind == "regression":
        first = margins - y.astype(np.float32)
        return np.stack([first, np.ones_like(first)], axis=-1)
    if task.kind == "binary":
        shares = _ONE / (_exp(-margins) + _ONE)
        wanted = y.astype(np.float32)[None]
        second = shares * (_ONE - shares)
    else:
        powers = _exp(margins - margins.max(axis=0))
        shares = powers / powers.sum(axis=0, dtype=np.float64).astype(np.float32)
        wanted = np.eye(task.outputs, dtype=np.float32)[:, y]
        second = np.float32(2.0) * shares * (_ONE - shares)
    return np.stack([shares - wanted, np.maximum(second, _LEAST)], axis=-1)


def _exp(values: Array) -> Array:
    # Exact to the last bit of float32, as C's is nearly always; numpy's own float32 function is not.
    return np.exp(np.minimum(values.astype(np.float64), 88.7)).astype(np.float32)
