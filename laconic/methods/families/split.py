"""Split learning: parties' nets and the hub's head trained together, one batch at a time.

Each party puts a batch through its net and sends the outputs; the hub puts them through its head, and sends back how
the loss changes with each output. A question brings the gradients of the batch before and takes the outputs of the next
one, so that a batch costs one round.

A method takes part by a property `split`, which says what is built where, and by having the five steps below.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from laconic.core.capabilities import Exported
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Step, step
from laconic.learn.device import device_now
from laconic.learn.nets.nets import (
    Cnn,
    Joint,
    Mlp,
    Net,
    give_randomness,
    initialise,
    load,
    look_at,
    to_array,
    to_tensor,
    weights_of,
)
from laconic.learn.train import losses as heads
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.methods.families.rows import batch_rows, labelled, rows_without_labels, some_rows
from laconic.values import Array, Weights, track

Precision = Literal["float32", "float16"]
"""How exactly numbers are sent; float16 halves the bytes."""

Note: TypeAlias = Callable[[Array, Mapping[str, Array]], None]
"""Called with each batch: which training rows, and what each party sent for them."""

LEAK = (
    "gradients of the loss at its outputs for one batch, from which labels can be read: in our measurements all "
    "of them at the first exchange, and 97 % or more, on average over parties, after training"
)
"""What gradients reveal to a party; studies/oneshot_vfl_tables.py measures it."""


def shared_batch(party: Party, size: int) -> Tensor:
    """The shared rows of the batch that a party was last asked for."""
    at = party.data.cut("train")
    return to_tensor(party.data.x[at[batch_rows(len(at), size, *party.memory["batch"])]])


def joint_loss(hub: Party, head: nn.Module, rows: Array, received: Mapping[str, Tensor]) -> Tensor:
    """The loss of a batch of training rows, given what each party sent for it."""
    x, y = some_rows(hub, rows)
    targets = heads.to_targets(task_of(hub), y, hub.memory["scale"])
    return heads.loss(task_of(hub), head(*_inputs(hub, x, list(received.values()))), targets)


class Split(NamedTuple):
    """How a method splits its net. A party's part is in `party.memory["net"]`, the hub's in `hub.memory["model"]`.

    Attributes:
        bottom: a party's net, its weights unset.
        top: the hub's head for its own columns and so many received numbers, its weights unset.
        trainer: how all are trained together.
        precision: how exactly outputs and gradients are sent.
        repeats: how many steps everybody takes on one batch before the next one crosses.
        batch: the rows of the batch that a party was last asked for, given how many rows a batch has.
        loss: the loss of a batch, given the hub's head, the places of the rows, and what each party sent for them.
    """

    bottom: Callable[[Party], nn.Module]
    top: Callable[[Party, int], nn.Module]
    trainer: Sgd
    precision: Precision
    repeats: int = 1
    batch: Callable[[Party, int], Tensor] = shared_batch
    loss: Callable[[Party, nn.Module, Array, Mapping[str, Tensor]], Tensor] = joint_loss

    def share(self, rows: int, epoch: int, number: int) -> float:
        """How much of all epochs lies before a batch, of so many training rows."""
        return (epoch + number * self.trainer.batch / rows) / self.trainer.epochs

    def sent(self, outputs: Tensor) -> Array:
        """Numbers as exactly as they are sent."""
        return to_array(outputs).astype(self.precision)


class Splits(Protocol):
    """A method that can train by split learning."""

    @property
    def split(self) -> Split:
        """What is built where, and how it is trained."""
        ...

    def exchange(self, party: Party, seed: int, epoch: int, number: int, gradient: Array | None) -> Array:
        """The first of the five steps; a method that says more in its words has its own."""
        ...

    learn: Step
    give_outputs: Step
    keep: Step
    go_back: Step


@step(takes=LEAK, gives="its net's outputs for one batch of training rows")
def exchange(method: Splits, party: Party, seed: int, epoch: int, number: int, gradient: Array | None) -> Array:
    """Learn from the batch before, and put the next one through the net."""
    if gradient is not None:
        learn(method, party, gradient)
    split = method.split
    party.memory["batch"] = [seed, epoch, number]
    with torch.inference_mode():
        return split.sent(_at_work(split, party)(split.batch(party, split.trainer.batch)))


@step(takes=LEAK, gives=None)
def learn(method: Splits, party: Party, gradient: Array) -> None:
    """Change the net so that the loss of the last batch falls."""
    split = method.split
    module = _at_work(split, party)
    _, epoch, number = party.memory["batch"]
    share = split.share(len(party.data.cut("train")), epoch, number)
    state = party.memory.get("optimiser") or split.trainer.begin(module)
    for _ in range(split.repeats):
        module.zero_grad()
        outputs: Tensor = module(split.batch(party, split.trainer.batch))
        # As outputs.backward(gradient), which would first import half a second's worth of torch.
        torch.autograd.backward((outputs * to_tensor(gradient)).sum())
        state = split.trainer.step(module, state, share)
    party.memory["optimiser"] = state
    party.memory["net"] = weights_of(module)


@step(takes=None, gives="its net's outputs for the rows asked for")
def give_outputs(method: Splits, party: Party, rows: str) -> Array:
    """Put the rows of a cut through the net."""
    split, x = method.split, to_tensor(party.data.part(rows)[0])
    return split.sent(evaluate(load(split.bottom(party), party.memory["net"]), [x]))


@step(takes=None, gives=None)
def keep(_: Splits, party: Party) -> None:
    """Remember the net as it is now."""
    party.memory["kept"] = {name: values.copy() for name, values in party.memory["net"].items()}


@step(takes=None, gives=None)
def go_back(_: Splits, party: Party) -> None:
    """Return to the net that was kept."""
    party.memory["net"] = party.memory["kept"]


def train_together(method: Splits, hub: Party, peers: Peers, note: Note | None = None) -> Iterator[None]:
    """Train all nets for the trainer's epochs, from where they are; those that validate best are kept.

    Args:
        note: called with each batch that crosses; None for nobody.
    """
    split, best = method.split, _Best()
    trainer, seed = split.trainer, int(hub.rng.integers(2**31))
    head = _HeadTraining(split, hub, seed)
    rows, patience = len(hub.data.cut("train")), trainer.patience if len(hub.data.cut("valid")) else None
    gradients: Mapping[str, Array | None] = dict.fromkeys(peers.names)
    for epoch in track(trainer.epochs, "epochs"):
        for number in range(-(-rows // trainer.batch)):
            when = {"seed": seed, "epoch": epoch, "number": number}
            questions = {name: {**when, "gradient": gradients[name]} for name in peers.names}
            outputs = peers.ask_each(method.exchange, questions)
            yield  # All nets have learnt the batches before; this one is under way.
            at = batch_rows(rows, trainer.batch, **when)
            if note is not None:
                note(at, outputs)
            gradients = head.improve(at, outputs, split.share(rows, epoch, number))
        if patience is not None:
            _teach(method, peers, gradients)
            gradients = dict.fromkeys(peers.names)
            if best.is_over(_valid_loss(method, hub, peers), patience, hub, peers, method):
                break
    if any(gradient is not None for gradient in gradients.values()):
        _teach(method, peers, gradients)
    if best.head:
        hub.memory["model"] = best.head
        peers.ask(method.go_back)
    yield


def predict_from_outputs(split: Split, hub: Party, outputs: Mapping[str, Array], rows: str) -> Array:
    """Predictions of the joint model from what parties sent for the rows of a cut."""
    return heads.to_predictions(task_of(hub), _through_head(split, hub, outputs, rows), hub.memory["scale"])


def split_of(method: Method) -> Split | None:
    """How a method splits its net; None for one that never trains by split learning."""
    found = getattr(method, "split", None)
    return found if isinstance(found, Split) else None


def refuse_changed_nets(more: Sgd | None) -> None:
    """Refuse to judge parties by what they once sent, if their nets went on learning afterwards."""
    if more is not None:
        raise ValueError(
            "what is stored of each party was sent before its net went on learning with more=Sgd(...); leave out more, "
            "or use noise_losses()"
        )


def first_weights(module: nn.Module, party: Party) -> Weights:
    """Drawn at random, or found among the party's rows where a layer looks for them there."""
    return weights_of(look_at(initialise(module, party.rng), partial(rows_without_labels, party), party.rng))


def _at_work(split: Split, party: Party) -> nn.Module:
    """A party's net in training; dropout masks a batch the same when it goes through and when its gradients come."""
    rng = np.random.default_rng([party.seed, *party.name.encode(), *party.memory["batch"]])
    return give_randomness(load(split.bottom(party), party.memory["net"]), rng).train()


def _teach(method: Splits, peers: Peers, gradients: Mapping[str, Array | None]) -> None:
    peers.ask_each(method.learn, {name: {"gradient": gradient} for name, gradient in gradients.items()})


class _HeadTraining:
    """The hub's head as it learns batch by batch."""

    def __init__(self, split: Split, hub: Party, seed: int) -> None:
        self.split, self.hub, self.rng = split, hub, np.random.default_rng(seed)
        self.state: Weights = {}

    def improve(self, rows: Array, outputs: Mapping[str, Array], share: float) -> dict[str, Array | None]:
        """The head learns from a batch; how the loss before that changes with each party's outputs."""
        split, hub = self.split, self.hub
        received = {name: to_tensor(values).requires_grad_() for name, values in outputs.items()}
        head = load(split.top(hub, sum(values.shape[1] for values in received.values())), hub.memory["model"])
        give_randomness(head, self.rng).train()
        self.state = self.state or split.trainer.begin(head)
        gradients: dict[str, Array | None] = {}
        for _ in range(split.repeats):
            head.zero_grad()
            torch.autograd.backward(split.loss(hub, head, rows, received))
            self.state = split.trainer.step(head, self.state, share)
            gradients = gradients or {name: _gradient(one).astype(split.precision) for name, one in received.items()}
        hub.memory["model"] = weights_of(head)
        return gradients


class _Best:
    """The lowest validation loss so far; the nets that had it are kept where they are."""

    def __init__(self) -> None:
        self.loss, self.waited = np.inf, 0
        self.head: Weights = {}

    def is_over(self, loss: float, patience: int, hub: Party, peers: Peers, method: Splits) -> bool:
        self.waited += 1
        if loss < self.loss:
            self.loss, self.waited = loss, 0
            self.head = {name: values.copy() for name, values in hub.memory["model"].items()}
            peers.ask(method.keep)
        return self.waited >= patience


def _valid_loss(method: Splits, hub: Party, peers: Peers) -> float:
    found = _through_head(method.split, hub, peers.ask(method.give_outputs, rows="valid"), "valid")
    targets = heads.to_targets(task_of(hub), labelled(hub, "valid")[1], hub.memory["scale"])
    return float(heads.loss(task_of(hub), found, targets))


def _through_head(split: Split, hub: Party, outputs: Mapping[str, Array], rows: str) -> Tensor:
    received = [to_tensor(values) for values in outputs.values()]
    head = load(split.top(hub, sum(values.shape[1] for values in received)), hub.memory["model"])
    return evaluate(head, _inputs(hub, hub.data.part(rows)[0], received))


def _inputs(hub: Party, x: Array, received: list[Tensor]) -> list[Tensor]:
    # Nothing is received where every party was lost: own columns alone.
    beside = torch.cat(received, dim=1) if received else torch.zeros(len(x), 0, device=device_now())
    return [to_tensor(x), beside] if hub.data.columns else [beside]


def _gradient(values: Tensor) -> Any:
    if values.grad is None:
        raise ValueError("the head does not depend on what a party sent; use a head with at least one weight for it")
    return to_array(values.grad)


class SplitNet(Method, frozen=True):
    """Abstract: every party has the first layers of one net, the label holder the last.

    Attributes:
        precision: how exactly outputs and gradients are sent.
        net: each party's net; None takes one that suits its data.
        width: how many numbers each party's net puts out for a row.
        head: the label holder's own net and head; None takes one that suits its data.
        trainer: how all are trained; with patience, outputs for the validation rows are sent each epoch too.
    """

    precision: Precision = "float32"
    net: Net | None = None
    width: int = 16
    head: Joint | None = None
    trainer: Sgd = Sgd(epochs=30, patience=5)

    exchange, learn, give_outputs, keep, go_back = exchange, learn, give_outputs, keep, go_back

    def __post_init__(self) -> None:
        """Refuse a width below 1."""
        if self.width < 1:
            raise ValueError(f"width must be 1 or more, not {self.width}")

    @property
    def split(self) -> Split:
        """One step per batch, on the rows that all parties share."""
        return Split(self.bottom, self.top, self.trainer, self.precision)

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Draw all weights, then train together."""
        if not peers.names:
            raise ValueError(f"there is no party beside {hub.name} to split a net with; use Solo for a party alone")
        peers.ask(self.begin)
        hub.memory["scale"] = heads.scale_of(task_of(hub), labelled(hub, "train")[1])
        hub.memory["model"] = first_weights(self.top(hub, self.width * len(peers.names)), hub)
        yield from train_together(self, hub, peers)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the rows through everybody's net, then through the head."""
        return predict_from_outputs(self.split, hub, peers.ask(self.give_outputs, rows=rows), rows)

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """A party's first layers, or the label holder's last ones."""
        if "net" in party.memory:
            net = load(self.bottom(party), party.memory["net"])
            return Exported(net, {}, {party.name: party.data.shape}, self.precision)
        own = {party.name: party.data.shape} if party.data.columns else {}
        top = load(self.top(party, self.width * len(peers)), party.memory["model"])
        return Exported(top, party.memory["scale"], own | dict.fromkeys(peers, (self.width,)))

    def fit_opening(self) -> Opening:
        """Weights can be drawn before anybody asks; batches come from a seed that depends on the hub's model."""
        return Opening((Ask.known(self.begin), Ask.later(self.exchange)), then="yields")

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_outputs, rows=rows),), then="ends")

    @step(takes=None, gives=None)
    def begin(self, party: Party) -> None:
        """Draw the first weights, known to this party alone."""
        party.memory["net"] = first_weights(self.bottom(party), party)

    def bottom(self, party: Party) -> nn.Module:
        """A peer's layers."""
        return (self.net or _default_net(party.data.shape)).build(party.data.shape, self.width)

    def top(self, hub: Party, width: int) -> nn.Module:
        """The label holder's layers."""
        shapes: list[Any] = [hub.data.shape, (width,)] if hub.data.columns else [(width,)]
        own = self.net or _default_net(hub.data.shape) if hub.data.columns else None
        return (self.head or Joint(own=own, width=self.width, head=Mlp())).model(shapes, task_of(hub).outputs)


def _default_net(shape: tuple[int, ...]) -> Net:
    # A ReLU at the cut and a hidden layer on both sides of it: with a linear cut, or none behind it, columns of
    # different parties cannot be weighed against each other.
    return Cnn(final="relu") if len(shape) == 3 else Mlp(hidden=(64,), final="relu")
