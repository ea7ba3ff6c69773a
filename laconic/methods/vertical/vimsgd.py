"""VIMSGD: a net at each party and a linear head for each at the hub, all trained by gradient descent.

Xie, Chen, Zhang, Li: Improving Privacy-Preserving Vertical Federated Learning by Efficient Communication with ADMM
(2022), algorithm 2. The gradient by the summed logits goes down, which is the same for all parties, in place of each
party's own.
"""

from collections.abc import Mapping

import torch

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.learn.kernels import widen
from laconic.learn.nets.nets import to_tensor
from laconic.learn.train.descent import loss_gradient
from laconic.methods.families.summed import Summing
from laconic.values import Array


class VimSgd(Summing, frozen=True):
    """Multiple linear heads, one step of every net and head per batch."""

    lr: float = 0.3
    epochs: int = 30

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """Eq. (12): a step of every head; the mean loss's gradient by the summed logits goes down."""
        targets = self.targets(hub, rows)
        signal = (loss_gradient(task_of(hub), self.logits(hub, messages), targets) / len(rows)).astype(self.precision)
        for name, message in messages.items():
            hub.memory["heads"][name] = self.next_head(hub.memory["heads"][name], message, signal)
        return signal

    def improve(self, party: Party, signal: Array) -> None:
        """Eq. (15): back through the head, as it was when the batch was sent, into the net; then a step of the head."""
        head, sent = party.memory["head"], party.memory["sent"]
        descent = self.descent(party, self.last_batch(party))
        descent.outputs()
        descent.descend(torch.mm(to_tensor(signal), widen(head.T)), self.rule)
        self.keep(party, descent)
        party.memory["head"] = self.next_head(head, sent, signal)
