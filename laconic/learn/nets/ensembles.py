"""Several nets of one form that learn side by side, and speak as one: their numbers are averaged.

Nets that start from different weights err in different places. Averaged, they know how sure to be, which one net that
has learnt few rows by heart does not; where parties' words are added up, that matters more than being right alone.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from torch import Tensor, nn

from laconic.learn.nets.layers import Shape
from laconic.learn.nets.nets import Mlp, Net, weights_of
from laconic.tables.task import Task
from laconic.values import Array, Settings, Weights, check_least


class Ensemble(Settings, frozen=True):
    """Nets of one form whose numbers are averaged: no more numbers cross than from one, for `count` times the work.

    What a class head says of the mean is the mean of what it says of each, since it is linear.

    Attributes:
        net: the form of each.
        count: how many.
    """

    net: Net
    count: int = 2

    def __post_init__(self) -> None:
        check_least(1, count=self.count)

    def build(self, shape: Shape, outputs: int) -> "Members":
        """The nets for rows of this shape, their weights unset."""
        return Members(self.net.build(shape, outputs) for _ in range(self.count))


class Members(nn.ModuleList):
    """What `Ensemble` builds."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean of what all make of the rows."""
        total: Tensor = sum(member(x) for member in self)
        return total / len(self)


AnyExtractor: TypeAlias = Net | Ensemble
"""A net, or several, that puts a row into a few numbers."""


def members_of(body: nn.Module) -> list[nn.Module]:
    """The nets that learn each by itself in a body built by `AnyExtractor`."""
    return list(body) if isinstance(body, Members) else [body]


LINEAR = Mlp(hidden=())
"""The form of heads added up."""


class SummedHeads(Settings, frozen=True):
    """The parties' own class heads added up; the label holder learns which class is which, and nothing else.

    Parties send their heads too: as many numbers for each class as for a row, and one more.
    """


class PartLayer(NamedTuple):
    """What one party brings.

    Attributes:
        numbers: what its net puts out for labelled rows, (rows, width).
        head: what its class head makes of them, (width + 1, classes), the biases last; classes have names of its own.
    """

    numbers: Array
    head: Array


def class_head(local: Weights) -> Array:
    """The class head in the weights of an `Extractor`, as `Part` has it."""
    return np.concatenate([local["head.weight"].T, local["head.bias"][None]])


def add_up(task: Task, parts: Sequence[PartLayer], y: Array) -> Weights:
    """The weights of `LINEAR` on all parties' numbers side by side, given the rows' labels."""
    count = 2 if task.kind == "binary" else len(task.classes)
    codes = np.asarray(y, dtype=np.int64)
    heads = [_in_order(part, codes, count) for part in parts]
    matrix = np.concatenate([head[:-1] for head in heads])
    shares = (np.bincount(codes, minlength=count) + 1) / (len(codes) + count)
    bias = np.sum([head[-1] for head in heads], axis=0) - (len(heads) - 1) * np.log(shares)
    if task.kind == "binary":
        matrix, bias = matrix[:, 1:] - matrix[:, :1], bias[1:] - bias[:1]
    names = weights_of(LINEAR.build(matrix.shape[:1], matrix.shape[1]))
    return dict(zip(names, (np.ascontiguousarray(matrix.T, np.float32), bias.astype(np.float32)), strict=True))


def _in_order(part: PartLayer, codes: Array, count: int) -> Array:
    """A party's head with a column for each of so many classes, by the labels that its own come with most often.

    A class that it did not learn, as no labelled row had it, counts as the rarest, whatever its numbers are.
    """
    numbers, head = part.numbers.astype(np.float32), part.head.astype(np.float32)
    together = np.zeros((count, head.shape[1]))
    np.add.at(together, (codes, (numbers @ head[:-1] + head[-1]).argmax(axis=1)), 1)
    # Under randomised response, parties may have learnt more classes than the rows have.
    present = np.unique(codes)
    classes = present if len(present) >= head.shape[1] else np.arange(count)
    from scipy.optimize import linear_sum_assignment

    places, columns = linear_sum_assignment(together[classes], maximize=True)
    found = head[:, columns]
    if len(columns) == count:
        return found
    # Around their mean the largest of its log-odds is above zero: a class not learnt, below it, is never the likeliest.
    whole = np.zeros((len(head), count), np.float32)
    whole[-1] = -np.log(len(codes) + count)
    whole[:, classes[places]] = found - found.mean(axis=1, keepdims=True)
    return whole
