"""Class heads that parties learnt by themselves, added up: a label holder's model that needs no training.

A model trained on what parties send for rows that they learnt from trusts them too much: they know these rows better
than any other. What a party's own head says of a row was learnt from all its rows. Where parties know independent
things of a row of a class, the log-odds of its class are the sum of theirs, how common a class is counted once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from laconic.core.task import Task
from laconic.core.values import Array, Settings, Weights
from laconic.learn.nets import Mlp, weights_of

LINEAR = Mlp(hidden=())
"""The form of heads added up."""


class Added(Settings, frozen=True):
    """The parties' own class heads added up; the label holder learns which class is which, and nothing else.

    Parties send their heads too: as many numbers for each class as for a row, and one more.
    """


class Part(NamedTuple):
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


def add_up(task: Task, parts: Sequence[Part], y: Array) -> Weights:
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


def _in_order(part: Part, codes: Array, count: int) -> Array:
    """A party's head with a column for each of so many classes, by the labels that its own come with most often.

    A class that it did not learn, as no row told it of it, is as rare as can be, whatever its numbers are.
    """
    numbers, head = part.numbers.astype(np.float32), part.head.astype(np.float32)
    together = np.zeros((count, head.shape[1]))
    np.add.at(together, (codes, (numbers @ head[:-1] + head[-1]).argmax(axis=1)), 1)
    # Parties told lies may have learnt more classes than the rows have.
    present = np.unique(codes)
    classes = present if len(present) >= head.shape[1] else np.arange(count)
    places, columns = linear_sum_assignment(together[classes], maximize=True)
    found = head[:, columns]
    if len(columns) == count:
        return found
    # Around their mean the largest of its log-odds is above zero: a class not learnt, below it, is never the likeliest.
    whole = np.zeros((len(head), count), np.float32)
    whole[-1] = -np.log(len(codes) + count)
    whole[:, classes[places]] = found - found.mean(axis=1, keepdims=True)
    return whole
