"""Sums over parties trained by ADMM: the hub finds better logits for each row, and all parties move their sum there."""

from math import inf

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.values import Array
from laconic.learn.admm import nearest_logits
from laconic.methods.summing import Summing


class Admm(Summing, frozen=True):
    """Abstract: a sum over parties whose hub keeps a dual for each training row, in `hub.memory["duals"]`.

    Attributes:
        rho: how much it weighs that the parties' sum agrees with the hub's logits.
        local_steps: steps of each party for one exchange.
    """

    rho: float = 2.0
    local_steps: int = 20

    def __post_init__(self) -> None:
        """Refuse a rho or a number of steps that cannot be."""
        super().__post_init__()
        if not 0 < self.rho < inf:
            raise ValueError(f"rho must be above 0, not {self.rho}")
        if self.local_steps < 1:
            raise ValueError(f"local_steps must be 1 or more, not {self.local_steps}")

    def start(self, hub: Party, peers: Peers) -> None:
        """Draw all weights; all duals are 0."""
        super().start(hub, peers)
        hub.memory["duals"] = np.zeros((len(hub.data.cut("train")), task_of(hub).outputs))

    def signal_for(self, hub: Party, rows: Array, sums: Array) -> Array:
        """Eqs. (6) and (7): new logits and duals for these rows; returns (dual before - 2 dual after) / rho.

        With it a party needs nothing else: its problem, eq. (10), is to bring its part of the logits to what it sent
        plus this, and its head's gradient, eq. (8), is what it sent times this. Duals are kept by row, so that
        batches can be drawn anew.
        """
        before = hub.memory["duals"][rows]
        logits = nearest_logits(task_of(hub), sums, before, self.targets(hub, rows), self.rho)
        after = before + self.rho * (sums - logits)
        hub.memory["duals"][rows] = after
        signal: Array = ((before - 2.0 * after) / self.rho).astype(self.precision)
        return signal
