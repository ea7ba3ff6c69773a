"""VIMADMM: linear heads at the hub, and several steps of every party's net between two exchanges, by ADMM.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 1. The paper sends down duals, residuals and heads; one array, the same for all parties, says as
much.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from laconic.core.party import Party
from laconic.learn.kernels import widen
from laconic.learn.train.descent import take_steps
from laconic.methods.families.summed import Admm, Summing
from laconic.values import Array


class VimAdmm(Summing, frozen=True):
    """Multiple linear heads by ADMM: parties send their nets' outputs.

    Attributes:
        rho: how much it weighs that the parties' sum agrees with the hub's logits.
        local_steps: steps of each party for one exchange.
        damping: which share of the gap to the hub's logits each party closes; None is what suits the task (see `Admm`).
    """

    rho: float = 2.0
    local_steps: int = 20
    damping: float | None = None

    long_products: ClassVar[bool] = True

    @property
    def admm(self) -> Admm:
        """The settings above."""
        return Admm(self.rho, self.local_steps, self.damping)

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eqs. (6) to (8): logits, duals, and one step of every head."""
        found = self.admm.signal(hub, rows, self.logits(hub, messages), self.targets(hub, rows))
        signal: Array = found.astype(self.precision)
        by_logits = signal * np.float32(-self.rho / len(rows))
        for name, message in messages.items():
            hub.memory["heads"][name] = self.next_head(hub.memory["heads"][name], message, by_logits)
        return signal

    def improve(self, party: Party, signal: Array) -> None:
        """Eq. (10): steps of the net towards its own part of the logits, moved by the signal."""
        head, sent = party.memory["head"], party.memory["sent"].astype(np.float32, copy=False)
        pull = self.admm.pull(self, party, sent @ head + signal.astype(np.float32))
        party.memory["head"] = self.next_head(head, sent, signal * np.float32(-self.rho / len(sent)))
        slope = partial(pull.back, head=widen(party.memory["head"], rows=True))
        take_steps(pull.descent, self.local_steps, slope, self.rule)
        self.keep(party, pull.descent)
