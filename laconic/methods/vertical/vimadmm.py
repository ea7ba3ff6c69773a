"""VIMADMM: linear heads at the hub, and several steps of every party's net between two exchanges, by ADMM.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 1. The paper sends down duals, residuals and heads; one array, the same for all parties, says as
much.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from laconic.core.party import Party
from laconic.learn.kernels import widen
from laconic.learn.train.descent import take_steps
from laconic.methods.families.summed import Admm
from laconic.values import Array


class VimAdmm(Admm, frozen=True):
    """Multiple linear heads by ADMM: parties send their nets' outputs."""

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eqs. (6) to (8): logits, duals, and one step of every head."""
        signal = self.signal_for(hub, rows, self.logits(hub, messages))
        by_logits = signal * np.float32(-self.rho / len(rows))
        for name, message in messages.items():
            hub.memory["heads"][name] = self.next_head(hub.memory["heads"][name], message, by_logits)
        return signal

    def improve(self, party: Party, signal: Array) -> None:
        """Eq. (10): steps of the net towards its own part of the logits, moved by the signal."""
        head, sent = party.memory["head"], party.memory["sent"].astype(np.float32, copy=False)
        pull = self.pull(party, sent @ head + signal.astype(np.float32))
        party.memory["head"] = self.next_head(head, sent, signal * np.float32(-self.rho / len(sent)))
        slope = partial(pull.back, head=widen(party.memory["head"], rows=True))
        take_steps(pull.descent, self.local_steps, slope, self.rule)
        self.keep(party, pull.descent)
