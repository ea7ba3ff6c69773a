"""VIMADMM-J: whole models at the parties, which send logits; several steps between two exchanges, by ADMM.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 3. Logits are far fewer numbers than a net's outputs, so that it is the cheapest of the family.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from laconic.core.party import Party
from laconic.core.values import Array
from laconic.learn.nets import to_tensor
from laconic.methods.admm import Admm


class VimAdmmJoint(Admm, frozen=True):
    """ADMM over whole local models: parties send their part of the logits, and keep their heads."""

    rho: float = 0.5
    lr: float = 0.01

    sends_logits: ClassVar[bool] = True

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eqs. (17) and (18): logits and duals."""
        return self.signal_for(hub, rows, self.logits(hub, messages))

    def improve(self, party: Party, signal: Array) -> None:
        """Eqs. (20) and (21): at each step the head first, then the net."""
        goal = to_tensor(party.memory["sent"].astype(np.float32) + signal)
        weight = self.rho / len(goal)
        head, speed = to_tensor(party.memory["head"]), to_tensor(party.memory["head velocity"])
        descent = self.descent(party, self.local_steps)
        for _ in range(self.local_steps):
            values = descent.outputs()
            beyond = torch.addmm(goal, values, head, beta=-1).mul_(weight)
            speed.mul_(self.momentum).add_(torch.mm(values.T, beyond)).add_(head, alpha=self.weight_decay)
            head.add_(speed, alpha=-self.lr)
            beyond = torch.addmm(goal, values, head, beta=-1).mul_(weight)
            descent.descend(torch.mm(beyond, head.T), self.rule)
        self.keep(party, descent)
        party.memory["head"], party.memory["head velocity"] = head.numpy(), speed.numpy()
