"""Split learning: parties' nets and the hub's head trained together, one batch at a time.

Each party puts a batch through its net and sends the outputs; the hub puts them through its head, and sends back how
the loss changes with each output. A question brings the gradients of the batch before and takes the outputs of the next
one, so that a batch costs one round.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from laconic.core.device import device_now
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.learn.nets.nets import (
    Cnn,
    Joint,
    Mlp,
    Net,
    give_chance,
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
from laconic.values import Array, Rng, Weights

Precision = Literal["float32", "float16"]
"""How exactly numbers are sent; float16 halves the bytes."""

Note: TypeAlias = Callable[[Array, Mapping[str, Array]], None]
"""Told of a batch: which training rows, and what each party sent for them."""

LEAK = (
    "gradients of the loss at its outputs for one batch, from which labels can be read: in our measurements all "
    "of them at the first exchange, and 97 % or more, on average over parties, after training"
)
"""What gradients tell a party; studies/oneshot_vfl_tables.py measures it."""


class Splitting(Method, frozen=True):
    """Abstract: a method that trains parties' nets through a hub's head.

    A party's net is in `party.memory["net"]`, the hub's head in `hub.memory["model"]`, both as plain arrays.

    Attributes:
        precision: how exactly outputs and gradients are sent.
    """

    precision: Precision = "float32"

    @abstractmethod
    def bottom(self, party: Party) -> nn.Module:
        """The party's net, its weights unset."""

    @abstractmethod
    def top(self, hub: Party, width: int) -> nn.Module:
        """The hub's head for its own columns and `width` received numbers, its weights unset."""

    @abstractmethod
    def together(self) -> Sgd:
        """How all nets are trained together."""

    @property
    def repeats(self) -> int:
        """How many steps everybody takes on one batch before the next one crosses."""
        return 1

    @step(takes=LEAK, gives="its net's outputs for one batch of training rows")
    def exchange(self, party: Party, seed: int, epoch: int, number: int, gradient: Array | None) -> Array:
        """Learn from the batch before, and put the next one through the net."""
        if gradient is not None:
            self.learn(party, gradient)
        party.memory["batch"] = [seed, epoch, number]
        with torch.inference_mode():
            return self._sent(self._at_work(party)(self.batch_of(party)))

    @step(takes=LEAK, gives=None)
    def learn(self, party: Party, gradient: Array) -> None:
        """Change the net so that the loss of the last batch falls."""
        module = self._at_work(party)
        _, epoch, number = party.memory["batch"]
        share = self._share(len(party.data.cut("train")), epoch, number)
        state = party.memory.get("optimiser") or self.together().begin(module)
        for _ in range(self.repeats):
            module.zero_grad()
            outputs: Tensor = module(self.batch_of(party))
            # As outputs.backward(gradient), which would first import half a second's worth of torch.
            torch.autograd.backward((outputs * to_tensor(gradient)).sum())
            state = self.together().step(module, state, share)
        party.memory["optimiser"] = state
        party.memory["net"] = weights_of(module)

    @step(takes=None, gives="its net's outputs for the rows asked for")
    def give_outputs(self, party: Party, rows: str) -> Array:
        """Put the rows of a cut through the net."""
        x = to_tensor(party.data.part(rows)[0])
        return self._sent(evaluate(load(self.bottom(party), party.memory["net"]), [x]))

    @step(takes=None, gives=None)
    def keep(self, party: Party) -> None:
        """Remember the net as it is now."""
        party.memory["kept"] = {name: values.copy() for name, values in party.memory["net"].items()}

    @step(takes=None, gives=None)
    def go_back(self, party: Party) -> None:
        """Return to the net that was kept."""
        party.memory["net"] = party.memory["kept"]

    def train_together(self, hub: Party, peers: Peers, note: Note | None = None) -> Iterator[None]:
        """Train all nets for the epochs of `together`, from where they are; the best validated ones are kept.

        Args:
            note: told of each batch that crosses; None for nobody.
        """
        trainer, best = self.together(), _Best()
        seed = int(hub.rng.integers(2**31))
        chance = np.random.default_rng(seed)
        rows, patience = len(hub.data.cut("train")), trainer.patience if len(hub.data.cut("valid")) else None
        state: Weights = {}
        gradients: Mapping[str, Array | None] = dict.fromkeys(peers.names)
        for epoch in range(trainer.epochs):
            for number in range(-(-rows // trainer.batch)):
                when = {"seed": seed, "epoch": epoch, "number": number}
                questions = {name: {**when, "gradient": gradients[name]} for name in peers.names}
                outputs = peers.ask_each(self.exchange, questions)
                yield  # All nets have learnt the batches before; this one is under way.
                at, share = batch_rows(rows, trainer.batch, **when), self._share(rows, epoch, number)
                if note is not None:
                    note(at, outputs)
                gradients, state = self._improve(hub, at, outputs, state, chance, share)
            if patience is not None:
                self._teach(peers, gradients)
                gradients = dict.fromkeys(peers.names)
                if best.is_over(self._valid_loss(hub, peers), patience, hub, peers, self):
                    break
        if any(gradient is not None for gradient in gradients.values()):
            self._teach(peers, gradients)
        best.restore(hub, peers, self)
        yield

    def outputs_for(self, hub: Party, peers: Peers, rows: str) -> Array:
        """Predictions of the joint model for the rows of a cut."""
        return self.predictions_from(hub, peers.ask(self.give_outputs, rows=rows), rows)

    def predictions_from(self, hub: Party, outputs: Mapping[str, Array], rows: str) -> Array:
        """Predictions of the joint model from what parties sent for the rows of a cut."""
        return heads.to_predictions(task_of(hub), self._through_head(hub, outputs, rows), hub.memory["scale"])

    def batch_of(self, party: Party) -> Tensor:
        """The rows of the batch that the party was last asked for."""
        seed, epoch, number = party.memory["batch"]
        at = party.data.cut("train")
        return to_tensor(party.data.x[at[batch_rows(len(at), self.together().batch, seed, epoch, number)]])

    def loss_of(self, hub: Party, head: nn.Module, rows: Array, received: Mapping[str, Tensor]) -> Tensor:
        """The loss of a batch of training rows, given what each party sent for it."""
        x, y = some_rows(hub, rows)
        targets = heads.to_targets(task_of(hub), y, hub.memory["scale"])
        return heads.loss(task_of(hub), head(*_inputs(hub, x, list(received.values()))), targets)

    def _share(self, rows: int, epoch: int, number: int) -> float:
        """How much of all epochs lies before a batch of so many training rows."""
        trainer = self.together()
        return (epoch + number * trainer.batch / rows) / trainer.epochs

    def _at_work(self, party: Party) -> nn.Module:
        """A party's net in training; dropout masks a batch alike when it goes through and when its gradients come."""
        chance = np.random.default_rng([party.seed, *party.name.encode(), *party.memory["batch"]])
        return give_chance(load(self.bottom(party), party.memory["net"]), chance).train()

    def _sent(self, outputs: Tensor) -> Array:
        return to_array(outputs).astype(self.precision)

    def _teach(self, peers: Peers, gradients: Mapping[str, Array | None]) -> None:
        peers.ask_each(self.learn, {name: {"gradient": gradient} for name, gradient in gradients.items()})

    def _improve(
        self, hub: Party, rows: Array, outputs: Mapping[str, Array], state: Weights, chance: Rng, share: float
    ) -> tuple[dict[str, Array | None], Weights]:
        """The hub's head learns; how the loss before that changes with each party's outputs."""
        received = {name: to_tensor(values).requires_grad_() for name, values in outputs.items()}
        head = load(self.top(hub, sum(values.shape[1] for values in received.values())), hub.memory["model"])
        give_chance(head, chance).train()
        state = state or self.together().begin(head)
        gradients: dict[str, Array | None] = {}
        for _ in range(self.repeats):
            head.zero_grad()
            torch.autograd.backward(self.loss_of(hub, head, rows, received))
            state = self.together().step(head, state, share)
            gradients = gradients or {name: _gradient(one).astype(self.precision) for name, one in received.items()}
        hub.memory["model"] = weights_of(head)
        return gradients, state

    def _valid_loss(self, hub: Party, peers: Peers) -> float:
        found = self._through_head(hub, peers.ask(self.give_outputs, rows="valid"), "valid")
        targets = heads.to_targets(task_of(hub), labelled(hub, "valid")[1], hub.memory["scale"])
        return float(heads.loss(task_of(hub), found, targets))

    def _through_head(self, hub: Party, outputs: Mapping[str, Array], rows: str) -> Tensor:
        received = [to_tensor(values) for values in outputs.values()]
        head = load(self.top(hub, sum(values.shape[1] for values in received)), hub.memory["model"])
        return evaluate(head, _inputs(hub, hub.data.part(rows)[0], received))


def refuse_changed_nets(more: Sgd | None) -> None:
    """Refuse to judge parties by what they once sent, if their nets went on learning afterwards."""
    if more is not None:
        raise ValueError(
            "what is stored of each party was sent before its net went on learning with more=Sgd(...); leave out more, "
            "or use noise_losses()"
        )


class _Best:
    """The lowest validation loss so far; the nets that had it are kept where they are."""

    def __init__(self) -> None:
        self.loss, self.waited = np.inf, 0
        self.head: Weights = {}

    def is_over(self, loss: float, patience: int, hub: Party, peers: Peers, script: Splitting) -> bool:
        self.waited += 1
        if loss < self.loss:
            self.loss, self.waited = loss, 0
            self.head = {name: values.copy() for name, values in hub.memory["model"].items()}
            peers.ask(script.keep)
        return self.waited >= patience

    def restore(self, hub: Party, peers: Peers, script: Splitting) -> None:
        if self.head:
            hub.memory["model"] = self.head
            peers.ask(script.go_back)


def _inputs(hub: Party, x: Array, received: list[Tensor]) -> list[Tensor]:
    # Nothing is received where every party was lost: own columns alone.
    beside = torch.cat(received, dim=1) if received else torch.zeros(len(x), 0, device=device_now())
    return [to_tensor(x), beside] if hub.data.columns else [beside]


def _gradient(values: Tensor) -> Any:
    if values.grad is None:
        raise ValueError("the head does not depend on what a party sent; use a head with at least one weight for it")
    return to_array(values.grad)


class SplitNet(Splitting, frozen=True):
    """Abstract: every party has the first layers of one net, the label holder the last.

    Attributes:
        net: each party's net; None takes one that suits its data.
        width: how many numbers each party's net puts out for a row.
        head: the label holder's own net and head; None takes one that suits its data.
        trainer: how all are trained; with patience, outputs for the validation rows are sent each epoch too.
    """

    net: Net | None = None
    width: int = 16
    head: Joint | None = None
    trainer: Sgd = Sgd(epochs=30, patience=5)

    def __post_init__(self) -> None:
        """Refuse a width below 1."""
        if self.width < 1:
            raise ValueError(f"width must be 1 or more, not {self.width}")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Draw all weights, then train together."""
        if not peers.names:
            raise ValueError(f"there is no party beside {hub.name} to split a net with; use Solo for a party alone")
        peers.ask(self.begin)
        hub.memory["scale"] = heads.scale_of(task_of(hub), labelled(hub, "train")[1])
        hub.memory["model"] = _first_weights(self.top(hub, self.width * len(peers.names)), hub)
        yield from self.train_together(hub, peers)

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the rows through everybody's net, then through the head."""
        return self.outputs_for(hub, peers, rows)

    def fit_opening(self) -> Opening:
        """Weights can be drawn before anybody asks; batches come from a seed that depends on the hub's model."""
        return Opening((Ask.known(self.begin), Ask.later(self.exchange)), then="yields")

    def predict_opening(self, rows: str) -> Opening:
        """Parties need the name of the cut alone."""
        return Opening((Ask.known(self.give_outputs, rows=rows),), then="ends")

    @step(takes=None, gives=None)
    def begin(self, party: Party) -> None:
        """Draw the first weights, known to this party alone."""
        party.memory["net"] = _first_weights(self.bottom(party), party)

    def bottom(self, party: Party) -> nn.Module:
        """A peer's layers."""
        return (self.net or _default_net(party.data.shape)).build(party.data.shape, self.width)

    def top(self, hub: Party, width: int) -> nn.Module:
        """The label holder's layers."""
        shapes: list[Any] = [hub.data.shape, (width,)] if hub.data.columns else [(width,)]
        own = self.net or _default_net(hub.data.shape) if hub.data.columns else None
        return (self.head or Joint(own=own, width=self.width, head=Mlp())).model(shapes, task_of(hub).outputs)

    def together(self) -> Sgd:
        """All nets are trained alike."""
        return self.trainer


def _first_weights(module: nn.Module, party: Party) -> Weights:
    """Drawn at random, or found among the party's rows where a layer looks for them there."""
    return weights_of(look_at(initialise(module, party.rng), partial(rows_without_labels, party), party.rng))


def _default_net(shape: tuple[int, ...]) -> Net:
    # A ReLU at the cut and a hidden layer on both sides of it: with a linear cut, or none behind it, columns of
    # different parties cannot be weighed against each other.
    return Cnn(final="relu") if len(shape) == 3 else Mlp(hidden=(64,), final="relu")
