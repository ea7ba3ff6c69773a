"""A net and a linear head at each party: their settings, and what a party does with them."""

from math import inf
from typing import Any, ClassVar

import numpy as np

from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.script import step
from laconic.core.values import Array
from laconic.learn.descent import Descent, Rule, no_velocity, outputs_of, start_descent
from laconic.learn.nets import Cnn, Mlp, Net, initialise, weights_of
from laconic.methods.rows import batch_rows
from laconic.methods.splitting import Precision
from laconic.privacy.outputs import RowsOnce
from laconic.privacy.protections import AnyProtection
from laconic.privacy.steps import PrivateSteps


class PartyNets(Method, frozen=True):
    """Abstract: a method with a net and a linear head for each party.

    A party keeps `net`, `velocity` and `head` in its memory, and the batch it answered last.

    Attributes:
        epochs: how often every training row is seen.
        batch: rows a round; batches are drawn anew each epoch from a seed that all parties know.
        lr: learning rate of every net and head.
        momentum: of the nets, kept from one batch to the next; heads kept by the hub have none.
        weight_decay: weight of the L2 penalty on nets and heads.
        net: each party's net; None takes one that suits its data.
        width: how many numbers a net puts out for a row.
        precision: how exactly numbers are sent.
        privacy: clipping and noise on what parties send; None sends everything as it is.
    """

    epochs: int = 10
    batch: int = 128
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-3
    net: Net | None = None
    width: int = 60
    precision: Precision = "float32"
    privacy: AnyProtection | None = None

    sends_logits: ClassVar[bool] = False
    """Whether parties send their part of the logits, and keep their heads, or send their nets' outputs."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot train anything."""
        for name, value in {"epochs": self.epochs, "batch": self.batch, "width": self.width}.items():
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        for name, number in {"lr": self.lr, "weight_decay": self.weight_decay}.items():
            if not 0 <= number < inf:
                raise ValueError(f"{name} must be 0 or more, not {number}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, not {self.momentum}")
        if self.sends_logits and isinstance(self.privacy, RowsOnce | PrivateSteps):
            raise ValueError(
                f"{type(self).__name__} sends logits of heads that parties train without noise, which "
                f"{type(self.privacy).__name__} does not cover; use BatchClip, or a method whose heads are at the hub "
                "such as VimAdmm"
            )

    @step(takes=None, gives=None)
    def begin(self, party: Party, seed: int, outputs: int, parties: int) -> None:
        """Draw the first weights: the net's known to this party alone, the head's from a seed that the hub knows."""
        guard = self.guard_of(party)
        learnt = None if guard is None else guard.learn_encoder(party)
        if learnt is None:
            learnt = weights_of(initialise(self.net_of(party).build(party.data.shape, self.width), party.rng))
        party.memory["net"] = learnt
        party.memory["velocity"] = no_velocity(party.memory["net"])
        party.memory["head"] = first_head(seed, party.name, self.width, outputs)
        party.memory["parties"] = parties
        party.memory["head velocity"] = np.zeros((self.width, outputs), np.float32)
        party.memory["order"] = seed
        party.memory["secret"] = int(party.rng.integers(2**62))

    @step(takes=None, gives="one number: the length of its head")
    def tell_head_length(self, party: Party) -> float:
        """How long the party's head is, for comparing parties."""
        return float(np.linalg.norm(party.memory["head"]))

    def rows_of(self, party: Party, epoch: int, number: int) -> Array:
        """The places in cut "train" of a batch's rows."""
        return batch_rows(len(party.data.cut("train")), self.batch, party.memory["order"], epoch, number)

    def last_batch(self, party: Party) -> Array:
        """The rows of the batch that a party answered last."""
        return party.data.x.take(party.data.cut("train")[self.rows_of(party, *party.memory["batch"])], axis=0)

    def descent(self, party: Party, x: Array, steps: int = 1) -> Descent:
        """The party's net, to take so many steps on these rows."""
        guard = self.guard_of(party)
        if guard is not None:
            return guard.descent(self.net_of(party), self.width, party, x, steps)
        net, velocity = party.memory["net"], party.memory["velocity"]
        return start_descent(self.net_of(party), self.width, net, velocity, x, party.rng)

    def keep(self, party: Party, descent: Descent) -> None:
        """Remember where a net is now."""
        party.memory["net"], party.memory["velocity"] = descent.weights(), descent.velocity()

    @property
    def rule(self) -> Rule:
        """How nets descend."""
        return Rule(self.lr, self.momentum, self.weight_decay)

    def next_head(self, head: Array, sent: Array, gradient: Array) -> Array:
        """One step of a head, given the mean loss's gradient by the logits of the batch that was sent."""
        sent, gradient = (values.astype(np.float32, copy=False) for values in (sent, gradient))
        by_head = sent.T @ gradient + np.float32(self.weight_decay) * head
        return head - np.float32(self.lr) * by_head

    def outputs(self, party: Party, rows: str) -> Array:
        """What a party has to say of the rows of a cut, before any noise."""
        return self.message(party, party.data.part(rows)[0])

    def message(self, party: Party, x: Array) -> Array:
        """What a party has to say of these rows, before any noise."""
        guard = self.guard_of(party)
        found = None if guard is None else guard.encode(party, x, self.width)
        if found is None:
            found = outputs_of(self.net_of(party), self.width, party.memory["net"], x)
        return (found @ party.memory["head"] if self.sends_logits else found).astype(self.precision, copy=False)

    def protect(self, party: Party, message: Array, rows: str, places: Array | None = None) -> Any:
        """The message as it may leave: of the rows of a cut, or of those at some places in it."""
        at = party.data.cut(rows) if places is None else party.data.cut(rows)[places]
        return message if self.privacy is None else self.privacy.release(message, party, rows, at)

    def guard_of(self, party: Party) -> AnyProtection | None:
        """What guards a party's rows; nothing does the hub's own, which never leave it."""
        return self.privacy if party.data.y is None else None

    def net_of(self, party: Party) -> Net:
        """The party's net."""
        return self.net or (Cnn(final="relu") if len(party.data.shape) == 3 else Mlp(final="relu"))


def first_head(seed: int, name: str, width: int, outputs: int) -> Array:
    """A party's first head: the same wherever it is drawn, so that nobody has to send it."""
    rng = np.random.default_rng([seed, *name.encode()])
    bound = np.float32(width**-0.5)
    return rng.random((width, outputs), dtype=np.float32) * (2 * bound) - bound
