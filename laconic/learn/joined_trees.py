"""Trees whose rules are kept by several holders: what the label holder knows of them, and what they say of rows.

Every tree is padded to a complete one, as in `complete_trees`. Of each inner node the label holder knows who keeps its
rule and which of that holder's rules it is; what the rule says is known to its keeper alone.
"""

from collections.abc import Sequence

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array, Weights
from laconic.learn.complete_trees import ALWAYS
from laconic.learn.growth import nodes_in

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
        answers: what the rows of each node are told, shape (outputs, all nodes); of nodes below a leaf it may be
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
