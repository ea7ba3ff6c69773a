"""FedCVT: split learning that also learns from rows which not all parties have, by guessing what the others would know.

Kang, Liu, Liang: FedCVT, Semi-supervised Vertical Federated Learning with Cross-view Training (2022). With every batch
of shared rows a party sends a batch of its own. The label holder guesses the other parties' numbers for those by
attention; where the model of that party's numbers alone and the joint model agree on a class, and both are sure, the
guess counts as a label. The authors split each party's net into a part of its own and a part common to all; here it is
one.
"""

from collections.abc import Mapping
from math import prod
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.step import step
from laconic.learn.device import device_now
from laconic.learn.nets.nets import Agreement, CrossView, Join, to_tensor
from laconic.methods.families import split as split_learning
from laconic.methods.families.rows import labelled, own_rows
from laconic.methods.families.split import LEAK, Split, SplitNet
from laconic.values import Array

_GIVES = (
    "its net's outputs for one batch of training rows, and for a batch of its people outside the overlap of all parties"
)


class FedCVT(SplitNet, frozen=True):
    """Split learning with pseudo-labels across views; its other settings are those of `SplitNet`.

    Attributes:
        ratio: own rows sent for each shared row.
        threshold: how sure both models must be of a class.
        weight: of the loss of pseudo-labelled rows.
        sharpness: of the attention that guesses missing numbers.
    """

    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")
    uses: ClassVar[tuple[str, ...]] = ("train", "valid", "own")

    ratio: float = 1.0
    threshold: float = 0.9
    weight: float = 0.5
    sharpness: float = 8.0

    def __post_init__(self) -> None:
        """Refuse values without meaning."""
        super().__post_init__()
        for name, value in {"ratio": self.ratio, "weight": self.weight, "sharpness": self.sharpness}.items():
            if value < 0:
                raise ValueError(f"{name} must be 0 or more, not {value}")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is a probability from 0 to 1, not {self.threshold}")

    @property
    def split(self) -> Split:
        """As in SplitNN, with own rows in every batch, and losses that count them."""
        return super().split._replace(batch=self._batch, loss=self._loss)

    def top(self, hub: Party, width: int) -> nn.Module:
        """The joint head, and beside it one linear head for each party's numbers alone."""
        if task_of(hub).kind not in self.tasks:
            raise ValueError("FedCVT gives pseudo-labels, which are classes; to predict numbers use SplitNN or FedBCD")
        own = [self._own_width(hub)] if hub.data.columns else []
        widths = [*own, *[self.width] * (width // self.width)]
        return CrossView(cast("Join", super().top(hub, width)), widths, task_of(hub).outputs)

    @step(takes=LEAK, gives=_GIVES)
    def exchange(self, party: Party, seed: int, epoch: int, number: int, gradient: Array | None) -> Array:
        """Learn from the batch before, and put the next one, shared and own rows, through the net."""
        return split_learning.exchange(self, party, seed, epoch, number, gradient)

    def _batch(self, party: Party, size: int) -> Tensor:
        """The shared rows of the batch, then own rows drawn for it."""
        shared = split_learning.shared_batch(party, size)
        return torch.cat((shared, self._own_batch(party, party.memory["batch"], len(shared))))

    def _loss(self, hub: Party, head: nn.Module, rows: Array, received: Mapping[str, Tensor]) -> Tensor:
        """The losses of shared rows, and those of own rows whose guessed labels count."""
        model = cast("CrossView", head)
        x, y = labelled(hub, "train")
        blocks = [values[: len(rows)] for values in received.values()]
        others = [values[len(rows) :] for values in received.values()]
        if hub.data.columns:
            drawn = self._own_batch(hub, [int(hub.rng.integers(2**31))], len(rows))
            blocks.insert(0, model.own(to_tensor(x[rows])))
            others.insert(0, model.own(drawn))
        rule = Agreement(self.threshold, self.weight, self.sharpness)
        return model.loss(blocks, torch.tensor(y[rows], dtype=torch.int64, device=device_now()), others, rule)

    def _own_width(self, hub: Party) -> int:
        if self.head is None:
            return self.width
        return prod(hub.data.shape) if self.head.own is None else self.head.width

    def _own_batch(self, party: Party, when: list[int], shared: int) -> Tensor:
        rows = own_rows(party)
        count = min(len(rows), round(self.ratio * shared))
        # One more number than the shared batch's own draw, so that the two have nothing to do with each other.
        drawn = np.random.default_rng([*when, 1]).permutation(len(rows))[:count]
        return to_tensor(rows[drawn])
