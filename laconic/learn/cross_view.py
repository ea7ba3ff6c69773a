"""Cross-view training: a joint head on all parties' numbers, one on each party's alone, and how they agree."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.attention import attend
from laconic.learn.layers import Linear
from laconic.learn.nets import Join


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
