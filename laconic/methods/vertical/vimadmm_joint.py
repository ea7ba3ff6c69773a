"""VIMADMM-J: whole models at the parties, which send logits; several steps between two exchanges, by ADMM.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 3. Logits are far fewer numbers than a net's outputs, so that it is the cheapest of the family.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from laconic.core.party import Party
from laconic.core.step import step
from laconic.learn.kernels import widen
from laconic.learn.nets.nets import to_array
from laconic.learn.train.descent import take_steps
from laconic.methods.families.summed import LOGITS, SIGNAL, Admm, Summing
from laconic.values import Array


class VimAdmmJoint(Summing, frozen=True):
    """ADMM over whole local models: parties send their part of the logits, and keep their heads.

    Attributes:
        rho: how much it weighs that the parties' sum agrees with the hub's logits.
        local_steps: steps of each party for one exchange.
        damping: which share of the gap to the hub's logits each party closes; None is what suits the task (see `Admm`).
    """

    rho: float = 0.5
    local_steps: int = 20
    damping: float | None = None
    lr: float = 0.01

    long_products: ClassVar[bool] = True
    sends_logits: ClassVar[bool] = True

    @property
    def admm(self) -> Admm:
        """The settings above."""
        return Admm(self.rho, self.local_steps, self.damping)

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eqs. (17) and (18): logits and duals."""
        return self.admm.signal(hub, rows, self.logits(hub, messages), self.targets(hub, rows)).astype(self.precision)

    def improve(self, party: Party, signal: Array) -> None:
        """Eqs. (20) and (21): at each step the head first, then the net."""
        pull = self.admm.pull(self, party, party.memory["sent"].astype(np.float32) + signal.astype(np.float32))
        width, classes = party.memory["head"].shape
        head, speed = (widen(party.memory[name], rows=True) for name in ("head", "head velocity"))

        def slope(values: Tensor) -> Tensor:
            by_head = torch.mm(values.T, pull.beyond(values, head))
            speed.mul_(self.momentum).add_(by_head).add_(head, alpha=self.weight_decay)
            head.add_(speed, alpha=-self.lr)
            return pull.back(values, head)

        take_steps(pull.descent, self.local_steps, slope, self.rule)
        self.keep(party, pull.descent)
        party.memory["head"] = to_array(head[:width, :classes]).copy()
        party.memory["head velocity"] = to_array(speed[:width, :classes]).copy()

    @step(takes=SIGNAL, gives=f"{LOGITS}one batch of training rows")
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """Learn from the batch before, and send the next one."""
        return super().exchange(party, epoch, number, signal)

    @step(takes=None, gives=f"{LOGITS}the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through net and head."""
        return super().give_outputs(party, rows)
