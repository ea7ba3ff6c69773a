"""Gradient descent on tensors in memory, whole or one resumable step at a time."""

from collections.abc import Callable, Iterator, Sequence
from math import cos, inf, pi
from typing import Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from laconic.core.ledger import Noise
from laconic.learn.device import device_now
from laconic.learn.nets.layers import permutation, torch_generator
from laconic.learn.nets.nets import AnyModule, give_randomness, to_array
from laconic.learn.train.losses import Loss
from laconic.values import Rng, Settings, Weights, check_least, track

_LOOK_ROWS, _LOOK_IMAGES = 1024, 128
"""So many rows go through a net at once: what layers make of more images does not stay in a processor's cache."""


_PLATEAU, _SLOWER = 2, 0.3
"""After so many epochs without a lower validation loss, `decay = plateau` takes so much of the learning rate."""

Pulls: TypeAlias = Callable[[str, Tensor], Tensor]
"""By a parameter's name and values, what is added to its gradient in every step."""


class Trainer(Protocol):
    """How to train a net: `Sgd`, or something that goes wherever it goes."""

    def fit(
        self,
        module: AnyModule,
        inputs: Sequence[Tensor],
        targets: Tensor,
        loss: Loss,
        rng: Rng,
        *,
        valid: tuple[Sequence[Tensor], Tensor] | None = None,
        what: str = "training",
    ) -> AnyModule:
        """Train the module in place, and return it in evaluation mode; see `Sgd.fit`."""
        ...

    def noise(self, rows: int) -> tuple[Noise, ...] | None:
        """The noise that `fit` puts on what it learns from so many rows; None if rows enter without noise."""
        ...


class PullTrainer(Protocol):
    """How to train a net under noise, with pulls that are added to gradients after it: `DpSgd`."""

    def fit(
        self,
        module: AnyModule,
        inputs: Sequence[Tensor],
        targets: Tensor,
        loss: Loss,
        rng: Rng,
        *,
        what: str = "training",
        pulls: Pulls | None = None,
    ) -> AnyModule:
        """Train the module in place, and return it in evaluation mode; see `DpSgd.fit`."""
        ...


class Sgd(Settings, frozen=True):
    """How to train a net by gradient descent.

    Attributes:
        epochs: how often every row is seen.
        batch: rows per step; the last step of an epoch takes what is left.
        lr: the learning rate, or where it starts.
        decay: how the learning rate goes on: `none` keeps it, `cosine` lets it fall smoothly to zero, `plateau` takes
            three tenths of it after every second epoch without a lower validation loss, and so needs `patience`.
        weight_decay: weight of the L2 penalty.
        optimizer: Adam, or plain gradient descent with `momentum`.
        momentum: used by plain gradient descent only.
        patience: stop after this many epochs without a lower validation loss, and go back to the best weights;
            None never stops early and keeps the last weights.
    """

    epochs: int = 20
    batch: int = 128
    lr: float = 1e-3
    decay: Literal["none", "cosine", "plateau"] = "none"
    weight_decay: float = 1e-5
    optimizer: Literal["adam", "sgd"] = "adam"
    momentum: float = 0.0
    patience: int | None = None

    def __post_init__(self) -> None:
        check_least(1, batch=self.batch, patience=self.patience)
        check_least(0, epochs=self.epochs, weight_decay=self.weight_decay, lr=self.lr)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, not {self.momentum}")
        if self.decay == "plateau" and self.patience is None:
            raise ValueError("decay = plateau goes by the validation loss, which is not looked at without patience")

    def fit(
        self,
        module: AnyModule,
        inputs: Sequence[Tensor],
        targets: Tensor,
        loss: Loss,
        rng: Rng,
        *,
        valid: tuple[Sequence[Tensor], Tensor] | None = None,
        what: str = "training",
    ) -> AnyModule:
        """Train the module in place, and return it in evaluation mode.

        Args:
            module: called with one tensor for each of `inputs`; its weights are where training starts.
            inputs: tensors with a row for each target.
            targets: what `loss` takes as its second argument.
            loss: the mean loss of (outputs, targets).
            rng: randomness for the order of rows and for dropout.
            valid: inputs and targets to stop early by; not looked at if `patience` is None.
            what: a name for the work, shown with its progress.
        """
        give_randomness(module, rng)
        order = torch_generator(rng)
        optimiser = Optimiser(self, module, self.begin(module))
        best, slower = _Best(module, self.patience), 1.0
        for epoch in track(self.epochs, what):
            module.train()
            for rows, share in _batches(len(targets), self.batch, order):
                module.zero_grad()
                taken = [x.index_select(0, rows) for x in inputs]
                torch.autograd.backward(loss(module(*taken), targets.index_select(0, rows)))
                optimiser.step(self.lr_at((epoch + share) / self.epochs) * slower)
            if valid is not None and self.patience is not None and best.is_over(_mean_loss(module, valid, loss)):
                break
            if self.decay == "plateau" and best.waited and best.waited % _PLATEAU == 0:
                slower *= _SLOWER
        best.restore()
        return module.eval()

    def noise(self, rows: int) -> tuple[Noise, ...] | None:
        """None: rows enter without noise."""
        return None

    def begin(self, module: nn.Module) -> Weights:
        """The optimiser's state before its first step, as plain arrays."""
        params = list(module.parameters())
        size = sum(values.numel() for values in params)
        return {"steps": np.zeros(len(params), np.float32), **{m: np.zeros(size, np.float32) for m in self.moments}}

    def step(self, module: nn.Module, state: Weights, share: float = 0.0) -> Weights:
        """Change the module's weights by its accumulated gradients, and return the optimiser's next state.

        Carrying on from the returned arrays, in whatever process, gives bit for bit what `fit` would have done
        with the same gradients. The given state is not changed.

        Args:
            share: of all epochs, how much comes before this step; see `lr_at`.
        """
        optimiser = Optimiser(self, module, state)
        optimiser.step(self.lr_at(share))
        return optimiser.state()

    def lr_at(self, share: float) -> float:
        """The learning rate after this share of all epochs."""
        return self.lr * 0.5 * (1 + cos(pi * share)) if self.decay == "cosine" else self.lr

    @property
    def moments(self) -> tuple[str, ...]:
        """What the optimiser keeps of each weight."""
        return ("mean", "square") if self.optimizer == "adam" else ("momentum",)


class Optimiser:
    """An optimiser at work on one module: its state in torch's memory, its step in one fused call."""

    def __init__(self, settings: Sgd, module: nn.Module, state: Weights) -> None:
        self.settings = settings
        self.params: list[Tensor] = list(module.parameters())
        self.flat = {name: torch.tensor(values, device=device_now()) for name, values in state.items()}
        self.steps = list(self.flat["steps"].unbind())
        self.moments = [_like(self.params, self.flat[name]) for name in sorted(self.flat.keys() - {"steps"})]

    def step(self, lr: float) -> None:
        """Change the weights by their gradients; a weight without one counts as having gradient zero."""
        grads = [torch.zeros_like(values) if values.grad is None else values.grad for values in self.params]
        move(self.settings, self.params, grads, self.moments, self.steps, lr)

    def state(self) -> Weights:
        """Where the optimiser is, as plain arrays."""
        return {name: to_array(values) for name, values in self.flat.items()}


class _Best:
    """The weights with the lowest validation loss so far."""

    def __init__(self, module: nn.Module, patience: int | None) -> None:
        self.module, self.patience = module, patience
        self.loss, self.waited = inf, 0
        self.weights: list[Tensor] = []

    def is_over(self, loss: float) -> bool:
        """Take note of an epoch's validation loss; True if patience has run out."""
        self.waited += 1
        if loss < self.loss:
            self.loss, self.waited = loss, 0
            self.weights = [values.detach().clone() for values in self.module.parameters()]
        return self.patience is not None and self.waited >= self.patience

    def restore(self) -> None:
        """Go back to the best weights, if any were noted."""
        for values, kept in zip(self.module.parameters(), self.weights, strict=False):
            values.data.copy_(kept)


@torch.no_grad()
def move(
    settings: Sgd,
    params: list[Tensor],
    grads: list[Tensor],
    moments: Sequence[list[Tensor]],
    steps: list[Tensor],
    lr: float,
) -> None:
    """One step of the optimiser for these weights, in place, in one fused call.

    Args:
        settings: which optimiser, its momentum and weight decay.
        params: the weights.
        grads: a gradient for each of them.
        moments: for Adam, running means of each gradient and of its square; else its momentum.
        steps: how many steps each of them has taken before; used by Adam only.
        lr: the learning rate of this step.
    """
    decay = settings.weight_decay
    if settings.optimizer == "adam":
        means, squares = moments
        adam(params, grads, means, squares, [], steps, lr=lr, weight_decay=decay, fused=True,
             beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip
    else:
        momenta: list[Tensor | None] = [*moments[0]]
        sgd(params, grads, momenta, lr=lr, weight_decay=decay, fused=True,
            momentum=settings.momentum, dampening=0.0, nesterov=False, maximize=False)  # fmt: skip


def evaluate(module: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    """The module's outputs in evaluation mode, worked out some rows at a time."""
    module.eval()
    with torch.inference_mode():
        count = _LOOK_IMAGES if any(x.dim() == 4 for x in inputs) else _LOOK_ROWS
        parts = zip(*(torch.split(x, count) for x in inputs), strict=True)
        return torch.cat([module(*part) for part in parts])


def send_back(outputs: Tensor, gradient: Tensor) -> None:
    """Add to the weights' gradients, given the loss's gradient at the outputs.

    The same as `outputs.backward(gradient)`, which would first import a symbolic algebra package, for seconds.
    """
    torch.autograd.backward((outputs * gradient).sum())


def _mean_loss(module: nn.Module, valid: tuple[Sequence[Tensor], Tensor], loss: Loss) -> float:
    inputs, targets = valid
    return float(loss(evaluate(module, inputs), targets))


def _batches(rows: int, batch: int, order: torch.Generator) -> Iterator[tuple[Tensor, float]]:
    """Shuffled row numbers, a batch at a time, each with the share of the epoch that comes before it."""
    for start, numbers in enumerate(torch.split(permutation(rows, order).to(device_now()), batch)):
        yield numbers, start * batch / rows


def _like(params: Sequence[Tensor], flat: Tensor) -> list[Tensor]:
    """Views into a flat vector, one for each parameter and of its shape."""
    parts = torch.split(flat, [values.numel() for values in params])
    return [part.view(values.shape) for part, values in zip(parts, params, strict=True)]
