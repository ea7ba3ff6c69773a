"""VAFL: parties' outputs averaged with learnt weights at the hub, which never waits for everybody.

Chen, Jin, Sun, Yin: VAFL: a Method of Vertical Asynchronous Federated Learning (2020), with the learnt weights that the
VIM paper compares with. For a party that is not heard from, what it last sent for a row stands in.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

import numpy as np

from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.errors import PartyAbsent
from laconic.learn.kernels import widen
from laconic.learn.train.descent import loss_gradient
from laconic.methods.families.summed import Summing, first_head
from laconic.values import Array


class Vafl(Summing, frozen=True):
    """Averaged outputs into one linear model at the hub, by gradient descent, with parties heard as they come.

    Attributes:
        slowness: how many rounds a party takes to answer, on average, beyond the first; the hub goes on with those that
            are ready, and takes in each answer by itself. Delays and order come from the seed. 0 hears everybody in
            every round, at once.
        weights_lr: learning rate of the weights of the average.
    """

    lr: float = 0.3
    epochs: int = 30
    slowness: float = 0.0
    weights_lr: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a slowness or a rate below 0."""
        super().__post_init__()
        for name, value in {"slowness": self.slowness, "weights_lr": self.weights_lr}.items():
            if not 0 <= value < inf:
                raise ValueError(f"{name} must be 0 or more, not {value}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Each round hears those that are ready; they learn from the batch they sent last and send the next one."""
        peers = self.start(hub, peers)
        if self.privacy is not None and self.privacy.freezes:
            yield from self.fit_frozen(hub, peers)
            return
        signals: dict[str, Array | None] = dict.fromkeys((hub.name, *peers.names))
        busy = dict.fromkeys(peers.names, 0)
        for epoch, number in self.batches(hub):
            rows = self.rows_of(hub, epoch, number)
            heard = self.own_turn(hub, epoch, number, signals[hub.name])
            ready = [name for name in peers.names if busy[name] == 0]
            questions = {name: {"epoch": epoch, "number": number, "signal": signals[name]} for name in ready}
            signals |= dict.fromkeys(ready)
            for name, message in in_turn(peers.tolerant.as_ready(self.exchange, questions), self._turns(hub, ready)):
                heard[name] = message
                if self.slowness:  # Answers come one by one, and each is learnt from before the next is there.
                    signals |= self._take_in(hub, rows, heard)
                    heard = {}
            yield  # Those heard from have learnt the batches they sent before; this one is under way.
            if heard:
                signals |= self._take_in(hub, rows, heard)
            busy = {name: left - 1 if left else int(hub.rng.poisson(self.slowness)) for name, left in busy.items()}
        if not hub.memory["latest"]:
            raise PartyAbsent(peers.names, self.exchange.__name__)
        owed = {name: signal for name, signal in signals.items() if signal is not None}
        if hub.name in owed:
            self.improve(hub, owed.pop(hub.name))
        peers.tolerant.ask_each(self.learn, {name: {"signal": signal} for name, signal in owed.items()})
        yield

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Average what comes; a party that does not answer adds nothing."""
        return super().predict(hub, self._members(hub, peers).tolerant, rows)

    def start(self, hub: Party, peers: Peers) -> Peers:
        """Draw all weights; every party counts the same at first."""
        super().start(hub, peers.tolerant)
        parties, outputs = len(peers.names) + bool(hub.data.columns), task_of(hub).outputs
        hub.memory["model"] = first_head(hub.memory["order"], hub.name, self.width, outputs)
        hub.memory["shares"] = dict.fromkeys(hub.memory["heads"], 1.0 / parties)
        return self._members(hub, peers)

    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """A step of the hub's model and of the weights of those heard; down goes the gradient by the average."""
        shares, model = hub.memory["shares"], hub.memory["model"]
        latest = {name: hub.memory["latest"][name][rows] for name in sorted(hub.memory["latest"])}
        average = np.sum([np.float32(shares[name]) * values for name, values in latest.items()], axis=0)
        gradient = loss_gradient(task_of(hub), average @ model, self.targets(hub, rows)) / len(rows)
        signal: Array = (gradient.astype(np.float32) @ model.T).astype(self.precision)
        shares |= {name: self._next_share(shares[name], message, signal) for name, message in messages.items()}
        hub.memory["model"] = self.next_head(model, average, gradient)
        return signal

    def improve(self, party: Party, signal: Array) -> None:
        """One step of the net, and of this party's weight in the average, as the hub takes it too."""
        share = party.memory.get("share", 1.0 / party.memory["parties"])
        descent = self.descent(party, self.last_batch(party))
        descent.outputs()
        descent.descend(widen(signal).mul_(share), self.rule)
        self.keep(party, descent)
        party.memory["share"] = self._next_share(share, party.memory["sent"], signal)

    def head_of(self, hub: Party, name: str) -> Array:
        """The hub's model times the party's weight in the average."""
        head: Array = np.float32(hub.memory["shares"][name]) * hub.memory["model"]
        return head

    def _members(self, hub: Party, peers: Peers) -> Peers:
        """Those who were there when weights were drawn."""
        return peers.only(tuple(hub.memory["heads"]))

    def _turns(self, hub: Party, names: Sequence[str]) -> list[str]:
        """In which order answers of a round are taken in: from the seed, so that it is the same on every runtime."""
        return [names[place] for place in hub.rng.permutation(len(names))] if self.slowness else list(names)

    def _take_in(self, hub: Party, rows: Array, heard: Mapping[str, Array]) -> dict[str, Array]:
        """Learn from what was heard of these rows, and what to tell those it came from."""
        self.remember(hub, rows, heard)
        return dict.fromkeys(heard, self.reply(hub, rows, heard))

    def _next_share(self, share: float, sent: Array, signal: Array) -> float:
        return share - self.weights_lr * float((sent.astype(np.float64) * signal).sum())


def in_turn(answers: Iterable[tuple[str, Array]], turns: Sequence[str]) -> Iterator[tuple[str, Array]]:
    """Answers in a given order, each as soon as it and all before it are there; who does not answer is passed over."""
    waiting, left = dict[str, Array](), list(turns)
    for name, message in answers:
        waiting[name] = message
        while left and left[0] in waiting:
            yield left[0], waiting.pop(left.pop(0))
    yield from ((name, waiting[name]) for name in left if name in waiting)
