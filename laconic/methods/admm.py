"""Sums over parties trained by ADMM: the hub finds better logits for each row, and all parties move their sum there."""

from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.values import Array
from laconic.learn.admm import nearest_logits
from laconic.learn.alike import Alike, each_alone, find_alike
from laconic.learn.descent import Descent
from laconic.learn.lanes import widen, widened
from laconic.learn.nets import Cnn, Mlp, to_tensor
from laconic.methods.summing import Summing
from laconic.privacy.steps import PrivateSteps


class Pull(NamedTuple):
    """A party's net at work on a batch, which should bring its part of the logits to a goal for each row.

    Attributes:
        descent: the net; rows that are alike are in it once.
        goals: what it should come to, (rows, lanes).
        weights: how much each row counts, (rows, 1): rho over the batch's rows, times how many rows are alike.
        by_parts: where the gradient by the parts of the logits is written, (rows, lanes).
        by_outputs: where the gradient by the net's outputs is written, (rows, lanes).
    """

    descent: Descent
    goals: Tensor
    weights: Tensor
    by_parts: Tensor
    by_outputs: Tensor

    def beyond(self, values: Tensor, head: Tensor) -> Tensor:
        """How the objective changes with each row's part of the logits, given the net's outputs."""
        return torch.addmm(self.goals, values, head, beta=-1, out=self.by_parts).mul_(self.weights)

    def back(self, values: Tensor, head: Tensor) -> Tensor:
        """How the objective changes with the net's outputs."""
        return torch.mm(self.beyond(values, head), head.T, out=self.by_outputs)


class Admm(Summing, frozen=True):
    """Abstract: a sum over parties whose hub keeps a dual for each training row, in `hub.memory["duals"]`.

    Attributes:
        rho: how much it weighs that the parties' sum agrees with the hub's logits.
        local_steps: steps of each party for one exchange.
        damping: which share of the gap between the parties' sum and the hub's logits each party sets out to close. None
            is all of it for classes, as in the paper, and for numbers one over how many parties there are, times rho
            if that is below 1: squared errors have steep slopes far off, so that parties who each close the whole gap
            would shoot further past it every round.
    """

    rho: float = 2.0
    local_steps: int = 20
    damping: float | None = None

    long_products: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a rho, a number of steps or a damping that cannot be."""
        super().__post_init__()
        if not 0 < self.rho < inf:
            raise ValueError(f"rho must be above 0, not {self.rho}")
        if self.local_steps < 1:
            raise ValueError(f"local_steps must be 1 or more, not {self.local_steps}")
        if self.damping is not None and not 0 < self.damping <= 1:
            raise ValueError(f"damping must be above 0 and at most 1, or None, not {self.damping}")

    def start(self, hub: Party, peers: Peers) -> None:
        """Draw all weights; all duals are 0."""
        super().start(hub, peers)
        hub.memory["duals"] = np.zeros((len(hub.data.cut("train")), task_of(hub).outputs))

    def signal_for(self, hub: Party, rows: Array, sums: Array) -> Array:
        """Eqs. (6) and (7): new logits and duals for these rows; returns (dual before - 2 dual after) / rho, damped.

        With it a party needs nothing else: its problem, eq. (10), is to bring its part of the logits to what it sent
        plus this, and its head's gradient, eq. (8), is what it sent times this. Duals are kept by row, so that
        batches can be drawn anew.
        """
        before = hub.memory["duals"][rows]
        logits = nearest_logits(task_of(hub), sums, before, self.targets(hub, rows), self.rho)
        after = before + self.rho * (sums - logits)
        hub.memory["duals"][rows] = after
        signal: Array = (self._share(hub) * (before - 2.0 * after) / self.rho).astype(self.precision)
        return signal

    def steadier(self, hub: Party) -> str:
        """Settings that make steps smaller, or add up to less over parties."""
        return f"{super().steadier(hub)}, a damping below {self._share(hub):.2g} or a rho above {self.rho:g}"

    def _share(self, hub: Party) -> float:
        """Which share of the gap each party closes."""
        if self.damping is not None:
            return self.damping
        if task_of(hub).kind != "regression":
            return 1.0
        # ADMM for sharing (Boyd and others 2011, section 7.3) moves each of M parts by an M-th of the gap. That is the
        # error over rho in the long run, and so more than the whole error if rho is below the loss's curvature, 1.
        return min(1.0, self.rho) / len(hub.memory["heads"])

    def pull(self, party: Party, goals: Array) -> Pull:
        """The party's net on its way to these goals for the batch it answered last."""
        x = self.last_batch(party)
        alike = self._alike(party, x)
        descent = self.descent(party, x[alike.first], self.local_steps)
        weights = alike.counts[:, None] * (self.rho / len(x))
        wide = widen(alike.means(goals))
        return Pull(
            descent=descent,
            goals=wide,
            weights=to_tensor(weights.astype(np.float32)),
            by_parts=torch.empty_like(wide),
            by_outputs=torch.empty(len(wide), widened(self.width)),
        )

    def _alike(self, party: Party, x: Array) -> Alike:
        """Rows that can go as one: not under dropout, which treats each in its own way, nor where each is clipped."""
        net = self.net_of(party)
        drops = isinstance(net, Mlp | Cnn) and net.dropout > 0
        if isinstance(self.guard_of(party), PrivateSteps) or drops:
            return each_alone(len(x))
        return find_alike(x)
