"""Methods whose prediction is a sum over parties: each party's net and linear head add their part to a row's logits.

The hub sends one array per batch, the same to every party. It is the gradient of the loss by the summed logits, or
stands for it, so each party can work out the step of its own head from it, and no head ever has to be sent.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from laconic.core.ledger import unwrap
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Step, step
from laconic.errors import PartyAbsent
from laconic.learn.kernels import widen, widened
from laconic.learn.nets.nets import Cnn, Mlp, Net, initialise, to_array, to_tensor, weights_of
from laconic.learn.train import losses as heads
from laconic.learn.train.descent import (
    Descent,
    Rule,
    each_alone,
    find_duplicates,
    nearest_logits,
    no_velocity,
    outputs_of,
    start_descent,
    targets_of,
)
from laconic.methods.families.contributions import Check
from laconic.methods.families.rows import batch_rows, labels_of
from laconic.methods.families.split import Precision
from laconic.privacy.mechanisms.outputs import AnyProtection, PrivateSteps, RowsOnce
from laconic.values import Array

SIGNAL = "numbers for each row of the batch before, the same for all parties, from which its labels can be read"
LOGITS = "its part of the logits, of net and head together, for "


class Summing(Method, frozen=True):
    """Abstract: a method with a net and a linear head for each party, whose prediction is the sum of their parts.

    A party keeps `net`, `velocity` and `head` in its memory, and the batch it answered last. A hub that holds columns
    takes part as one more party, without a wire between. The hub keeps `heads`, if they are its to keep, and in
    `latest` what each party last sent for each training row.

    Attributes:
        epochs: how often every training row is seen.
        batch: rows per round; batches are drawn anew each epoch from a seed that all parties know.
        lr: learning rate of every net and head.
        momentum: of the nets, kept from one batch to the next; heads kept by the hub have none.
        weight_decay: weight of the L2 penalty on nets and heads.
        net: each party's net; None takes one that suits its data.
        width: how many numbers a net puts out for a row.
        precision: how exactly numbers are sent.
        privacy: clipping and noise on what parties send; None sends everything as it is.
        check: what the hub looks for in what each net, as it was drawn, puts out for the training rows, which is asked
            for then; None looks at nothing.
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
    check: Check | None = None

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
        if self.admm is not None:
            self.admm.check()
        if self.check is not None and self.privacy is not None:
            raise ValueError(
                f"check asks for every training row once more, for which privacy = {type(self.privacy).__name__} would "
                "have to pay; leave one of the two out"
            )
        if self.sends_logits and isinstance(self.privacy, RowsOnce | PrivateSteps):
            raise ValueError(
                f"{type(self).__name__} sends logits of heads that parties train without noise, which "
                f"{type(self.privacy).__name__} does not cover; use BatchClip, or a method whose heads are at the hub "
                "such as VimAdmm"
            )

    @property
    def admm(self) -> "Admm | None":
        """ADMM's settings; None for a method that descends by gradients alone."""
        return None

    @abstractmethod
    def improve(self, party: Party, signal: Array) -> None:
        """Let a party's net and head learn from the hub's array for the last batch."""

    @abstractmethod
    def reply(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> Array:
        """What the hub sends after a batch of training rows; its own heads and duals learn on the way."""

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """One round per batch: parties learn from the batch before and send the next one."""
        peers = self.start(hub, peers)
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
        messages = {hub.name: self.message(hub, hub.data.part(rows)[0])} if hub.data.columns else {}
        kept = peers.only(tuple(name for name in peers.names if name in hub.memory["heads"]))
        messages |= kept.ask(self.give_outputs, rows=rows)
        if not messages:
            raise PartyAbsent(peers.names, self.give_outputs.__name__)
        return self._predictions(hub, self.logits(hub, messages))

    def fit_opening(self) -> Opening:
        """First the number of classes, which must be waited for; then the first batch, or all rows of frozen nets."""
        first = Ask.later(self.begin)
        if self.check is not None:
            return Opening((first, Ask.known(self.give_outputs, rows="train")))
        if self.privacy is not None and self.privacy.freezes:
            return Opening((first, Ask.known(self.give_outputs, rows="train")), then="trains")
        return Opening((first, Ask.known(self.exchange, epoch=0, number=0, signal=None)), then="yields")

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_outputs, rows=rows),), then="ends")

    @step(takes=None, gives=None)
    def begin(self, party: Party, seed: int, outputs: int, parties: int) -> None:
        """Draw the first weights: the net's known to this party alone, the head's from a seed that the hub knows."""
        guard = self.guard_of(party)
        net = None if guard is None else guard.learn_encoder(party)
        if net is None:
            net = weights_of(initialise(self.net_of(party).build(party.data.shape, self.width), party.rng))
        party.memory |= {
            "net": net,
            "velocity": no_velocity(net),
            "head": first_head(seed, party.name, self.width, outputs),
            "parties": parties,
            "head velocity": np.zeros((self.width, outputs), np.float32),
            "order": seed,
            "secret": int(party.rng.integers(2**62)),
        }

    @step(takes=SIGNAL, gives="its net's outputs for one batch of training rows")
    def exchange(self, party: Party, epoch: int, number: int, signal: Array | None) -> Any:
        """Learn from the batch before, and send the next one."""
        message = self._turn(party, epoch, number, signal)
        sent = self._protected(party, message, "train", self.rows_of(party, epoch, number))
        party.memory["sent"] = unwrap(sent)[0]
        return sent

    @step(takes=SIGNAL, gives=None)
    def learn(self, party: Party, signal: Array) -> None:
        """Learn from the last batch."""
        self.improve(party, signal)

    @step(takes=None, gives="its net's outputs for the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Any:
        """Put the rows of a cut through the net, and through the head if logits are sent."""
        return self._protected(party, self.message(party, party.data.part(rows)[0]), rows)

    @step(takes=None, gives="one number: the length of its head")
    def tell_head_length(self, party: Party) -> float:
        """How long the party's head is, for comparing parties."""
        return float(np.linalg.norm(party.memory["head"]))

    def start(self, hub: Party, peers: Peers) -> Peers:
        """Draw all weights; who does not answer has no part in the run. Returns those whose numbers count."""
        seed, outputs = int(hub.rng.integers(2**31)), task_of(hub).outputs
        hub.memory["order"] = seed
        hub.memory["scale"] = heads.scale_of(task_of(hub), labels_of(hub, "train"))
        hub.memory["latest"] = {}
        begun = [hub.name] if hub.data.columns else []
        parties = len(begun) + len(peers.names)
        if hub.data.columns:
            self.begin(hub, seed, outputs, parties)
        begun += peers.ask(self.begin, seed=seed, outputs=outputs, parties=parties)
        if not begun:
            raise PartyAbsent(peers.names, self.begin.__name__)
        hub.memory["heads"] = {name: first_head(seed, name, self.width, outputs) for name in begun}
        if self.admm is not None:
            hub.memory["duals"] = np.zeros((len(hub.data.cut("train")), outputs))
        return peers if self.check is None else self._sifted(self.check, hub, peers)

    def _sifted(self, check: Check, hub: Party, peers: Peers) -> Peers:
        """The peers whose numbers count: nets that nobody has trained yet are as good as any to see what rows they saw.

        Who is left out has no head at the hub, and is asked nothing more.
        """
        received = {name: {"train": sent} for name, sent in peers.ask(self.give_outputs, rows="train").items()}
        own = {"train": self.message(hub, hub.data.part("train")[0])} if hub.data.columns else {}
        kept = check.sift(hub, received, own, {"train": labels_of(hub, "train")})
        hub.memory["heads"] = {
            name: head for name, head in hub.memory["heads"].items() if name in kept or name not in received
        }
        return peers.only(tuple(kept))

    def batches(self, hub: Party) -> Iterator[tuple[int, int]]:
        """Every batch of every epoch, by numbers."""
        count = -(-len(hub.data.cut("train")) // self.batch)
        for epoch in range(self.epochs):
            yield from ((epoch, number) for number in range(count))

    def rows_of(self, party: Party, epoch: int, number: int) -> Array:
        """The places in cut "train" of a batch's rows."""
        return batch_rows(len(party.data.cut("train")), self.batch, party.memory["order"], epoch, number)

    def last_batch(self, party: Party) -> Array:
        """The rows of the batch that a party answered last."""
        return party.data.x.take(party.data.cut("train")[self.rows_of(party, *party.memory["batch"])], axis=0)

    def message(self, party: Party, x: Array) -> Array:
        """What a party sends of these rows, before any noise."""
        guard = self.guard_of(party)
        found = None if guard is None else guard.encode(party, x, self.width)
        if found is None:
            found = outputs_of(self.net_of(party), self.width, party.memory["net"], x)
        return (found @ party.memory["head"] if self.sends_logits else found).astype(self.precision, copy=False)

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

    def targets(self, hub: Party, rows: Array) -> Array:
        """The labels of training rows as the loss compares them with predictions."""
        task = task_of(hub)
        return targets_of(task, to_array(heads.to_targets(task, labels_of(hub, "train")[rows], hub.memory["scale"])))

    def logits(self, hub: Party, messages: Mapping[str, Array]) -> Array:
        """The sum of what parties sent, each through its head; in a fixed order, as the order changes the last bits."""
        parts = [self.part_of(hub, name, messages[name]) for name in sorted(messages)]
        sums = np.asarray(np.sum(np.stack(parts), axis=0, dtype=np.float64))
        if not np.isfinite(sums).all():
            more = "" if self.admm is None else f", {self.admm.steadier(hub)}"
            raise ValueError(
                f"{type(self).__name__} diverged: the sum of all parties' parts holds NaN or infinity; try an lr below "
                f"{self.lr:g}{more}"
            )
        return sums

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
        """The hub's own part in a batch, by its name; nothing if it holds no columns."""
        if not hub.data.columns:
            return {}
        hub.memory["sent"] = self._turn(hub, epoch, number, signal)
        return {hub.name: hub.memory["sent"]}

    def remember(self, hub: Party, rows: Array, messages: Mapping[str, Array]) -> None:
        """Keep what was last sent for each training row, which shows later how much each party matters."""
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

    def guard_of(self, party: Party) -> AnyProtection | None:
        """What guards a party's rows; nothing does the hub's own, which never leave it."""
        return self.privacy if party.data.y is None else None

    def net_of(self, party: Party) -> Net:
        """The party's net."""
        return self.net or (Cnn(final="relu") if len(party.data.shape) == 3 else Mlp(final="relu"))

    def _protected(self, party: Party, message: Array, rows: str, places: Array | None = None) -> Any:
        """The message as it may leave: of the rows of a cut, or of those at some places in it."""
        at = party.data.cut(rows) if places is None else party.data.cut(rows)[places]
        return message if self.privacy is None else self.privacy.release(message, party, rows, at)

    def _predictions(self, hub: Party, logits: Array) -> Array:
        return heads.to_predictions(task_of(hub), torch.from_numpy(logits), hub.memory["scale"])

    def _turn(self, party: Party, epoch: int, number: int, signal: Array | None) -> Array:
        if signal is not None:
            self.improve(party, signal)
        party.memory["batch"] = [epoch, number]
        return self.message(party, self.last_batch(party))


def first_head(seed: int, name: str, width: int, outputs: int) -> Array:
    """A party's first head: the same wherever it is drawn, so that nobody has to send it."""
    rng = np.random.default_rng([seed, *name.encode()])
    bound = np.float32(width**-0.5)
    return rng.random((width, outputs), dtype=np.float32) * (2 * bound) - bound


class Pull(NamedTuple):
    """A party's net at work on a batch, which should bring its part of the logits to a goal for each row.

    Attributes:
        descent: the net; duplicate rows are in it once.
        goals: what it should come to, (rows, lanes).
        weights: how much each row counts, (rows, 1): rho over the batch's rows, times its number of duplicates.
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


class Admm(NamedTuple):
    """ADMM over a sum, whose hub keeps a dual for each training row, in `hub.memory["duals"]`.

    Attributes:
        rho: how much it weighs that the parties' sum agrees with the hub's logits.
        local_steps: steps of each party for one exchange.
        damping: which share of the gap between the parties' sum and the hub's logits each party sets out to close. None
            is all of it for classes, as in the paper, and for numbers one over how many parties there are, times rho
            if that is below 1: squared errors have steep slopes far off, so that parties who each close the whole gap
            would shoot further past it every round.
    """

    rho: float
    local_steps: int
    damping: float | None

    def check(self) -> None:
        """Refuse a rho, a number of steps or a damping that cannot be."""
        if not 0 < self.rho < inf:
            raise ValueError(f"rho must be above 0, not {self.rho}")
        if self.local_steps < 1:
            raise ValueError(f"local_steps must be 1 or more, not {self.local_steps}")
        if self.damping is not None and not 0 < self.damping <= 1:
            raise ValueError(f"damping must be above 0 and at most 1, or None, not {self.damping}")

    def signal(self, hub: Party, rows: Array, sums: Array, targets: Array) -> Array:
        """Eqs. (6) and (7): new logits and duals for these rows; returns (dual before - 2 dual after) / rho, damped.

        With it a party needs nothing else: its problem, eq. (10), is to bring its part of the logits to what it sent
        plus this, and its head's gradient, eq. (8), is what it sent times this. Duals are kept by row, so that
        batches can be drawn anew.
        """
        before = hub.memory["duals"][rows]
        logits = nearest_logits(task_of(hub), sums, before, targets, self.rho)
        after = before + self.rho * (sums - logits)
        hub.memory["duals"][rows] = after
        return np.asarray(self.share(hub) * (before - 2.0 * after) / self.rho)

    def share(self, hub: Party) -> float:
        """Which share of the gap each party closes."""
        if self.damping is not None:
            return self.damping
        if task_of(hub).kind != "regression":
            return 1.0
        # ADMM for sharing (Boyd and others 2011, section 7.3) moves each of M parts by an M-th of the gap. That is the
        # error over rho in the long run, and so more than the whole error if rho is below the loss's curvature, 1.
        return min(1.0, self.rho) / len(hub.memory["heads"])

    def steadier(self, hub: Party) -> str:
        """Settings that make steps smaller, or add up to less over parties."""
        return f"a damping below {self.share(hub):.2g} or a rho above {self.rho:g}"

    def pull(self, method: Summing, party: Party, goals: Array) -> Pull:
        """The party's net on its way to these goals for the batch it answered last."""
        x, net = method.last_batch(party), method.net_of(party)
        # Duplicates go as one: not under dropout, which treats each in its own way, nor where each is clipped.
        drops = isinstance(net, Mlp | Cnn) and net.dropout > 0
        apart = isinstance(method.guard_of(party), PrivateSteps) or drops
        same = each_alone(len(x)) if apart else find_duplicates(x)
        weights = same.counts[:, None] * (self.rho / len(x))
        wide = widen(same.means(goals))
        return Pull(
            descent=method.descent(party, x[same.first], self.local_steps),
            goals=wide,
            weights=to_tensor(weights.astype(np.float32)),
            by_parts=torch.empty_like(wide),
            by_outputs=torch.empty(len(wide), widened(method.width), device=wide.device),
        )
