"""One party's part in growing trees: which node each row is in, histograms of its columns, and its sides of splits.

Several trees may grow at once, one for each output. A node is known by one number: its place in its tree, counted level
by level from 0 at the root, plus the tree's number times `nodes_in(depth)`. What is kept is a dict of plain values, so
that a party may keep it in its memory:

    edges, counts   its bins, from `fit_bins`
    flat            the bin of each cell of its training rows
    at              the node that each row is in, shape (outputs, rows)
    gradients       gradient and hessian of each row, shape (outputs, rows, 2)
    column, edge    the rule of each split that is its own, in the order in which they were made
"""

from math import prod
from typing import Any

import numpy as np

from laconic.core.values import Array
from laconic.learn.histograms import add_up, fit_bins, to_bins

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
