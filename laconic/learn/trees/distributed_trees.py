"""Trees whose rules are kept by several holders: each party's part in growing them, and what the label holder knows.

**A party** knows which node each row is in, histograms of its columns, and its sides of splits. Several trees may grow
at once, one for each output. A node is known by one number: its place in its tree, counted level by level from 0 at the
root, plus the tree's number times `nodes_in(depth)`. What is kept is a dict of plain values, so that a party may keep
it in its memory:

    edges, counts   its bins, from `fit_bins`
    flat            the bin of each cell of its training rows
    at              the node that each row is in, shape (outputs, rows)
    gradients       gradient and hessian of each row, shape (outputs, rows, 2)
    column, edge    the rule of each split that is its own, in the order in which they were made

**The label holder** pads every tree to a complete one, as in `complete_trees`. Of each inner node it knows who keeps
its rule and which of that holder's rules it is; what the rule says is known to its keeper alone.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import msgspec
import numpy as np

from laconic.learn.trees.dense_trees import ALWAYS
from laconic.tables.task import Task
from laconic.values import Array, Weights

_LEAST_WEIGHT = 1.0
"""The least sum of hessians on either side of a split: XGBoost's `min_child_weight`."""


class Splits(msgspec.Struct, frozen=True):
    """The best split of each of some nodes.

    Attributes:
        gain: how much it lowers the loss, float32; minus infinity where a node cannot be split.
        column: which column it looks at. cut: rows in bins up to this one go left.
        left, right: sums of gradients and hessians on either side, shape (nodes, 2).
    """

    gain: Array
    column: Array
    cut: Array
    left: Array
    right: Array


def fit_bins(x: Array, most: int) -> Weights:
    """Cut each column into at most so many bins of about equally many rows.

    Returns:
        `edges`, the upper edges of all bins of all columns one after the other, and `counts`, how many each column has.
    """
    import xgboost

    # XGBoost cuts each column by itself, so a party's bins are those that it would find on everybody's columns.
    rows = xgboost.QuantileDMatrix(np.ascontiguousarray(x, dtype=np.float32), max_bin=most, nthread=1)
    starts, values = rows.get_quantile_cut()
    starts = starts.astype(np.int64)
    # The first number of each column is its least value, which is no edge.
    edges = np.delete(values, starts[:-1])
    return {"edges": edges, "counts": (np.diff(starts) - 1).astype(np.int32)}


def to_bins(bins: Weights, x: Array) -> Array:
    """The flat bin of each cell, shape (rows, columns)."""
    starts = np.cumsum([0, *bins["counts"]])
    flat = np.empty(x.shape, dtype=np.uint16 if starts[-1] < 2**16 else np.int32)
    for place, (start, end) in enumerate(pairwise(starts)):
        within = np.searchsorted(bins["edges"][start:end], x[:, place].astype(np.float32), side="right")
        flat[:, place] = start + np.minimum(within, end - start - 1)
    return flat


def add_up(flat: Array, gradients: Array, slots: Array, count: int, width: int) -> Array:
    """The histograms of some nodes, shape (count, width, 2).

    Args:
        flat: bins of the rows concerned, from `to_bins`.
        gradients: gradient and hessian of each of these rows, shape (rows, 2).
        slots: which node, from 0 to `count` - 1, each of these rows is in.
        count: how many nodes there are.
        width: how many bins all columns have together.
    """
    columns = flat.shape[1]
    places = (slots.astype(np.int64)[:, None] * width + flat).ravel()
    sums = [
        np.bincount(places, np.repeat(gradients[:, one].astype(np.float64), columns), count * width) for one in (0, 1)
    ]
    return np.stack(sums, axis=-1).reshape(count, width, 2)


def best_splits(histograms: Array, counts: Array, totals: Array, penalty: float) -> Splits:
    """The split of each node that lowers the loss most; of equally good ones the first.

    Args:
        histograms: of some nodes, shape (nodes, bins of all columns, 2).
        counts: how many bins each column has.
        totals: sums of gradients and hessians of each node, shape (nodes, 2).
        penalty: weight of the squared size of the leaves.
    """
    padded = _padded(histograms, counts)
    nodes = np.arange(len(padded))
    before = _score(totals, penalty)[:, None, None]
    ahead = padded.cumsum(axis=2)
    behind = padded[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    whole = totals[:, None, None]
    ways = [_try(ahead, whole - ahead, before, penalty)]
    # Where rounding lets a column's sum differ from the node's, XGBoost suspects missing cells and looks from the other
    # end too; its winner there is kept only if it is better.
    suspect = (ahead[:, :, -1] != totals[:, None]).any(axis=2)
    shifted = np.zeros_like(behind)
    shifted[:, :, :-1] = behind[:, :, 1:]
    ways.append(np.where(suspect[:, :, None], _try(whole - shifted, shifted, before, penalty), -np.inf))
    forward, backward = ways[0].argmax(axis=2), ways[1].shape[2] - 1 - ways[1][:, :, ::-1].argmax(axis=2)
    best = [
        np.take_along_axis(way, at[:, :, None], axis=2)[:, :, 0]
        for way, at in zip(ways, (forward, backward), strict=True)
    ]
    turned = best[1] > best[0]
    column = np.where(turned, best[1], best[0]).argmax(axis=1)
    is_turned = turned[nodes, column]
    cut = np.where(is_turned, backward[nodes, column], forward[nodes, column])
    gain = np.where(is_turned, best[1][nodes, column], best[0][nodes, column]).astype(np.float32)
    left, right = ahead[nodes, column, cut], shifted[nodes, column, cut]
    return Splits(
        gain,
        column,
        cut,
        np.where(is_turned[:, None], totals - right, left),
        np.where(is_turned[:, None], right, totals - left),
    )


def leaf_of(totals: Array, penalty: float) -> Array:
    """The answer for the rows of each node, before the learning rate, float32."""
    sums, weights = totals[..., 0], totals[..., 1]
    alone = weights < _LEAST_WEIGHT
    return np.where(alone, 0.0, -sums / np.where(alone, 1.0, weights + penalty)).astype(np.float32)


def _padded(histograms: Array, counts: Array) -> Array:
    """With an axis of columns and one of bins; columns with fewer bins are filled with empty ones."""
    wide = np.zeros((len(histograms), len(counts), int(counts.max()), 2))
    there = np.arange(wide.shape[2]) < counts[:, None]
    wide[:, there] = histograms
    return wide


def _score(totals: Array, penalty: float) -> Array:
    """How much a leaf lowers the loss of its rows, rounded as XGBoost rounds it."""
    answer = leaf_of(totals, penalty)
    sums, weights = totals[..., 0], totals[..., 1] + penalty
    return np.asarray(-(2.0 * sums * answer + weights * (answer * answer)), dtype=np.float32)


def _try(left: Array, right: Array, before: Array, penalty: float) -> Array:
    enough = (left[..., 1] >= _LEAST_WEIGHT) & (right[..., 1] >= _LEAST_WEIGHT)
    gain = _score(left, penalty) + _score(right, penalty) - before
    return np.where(enough, gain, np.float32(-np.inf))


State = dict[str, Any]
_RULES_AT_ONCE = 1024


def nodes_in(depth: int) -> int:
    """How many numbers are set aside for the nodes of one tree."""
    return int(2 ** (depth + 1))


def begin_growth(x: Array, bins: int) -> State:
    """Cut training rows into bins; rows without columns have none."""
    rows = x.reshape(len(x), prod(x.shape[1:]))
    found = fit_bins(rows, bins) if rows.shape[1] else {"edges": np.empty(0, np.float32), "counts": np.empty(0, int)}
    none = np.empty(0, np.int64)
    return found | {"flat": to_bins(found, rows), "column": none, "edge": np.empty(0, np.float32)}


def begin_trees(state: State, outputs: int, depth: int) -> None:
    """Put every row at the root of a new tree for each output."""
    roots = np.arange(outputs, dtype=np.int32) * nodes_in(depth)
    state["at"] = np.repeat(roots[:, None], len(state["flat"]), axis=1)


def rows_of(state: State, nodes: Array) -> tuple[Array, Array]:
    """Where in `at`, read flat, the rows of these nodes are, and the place of each one's node among them."""
    at = state["at"].ravel()
    place = np.full(int(max(at.max(initial=0), nodes.max(initial=0))) + 1, -1, dtype=np.int32)
    place[nodes] = np.arange(len(nodes))
    where = place.take(at)
    there = np.flatnonzero(where >= 0)
    return there, where.take(there)


def move(state: State, nodes: Array, right: Array, depth: int) -> None:
    """Send the rows of split nodes to their children; `right` has a bit for each, in the order of `rows_of`."""
    there, _ = rows_of(state, nodes)
    at = state["at"].ravel()
    at[there] = child_of(at[there], np.unpackbits(right, count=len(there)), depth)
    state["at"] = at.reshape(state["at"].shape)


def child_of(nodes: Array, right: Array | int, depth: int) -> Array:
    """The left or the right child of each node."""
    # The number of nodes set aside is a power of two.
    return np.asarray(nodes + (nodes & (nodes_in(depth) - 1)) + 1 + right)


def histograms_of(state: State, nodes: Array) -> Array:
    """The histograms of these nodes, shape (nodes, bins of all columns, 2)."""
    there, slots = rows_of(state, nodes)
    rows, width = state["flat"].shape[0], int(state["counts"].sum())
    return add_up(state["flat"][there % rows], state["gradients"].reshape(-1, 2)[there], slots, len(nodes), width)


def sums_of(state: State, nodes: Array) -> tuple[Array, Array, int]:
    """What `histograms_of` adds up: rows, read flat over outputs, and the sum each is added to, of how many."""
    there, slots = rows_of(state, nodes)
    flat, width = state["flat"], int(state["counts"].sum())
    sums = slots.astype(np.int64)[:, None] * width + flat[there % len(flat)]
    return np.repeat(there, flat.shape[1]), sums.ravel(), len(nodes) * width


def complete_pairs(state: State, split: Array, built: Array, found: Array, depth: int) -> Array:
    """The histograms of all nodes of a level from those that were built; the rest are parent less sibling.

    `state` remembers the level's nodes in `open` and their histograms in `sums`, for the next level.

    Args:
        state: what was remembered of the level above; nothing at the root.
        split: the nodes of the level above that were split; none at the root.
        built: the child of each whose histogram was built; at the root, all nodes.
        found: the histograms built.
        depth: of the trees.
    """
    if not len(split):
        state["open"], state["sums"] = built, found
        return found
    order = np.argsort(state["open"])
    parents = state["sums"][order[np.searchsorted(state["open"], split, sorter=order)]]
    is_left = (built == child_of(split, 0, depth))[:, None, None]
    pairs = np.stack([np.where(is_left, found, parents - found), np.where(is_left, parents - found, found)], axis=1)
    state["open"], state["sums"] = pairs_of(split, depth), pairs.reshape(-1, *found.shape[1:])
    return np.asarray(state["sums"])


def pairs_of(split: Array, depth: int) -> Array:
    """Both children of each node, left before right."""
    return np.stack([child_of(split, 0, depth), child_of(split, 1, depth)], axis=1).ravel()


def sides(state: State, nodes: Array, columns: Array, cuts: Array) -> Array:
    """Split nodes by columns of one's own: note each rule, and say which rows go right, as bits as for `move`."""
    edges = np.cumsum([0, *state["counts"]])[columns] + cuts
    state["column"] = np.concatenate([state["column"], columns.astype(np.int64)])
    state["edge"] = np.concatenate([state["edge"], state["edges"][edges]])
    there, slots = rows_of(state, nodes)
    return np.packbits(state["flat"][there % len(state["flat"]), columns[slots]] > edges[slots])


def rule_sides(state: State, x: Array) -> Array:
    """For each rule of one's own, which of these rows go right: bits, shape (rules, rows / 8)."""
    by_column = np.ascontiguousarray(x.reshape(len(x), prod(x.shape[1:])).T, dtype=np.float32)
    packed = np.empty((len(state["column"]), -(-len(x) // 8)), dtype=np.uint8)
    for start in range(0, len(packed), _RULES_AT_ONCE):
        some = slice(start, start + _RULES_AT_ONCE)
        packed[some] = np.packbits(by_column[state["column"][some]] >= state["edge"][some, None], axis=1)
    return packed


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
