"""Methods whose prediction is a sum over parties: each party's net and linear head add their part to a row's logits.

The hub sends one array a batch, the same to every party. It is the gradient of the loss by the summed logits, or stands
for it, so each party can work out the step of its own head from it, and no head ever has to be sent.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from laconic.core.errors import PartyAbsent
from laconic.core.ledger import unwrap
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import Step, step
from laconic.core.values import Array
from laconic.learn import heads
from laconic.learn.admm import targets_of
from laconic.methods.party_nets import PartyNets, first_head

_TAKES = "numbers for each row of the batch before, the same for all parties, from which its labels can be read"
_GIVES = "its net's outputs for one batch of training rows"


class Summing(PartyNets, frozen=True):
    """Abstract: a method whose prediction is the sum of all parties' nets, each through its head.

    A hub that holds columns takes part as one more party, without a wire between. The hub keeps `heads`, if they are
    its to keep, and in `latest` what each party last sent for each training row.
    """

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
            messages, rows = self.own_turn(hub, epoch, number, signal), self.rows_of(hub, epoch, number)
            self.remember(hub, rows, messages)
            payload = {"epoch": epoch, "number": number, "signal": signal}
            for name, message in peers.as_ready(self.exchange, dict.fromkeys(peers.names, payload)):
                messages[name] = message
                self.remember(hub, rows, {name: message})  # While the others are at work.
            yield  # All have learnt the batches before; this one is under way.
            signal = self.reply(hub, rows, messages).astype(self.precision)
        if hub.data.columns and signal is not None:
            self.improve(hub, signal)
        peers.ask(self.learn, signal=signal)
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Sum every party's part of the logits."""
        messages = {hub.name: self.outputs(hub, rows)} if hub.data.columns else {}
        messages |= peers.ask(self.give_outputs, rows=rows)
        if not messages:
            raise PartyAbsent(peers.names, self.give_outputs.__name__)
        return self._predictions(hub, self.logits(hub, messages))

    @step(takes=_TAKES, gives=_GIVES)
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """Learn from the batch before, and send the next one."""
        message = self._turn(party, epoch, number, signal)
        sent = self.protect(party, message, "train", self.rows_of(party, epoch, number))
        party.memory["sent"] = unwrap(sent)[0]
        return sent

    @step(takes=_TAKES, gives=None)
    def learn(self, party: Party, signal: Array) -> None:
        """Learn from the last batch."""
        self.improve(party, signal)

    @step(takes=None, gives="its net's outputs for the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through the net."""
        return self.protect(party, self.outputs(party, rows), rows)

    def start(self, hub: Party, peers: Peers) -> None:
        """Draw all weights; who does not answer has no part in the run."""
        seed, outputs = int(hub.rng.integers(2**31)), task_of(hub).outputs
        hub.memory["order"] = seed
        hub.memory["scale"] = heads.scale_of(task_of(hub), _labels(hub))
        members = (hub.name, *peers.names) if hub.data.columns else peers.names
        hub.memory["latest"] = {}
        begun = [hub.name] if hub.data.columns else []
        if hub.data.columns:
            self.begin(hub, seed, outputs, len(members))
        begun += peers.ask(self.begin, seed=seed, outputs=outputs, parties=len(members))
        if not begun:
            raise PartyAbsent(peers.names, self.begin.__name__)
        hub.memory["heads"] = {name: first_head(seed, name, self.width, outputs) for name in begun}

    def batches(self, hub: Party) -> Iterator[tuple[int, int]]:
        """Every batch of every epoch, by numbers."""
        count = -(-len(hub.data.cut("train")) // self.batch)
        for epoch in range(self.epochs):
            yield from ((epoch, number) for number in range(count))

    def targets(self, hub: Party, rows: Array) -> Array:
        """The labels of training rows as the loss compares them with predictions."""
        task = task_of(hub)
        return targets_of(task, heads.to_targets(task, _labels(hub)[rows], hub.memory["scale"]).numpy())

    def logits(self, hub: Party, messages: Mapping[str, Array]) -> Array:
        """The sum of what parties sent, each through its head; in a fixed order, so that it rounds alike everywhere."""
        parts = [self.part_of(hub, name, messages[name]) for name in sorted(messages)]
        sums = np.asarray(np.sum(np.stack(parts), axis=0, dtype=np.float64))
        if not np.isfinite(sums).all():
            raise ValueError(
                f"{type(self).__name__} diverged: the sum of all parties' parts holds NaN or infinity; try "
                f"{self.steadier(hub)}"
            )
        return sums

    def steadier(self, hub: Party) -> str:
        """Settings to try when learning diverged, for the error that says so."""
        return f"an lr below {self.lr:g}"

    def part_of(self, hub: Party, name: str, message: Array) -> Array:
        """One party's part of the logits."""
        message = message.astype(np.float32, copy=False)
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

    def own_turn(self, hub: Party, epoch: int, number: int, signal: Array | None) -> dict[str, Array]:
        """What the hub itself has to say of a batch, by its name; nothing if it holds no columns."""
        if not hub.data.columns:
            return {}
        hub.memory["sent"] = self._turn(hub, epoch, number, signal)
        return {hub.name: hub.memory["sent"]}

    def remember(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> None:
        """Keep what was last sent for each training row, which tells later how much each party matters."""
        latest = hub.memory["latest"]
        for name, message in messages.items():
            if name not in latest:
                latest[name] = np.zeros((len(hub.data.cut("train")), message.shape[1]), np.float32)
            latest[name][rows] = message

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
        return self.message(party, self.last_batch(party))


class SummingLogits(Summing, frozen=True):
    """Abstract: a method whose parties keep their heads, and send their part of the logits."""

    sends_logits: ClassVar[bool] = True

    @step(takes=_TAKES, gives="its part of the logits, of net and head together, for one batch of training rows")
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """As every sum."""
        return super().exchange(party, epoch, number, signal)

    @step(takes=None, gives="its part of the logits, of net and head together, for the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through net and head."""
        return super().give_outputs(party, rows)


def _labels(hub: Party) -> Array:
    if hub.data.y is None:
        raise ValueError(f"{hub.name} has no labels; the hub must be the party that holds the label column")
    return hub.data.y[hub.data.cut("train")]
