"""Methods whose prediction is a sum over parties: each party's net and linear head add their part to a row's logits.

The hub sends one array a batch, the same to every party. It is the gradient of the loss by the summed logits, or stands
for it, so each party can work out the step of its own head from it, and no head ever has to be sent.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch

from laconic.core.ledger import unwrap
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import Step, step
from laconic.core.values import Array
from laconic.learn import heads
from laconic.learn.admm import targets_of
from laconic.learn.descent import Descent, Rule, no_velocity, start_descent
from laconic.learn.nets import Cnn, Mlp, Net, initialise, load, to_tensor, weights_of
from laconic.learn.sgd import evaluate
from laconic.methods.rows import batch_rows
from laconic.methods.splitting import Precision
from laconic.privacy.outputs import RowsOnce
from laconic.privacy.protections import AnyProtection
from laconic.privacy.steps import PrivateSteps

_TAKES = "numbers for each row of the batch before, the same for all parties, from which its labels can be read"
_GIVES = "its net's outputs for one batch of training rows"


class Summing(Method, frozen=True):
    """Abstract: a method with a net and a linear head for each party, whose outputs are summed.

    A hub that holds columns takes part as one more party, without a wire between. A party keeps `net`, `velocity` and
    `head` in its memory, and the batch it answered last; the hub keeps `heads`, if they are its to keep, and in
    `latest` what each party last sent for each training row.

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

    @abstractmethod
    def improve(self, party: Party, signal: Array) -> None:
        """Let a party's net and head learn from the hub's array for the last batch."""

    @abstractmethod
    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """What the hub sends after a batch of training rows; its own heads and duals learn on the way."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """One round a batch: parties learn from the batch before and send the next one."""
        self.start(hub, peers)
        if self.privacy is not None and self.privacy.freezes:
            yield from self.fit_frozen(hub, peers)
            return
        signal: Array | None = None
        for epoch, number in self.batches(hub):
            messages = self.own_turn(hub, epoch, number, signal)
            messages |= peers.ask(self.exchange, epoch=epoch, number=number, signal=signal)
            yield  # All have learnt the batches before; this one is under way.
            rows = self.rows_of(hub, epoch, number)
            self.remember(hub, rows, messages)
            signal = self.reply(hub, rows, messages).astype(self.precision)
        if hub.data.columns and signal is not None:
            self.improve(hub, signal)
        peers.ask(self.learn, signal=signal)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Sum every party's part of the logits."""
        messages = {hub.name: self.outputs(hub, rows)} if hub.data.columns else {}
        return self._predictions(hub, self.logits(hub, messages | peers.ask(self.give_outputs, rows=rows)))

    @step(takes=None, gives=None)
    def begin(self, party: Party, seed: int, outputs: int, parties: int) -> None:
        """Draw the first weights: the net's known to this party alone, the head's from a seed that the hub knows."""
        guard = self._guard(party)
        learnt = None if guard is None else guard.learn_encoder(party)
        if learnt is None:
            learnt = weights_of(initialise(self._net(party).build(party.data.shape, self.width), party.rng))
        party.memory["net"] = learnt
        party.memory["velocity"] = no_velocity(party.memory["net"])
        party.memory["head"] = first_head(seed, party.name, self.width, outputs)
        party.memory["parties"] = parties
        party.memory["head velocity"] = np.zeros((self.width, outputs), np.float32)
        party.memory["order"] = seed
        party.memory["secret"] = int(party.rng.integers(2**62))

    @step(takes=_TAKES, gives=_GIVES)
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """Learn from the batch before, and send the next one."""
        sent = self._protect(party, self._turn(party, epoch, number, signal), "train")
        party.memory["sent"] = unwrap(sent)[0]
        return sent

    @step(takes=_TAKES, gives=None)
    def learn(self, party: Party, signal: Array) -> None:
        """Learn from the last batch."""
        self.improve(party, signal)

    @step(takes=None, gives="its net's outputs for the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through the net."""
        return self._protect(party, self.outputs(party, rows), rows)

    def start(self, hub: Party, peers: Peers) -> None:
        """Draw all weights."""
        seed, outputs = int(hub.rng.integers(2**31)), task_of(hub).outputs
        hub.memory["order"] = seed
        hub.memory["scale"] = heads.scale_of(task_of(hub), _labels(hub))
        members = (hub.name, *peers.names) if hub.data.columns else peers.names
        hub.memory["heads"] = {name: first_head(seed, name, self.width, outputs) for name in members}
        hub.memory["latest"] = {}
        if hub.data.columns:
            self.begin(hub, seed, outputs, len(members))
        peers.ask(self.begin, seed=seed, outputs=outputs, parties=len(members))

    def batches(self, hub: Party) -> Iterator[tuple[int, int]]:
        """Every batch of every epoch, by numbers."""
        count = -(-len(hub.data.cut("train")) // self.batch)
        for epoch in range(self.epochs):
            yield from ((epoch, number) for number in range(count))

    def rows_of(self, party: Party, epoch: int, number: int) -> Array:
        """The places in cut "train" of a batch's rows."""
        return batch_rows(len(party.data.cut("train")), self.batch, party.memory["order"], epoch, number)

    def targets(self, hub: Party, rows: Array) -> Array:
        """The labels of training rows as the loss compares them with predictions."""
        task = task_of(hub)
        return targets_of(task, heads.to_targets(task, _labels(hub)[rows], hub.memory["scale"]).numpy())

    def descent(self, party: Party, steps: int = 1) -> Descent:
        """The party's net, to take so many steps on the batch it answered last."""
        rows = self.rows_of(party, *party.memory["batch"])
        x = party.data.x[party.data.cut("train")[rows]]
        guard = self._guard(party)
        if guard is not None:
            return guard.descent(self._net(party), self.width, party, x, steps)
        net, velocity = party.memory["net"], party.memory["velocity"]
        return start_descent(self._net(party), self.width, net, velocity, x, party.rng)

    def keep(self, party: Party, descent: Descent) -> None:
        """Remember where a net is now."""
        party.memory["net"], party.memory["velocity"] = descent.weights(), descent.velocity()

    @property
    def rule(self) -> Rule:
        """How nets descend."""
        return Rule(self.lr, self.momentum, self.weight_decay)

    def next_head(self, head: Array, sent: Array, gradient: Array) -> Array:
        """One step of a head, given the mean loss's gradient by the logits of the batch that was sent."""
        by_head = sent.astype(np.float32).T @ gradient.astype(np.float32) + np.float32(self.weight_decay) * head
        return head - np.float32(self.lr) * by_head

    def outputs(self, party: Party, rows: str) -> Array:
        """What a party has to say of the rows of a cut, before any noise."""
        return self._message(party, party.data.part(rows)[0])

    def logits(self, hub: Party, messages: Mapping[str, Array]) -> Array:
        """The sum of what parties sent, each through its head; in a fixed order, so that it rounds alike everywhere."""
        parts = [self.part_of(hub, name, messages[name]) for name in sorted(messages)]
        return np.asarray(np.sum(np.stack(parts), axis=0, dtype=np.float64))

    def part_of(self, hub: Party, name: str, message: Array) -> Array:
        """One party's part of the logits."""
        message = message.astype(np.float32)
        return message if self.sends_logits else message @ self.head_of(hub, name)

    def head_of(self, hub: Party, name: str) -> Array:
        """A party's linear head, where the hub keeps it."""
        head: Array = hub.memory["heads"][name]
        return head

    def stored_parts(self, hub: Party, places: Array) -> dict[str, Array]:
        """Each party's part of the logits for these places in cut "train", as last sent."""
        return {name: self.part_of(hub, name, values[places]) for name, values in hub.memory["latest"].items()}

    def predict_from(self, hub: Party, parts: Mapping[str, Array], places: Array) -> Array:
        """Predictions from some parties' parts of the logits; a party left out adds nothing."""
        nothing = np.zeros((len(places), task_of(hub).outputs))
        return self._predictions(hub, np.asarray(sum(parts.values(), nothing)))

    def head_norms(self, hub: Party, ask: Callable[[Step], dict[str, Any]]) -> dict[str, float]:
        """The length of each party's head."""
        if not self.sends_logits:
            return {name: float(np.linalg.norm(self.head_of(hub, name))) for name in hub.memory["heads"]}
        own = {hub.name: self.tell_head_length(hub)} if hub.data.columns else {}
        return own | ask(self.tell_head_length)

    @step(takes=None, gives="one number: the length of its head")
    def tell_head_length(self, party: Party) -> float:
        """How long the party's head is, for comparing parties."""
        return float(np.linalg.norm(party.memory["head"]))

    def own_turn(self, hub: Party, epoch: int, number: int, signal: Array | None) -> dict[str, Array]:
        """What the hub itself has to say of a batch, by its name; nothing if it holds no columns."""
        if not hub.data.columns:
            return {}
        hub.memory["sent"] = self._turn(hub, epoch, number, signal)
        return {hub.name: hub.memory["sent"]}

    def remember(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> None:
        """Keep what was last sent for each training row, which tells later how much each party matters."""
        count = len(hub.data.cut("train"))
        for name, message in messages.items():
            latest = hub.memory["latest"].setdefault(name, np.zeros((count, message.shape[1]), np.float32))
            latest[rows] = message

    def fit_frozen(self, hub: Party, peers: Peers) -> Iterator[None]:
        """Nets stay as they were drawn: each row is sent once, and the hub trains heads alone, as long as it likes."""
        received = peers.ask(self.give_outputs, rows="train")
        signal: Array | None = None
        for epoch, number in self.batches(hub):
            rows = self.rows_of(hub, epoch, number)
            messages = {name: values[rows] for name, values in received.items()}
            messages |= self.own_turn(hub, epoch, number, signal)
            self.remember(hub, rows, messages)
            signal = self.reply(hub, rows, messages)
            yield
        if hub.data.columns and signal is not None:
            self.improve(hub, signal)
            yield

    def _predictions(self, hub: Party, logits: Array) -> Array:
        return heads.to_predictions(task_of(hub), torch.from_numpy(logits), hub.memory["scale"])

    def _turn(self, party: Party, epoch: int, number: int, signal: Array | None) -> Array:
        if signal is not None:
            self.improve(party, signal)
        party.memory["batch"] = [epoch, number]
        at = party.data.cut("train")[self.rows_of(party, epoch, number)]
        return self._message(party, party.data.x[at])

    def _message(self, party: Party, x: Array) -> Array:
        guard = self._guard(party)
        found = None if guard is None else guard.encode(party, x, self.width)
        if found is None:
            module = load(self._net(party).build(x.shape[1:], self.width), party.memory["net"])
            found = evaluate(module, [to_tensor(x)]).numpy()
        return (found @ party.memory["head"] if self.sends_logits else found).astype(self.precision)

    def _protect(self, party: Party, message: Array, rows: str) -> Any:
        return message if self.privacy is None else self.privacy.release(message, party, rows)

    def _guard(self, party: Party) -> AnyProtection | None:
        """What guards a party's rows; nothing does the hub's own, which never leave it."""
        return self.privacy if party.data.y is None else None

    def _net(self, party: Party) -> Net:
        return self.net or (Cnn(final="relu") if len(party.data.shape) == 3 else Mlp(final="relu"))


def first_head(seed: int, name: str, width: int, outputs: int) -> Array:
    """A party's first head: the same wherever it is drawn, so that nobody has to send it."""
    rng = np.random.default_rng([seed, *name.encode()])
    bound = np.float32(width**-0.5)
    return rng.random((width, outputs), dtype=np.float32) * (2 * bound) - bound


def _labels(hub: Party) -> Array:
    if hub.data.y is None:
        raise ValueError(f"{hub.name} has no labels; the hub must be the party that holds the label column")
    return hub.data.y[hub.data.cut("train")]
