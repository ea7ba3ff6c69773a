"""FDML: whole models at the parties, whose logits are summed; one step of every model per batch.

Hu, Niu, Yang, Zhou: FDML: A Collaborative Machine Learning Framework for Distributed Features (KDD 2019), as the VIM
paper compares with it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.step import step
from laconic.learn.kernels import widen
from laconic.learn.nets.nets import to_array, to_tensor
from laconic.learn.train.descent import loss_gradient
from laconic.methods.families.summed import LOGITS, SIGNAL, Summing
from laconic.values import Array


class Fdml(Summing, frozen=True):
    """Summed logits by gradient descent: parties send their part of the logits, and keep their heads."""

    lr: float = 0.1
    epochs: int = 30

    sends_logits: ClassVar[bool] = True

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """The mean loss's gradient by the summed logits."""
        gradient = loss_gradient(task_of(hub), self.logits(hub, messages), self.targets(hub, rows))
        return (gradient / len(rows)).astype(self.precision)

    def improve(self, party: Party, signal: Array) -> None:
        """One step of head and net together."""
        by_logits = to_tensor(signal)
        head, speed = to_tensor(party.memory["head"]), to_tensor(party.memory["head velocity"])
        descent = self.descent(party, self.last_batch(party))
        by_head = torch.mm(descent.outputs().T, by_logits)[: len(head)]
        descent.descend(torch.mm(by_logits, widen(to_array(head).T)), self.rule)
        speed.mul_(self.momentum).add_(by_head).add_(head, alpha=self.weight_decay)
        head.add_(speed, alpha=-self.lr)
        self.keep(party, descent)
        party.memory["head"], party.memory["head velocity"] = to_array(head), to_array(speed)

    @step(takes=SIGNAL, gives=f"{LOGITS}one batch of training rows")
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """Learn from the batch before, and send the next one."""
        return super().exchange(party, epoch, number, signal)

    @step(takes=None, gives=f"{LOGITS}the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through net and head."""
        return super().give_outputs(party, rows)
