"""Attention: guess the numbers that a row would have at another party, from rows that both parties know.

A row's guess is the mean of the known rows' numbers, weighted by how similar the rows are where both can be seen:
scaled dot-product attention, as few-shot VFL and FedCVT use it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.nets.layers import Linear
from laconic.learn.nets.nets import Join, to_array, to_tensor
from laconic.values import Array, Settings

_GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Attention(Settings, frozen=True):
    """How similar two rows have to be to learn from each other.

    Rows are centred and brought to length 1 before they are compared: raw ones, as in the paper, are dominated by
    whichever rows have large numbers, and the weights then collapse onto single rows.

    Attributes:
        sharpness: what similarities, from -1 to 1, are multiplied by; large looks at the most similar rows alone. None
            takes the one that guesses each known row best from all the other known rows.
    """

    sharpness: float | None = None

    def __post_init__(self) -> None:
        if self.sharpness is not None and self.sharpness < 0:
            raise ValueError(f"sharpness must be 0 or more, not {self.sharpness}; None finds one")

    def estimate(self, rows: Array, known: Array, missing: Array) -> Array:
        """The missing numbers of `rows`.

        Args:
            rows: what can be seen of them, shape (rows, seen).
            known: what can be seen of the rows known in full, shape (known rows, seen).
            missing: the known rows' other numbers, shape (known rows, missing).
        """
        queries, keys, values = to_tensor(rows), to_tensor(known), to_tensor(missing)
        sharpness = self.sharpness if self.sharpness is not None else best_sharpness(keys, values)
        parts = [attend(part, keys, values, sharpness) for part in torch.split(queries, 4096)]
        return to_array(torch.cat(parts))


def attend(queries: Tensor, keys: Tensor, values: Tensor, sharpness: float) -> Tensor:
    """The values' mean for each query, weighted by the likeness of query and key."""
    centre = keys.mean(dim=0)
    return (sharpness * _likeness(queries - centre, keys - centre)).softmax(dim=1) @ values


def best_sharpness(keys: Tensor, values: Tensor) -> float:
    """The sharpness with which every row's values are best guessed from those of all other rows."""
    if len(keys) < 2:
        return _GRID[0]
    likeness = _likeness(keys - keys.mean(dim=0), keys - keys.mean(dim=0)).fill_diagonal_(-np.inf)
    errors = [float(functional.mse_loss((one * likeness).softmax(dim=1) @ values, values)) for one in _GRID]
    return _GRID[int(np.argmin(errors))]


def _likeness(queries: Tensor, keys: Tensor) -> Tensor:
    return functional.normalize(queries, dim=1) @ functional.normalize(keys, dim=1).T


class Agreement(NamedTuple):
    """When a guess counts as a label: how sure both heads are, what it weighs, and how missing numbers are guessed."""

    threshold: float
    weight: float
    sharpness: float


class CrossView(nn.Module):
    """A joint head for classes, and beside it one linear head for each party's block of numbers.

    Called like the joint head alone, which is what predicts.
    """

    def __init__(self, joint: Join, widths: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.joint = joint
        self.views = nn.ModuleList(Linear(width, outputs) for width in widths)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The joint head's outputs."""
        outputs: Tensor = self.joint(*inputs)
        return outputs

    def own(self, x: Tensor) -> Tensor:
        """The block of numbers that the label holder's own net makes of its columns."""
        return torch.flatten(x, 1) if self.joint.own is None else self.joint.own(x)

    def loss(self, blocks: list[Tensor], targets: Tensor, others: list[Tensor], rule: Agreement) -> Tensor:
        """The loss of shared rows for every head, and of each party's other rows where two heads agree on them.

        Args:
            blocks: each party's numbers for the shared rows.
            targets: the shared rows' class codes.
            others: each party's numbers for rows of its own, outside the overlap; may be none.
            rule: when an agreement counts.
        """
        logits = [self._all(blocks), *(self._alone(place, block) for place, block in enumerate(blocks))]
        total = torch.stack([functional.cross_entropy(one, targets) for one in logits]).sum()
        for place, rows in enumerate(others):
            if len(rows):
                total = total + rule.weight * self._guessed(blocks, place, rows, rule)
        return total

    def _guessed(self, blocks: list[Tensor], place: int, rows: Tensor, rule: Agreement) -> Tensor:
        # Guesses are made from shared rows as they are: unlabelled rows must not move labelled ones.
        keys = blocks[place].detach()
        guesses = [attend(rows, keys, block.detach(), rule.sharpness) for block in blocks]
        whole = [*guesses[:place], rows, *guesses[place + 1 :]]
        both = torch.stack((self._all(whole), self._alone(place, rows)))
        sure, labels = both.detach().softmax(dim=2).max(dim=2)
        keep = (labels[0] == labels[1]) & (sure > rule.threshold).all(dim=0)
        losses = torch.stack([functional.cross_entropy(one, labels[0], reduction="none") for one in both])
        return (losses.sum(dim=0) * keep).mean()

    def _all(self, blocks: list[Tensor]) -> Tensor:
        return _of_classes(self.joint.head(torch.cat(blocks, dim=1)))

    def _alone(self, place: int, block: Tensor) -> Tensor:
        return _of_classes(self.views[place](block))


def _of_classes(outputs: Tensor) -> Tensor:
    """A logit for each class: a single output is that of class 1 against class 0."""
    return outputs if outputs.shape[1] > 1 else torch.cat((torch.zeros_like(outputs), outputs), dim=1)
