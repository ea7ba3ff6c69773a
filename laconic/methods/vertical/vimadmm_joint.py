"""VIMADMM-J: whole models at the parties, which send logits; several steps between two exchanges, by ADMM.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 3. Logits are far fewer numbers than a net's outputs, so that it is the cheapest of the family.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from laconic.core.party import Party
from laconic.learn.kernels import widen
from laconic.learn.nets.nets import to_array
from laconic.learn.train.descent import take_steps
from laconic.methods.families.summed import Admm, SummingLogits
from laconic.values import Array


class VimAdmmJoint(Admm, SummingLogits, frozen=True):
    """ADMM over whole local models: parties send their part of the logits, and keep their heads."""

    rho: float = 0.5
    lr: float = 0.01

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eqs. (17) and (18): logits and duals."""
        return self.signal_for(hub, rows, self.logits(hub, messages))

    def improve(self, party: Party, signal: Array) -> None:
        """Eqs. (20) and (21): at each step the head first, then the net."""
        pull = self.pull(party, party.memory["sent"].astype(np.float32) + signal.astype(np.float32))
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
