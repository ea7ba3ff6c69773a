"""Learning from few labelled and many unlabelled rows, by FixMatch's rule, whatever the rows are.

A guess about a slightly changed row that is confident enough becomes the label of a much changed view of the same row.
Sohn and others: FixMatch (2020); class-prior alignment after Berthelot and others: ReMixMatch (2020).
"""

from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from math import inf

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from laconic.core.values import Array, Rng, Settings, Weights
from laconic.learn.layers import Linear
from laconic.learn.nets import Shape, give_chance, initialise, load, to_tensor, torch_generator, weights_of
from laconic.learn.progress import track
from laconic.learn.several import AnyExtractor, members_of
from laconic.learn.sgd import Optimiser, Sgd
from laconic.learn.thresholds import Adaptive, AnyThreshold

_SLOWEST = 0.999


class SemiSupervised(Settings, frozen=True):
    """Abstract: few labels, many rows; what weak and strong views are depends on the kind of rows.

    Attributes:
        steps: gradient steps in all.
        batch: labelled rows a step.
        ratio: unlabelled rows a step for each labelled one (mu); 0 learns from labelled rows alone.
        weight: of the unlabelled rows' loss (lambda).
        warm_up: the share of all steps over which that weight rises from zero.
        threshold: from which confidence on a guess counts; `Soft()` takes all, as probabilities.
        align: scale guesses so that classes come as often as among the labelled rows.
        average: momentum of the running mean of weights that is kept in the end; 0 keeps the last weights.
        lr: Adam's learning rate, which falls to zero along a cosine.
        weight_decay: weight of the L2 penalty.
    """

    steps: int = 600
    batch: int = 64
    ratio: int = 4
    weight: float = 1.0
    warm_up: float = 0.1
    threshold: AnyThreshold = Adaptive()
    align: bool = True
    average: float = 0.99
    lr: float = 3e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse values that cannot train anything."""
        for name, value, least in (("steps", self.steps, 1), ("batch", self.batch, 1), ("ratio", self.ratio, 0)):
            if value < least:
                raise ValueError(f"{name} must be {least} or more, not {value}")
        for name, number in {"weight": self.weight, "lr": self.lr, "weight_decay": self.weight_decay}.items():
            if not 0 <= number < inf:
                raise ValueError(f"{name} must be 0 or more, not {number}")
        for name, share in {"warm_up": self.warm_up, "average": self.average}.items():
            if not 0 <= share <= _SLOWEST:
                raise ValueError(f"{name} must be from 0 to {_SLOWEST}, not {share}")

    @abstractmethod
    def weak(self, rows: Tensor, chance: Generator) -> Tensor:
        """Rows changed a little: a good model guesses the same."""

    @abstractmethod
    def strong(self, rows: Tensor, chance: Generator) -> Tensor:
        """Rows changed a lot: what they are can still be told."""

    def fit(
        self, start: Weights, net: AnyExtractor, width: int, x: Array, codes: Array, unlabelled: Array, rng: Rng
    ) -> Weights:
        """Train an extractor and a class head from the given weights (`begin`).

        Args:
            start: weights of `Extractor`.
            net: the extractor's form.
            width: how many numbers the extractor puts out.
            x: labelled rows.
            codes: their classes, from 0.
            unlabelled: further rows; may be none.
            rng: chance for order, views and dropout.
        """
        classes = start["head.bias"].size
        module = load(Extractor(net, x.shape[1:], width, classes), start)
        run = _Run(self, module, to_tensor(x), torch.tensor(codes, dtype=torch.int64), to_tensor(unlabelled), rng)
        for number in track(self.steps, "local learning"):
            run.step(number)
        return run.finish()


class Extractor(nn.Module):
    """A net that puts a row into a few numbers, and a linear class head on top of them."""

    def __init__(self, net: AnyExtractor, shape: Shape, width: int, classes: int) -> None:
        super().__init__()
        self.body = net.build(shape, width)
        self.head = Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The class logits of rows."""
        logits: Tensor = self.head(self.body(x))
        return logits

    def each(self, x: Tensor) -> list[Tensor]:
        """The class logits of rows by each net that learns by itself: one, or several."""
        return [self.head(member(x)) for member in members_of(self.body)]


def begin(net: AnyExtractor, shape: Shape, width: int, classes: int, rng: Rng) -> Weights:
    """First weights of an `Extractor`."""
    return weights_of(initialise(Extractor(net, shape, width, classes), rng))


def body_of(weights: Weights) -> Weights:
    """The weights of an extractor without its class head, as the net names them."""
    return {name.removeprefix("body."): values for name, values in weights.items() if name.startswith("body.")}


class _Run:
    """One training run: the module, its optimiser, running means, and where in the rows it is."""

    def __init__(
        self, settings: SemiSupervised, module: Extractor, x: Tensor, y: Tensor, unlabelled: Tensor, rng: Rng
    ) -> None:
        self.settings, self.x, self.y, self.unlabelled = settings, x, y, unlabelled
        self.averaged = deepcopy(module).eval().requires_grad_(False)
        self.mean: list[Tensor] = list(self.averaged.parameters())
        self.module = give_chance(module, rng).train()
        self.chance = torch_generator(rng)
        self.pace = Sgd(lr=settings.lr, decay="cosine", weight_decay=settings.weight_decay)
        self.optimiser = Optimiser(self.pace, module, self.pace.begin(module))
        classes = module.head.bias.numel()
        self.prior = (torch.bincount(y, minlength=classes) + 1.0) / (len(y) + classes)
        self.guessed = torch.full((classes,), 1 / classes)
        self.watch = settings.threshold.watch(classes)
        self.labelled_rows = _endless(len(x), settings.batch, self.chance)
        self.other_rows = _endless(len(unlabelled), settings.batch * settings.ratio, self.chance)

    def step(self, number: int) -> None:
        """One gradient step on a labelled batch and, if there are any, on unlabelled rows."""
        rows = next(self.labelled_rows)
        batch, y = self.settings.weak(self.x[rows], self.chance), self.y[rows]
        self.module.zero_grad()
        if len(self.unlabelled) and self.settings.ratio:
            loss = self._both(batch, y, self.unlabelled[next(self.other_rows)], number)
        else:
            loss = _total([functional.cross_entropy(known, y) for known in self.module.each(batch)])
        torch.autograd.backward(loss)
        self.optimiser.step(self.pace.lr_at(number / self.settings.steps))
        # The mean starts young and forgets fast, so that first weights leave no trace.
        momentum = min(self.settings.average, (1 + number) / (10 + number))
        with torch.no_grad():
            torch._foreach_lerp_(self.mean, list(self.module.parameters()), 1 - momentum)

    def finish(self) -> Weights:
        """The averaged weights, or the last ones if nothing is averaged."""
        module = self.averaged if self.settings.average > 0 else self.module
        return {name: np.ascontiguousarray(values) for name, values in weights_of(module).items()}

    def _both(self, batch: Tensor, y: Tensor, others: Tensor, number: int) -> Tensor:
        labels, keep = self._guess(others)
        views = torch.cat((batch, self.settings.strong(others, self.chance)))
        warmth = min(1.0, number / max(1.0, self.settings.warm_up * self.settings.steps))
        total = []
        for logits in self.module.each(views):
            known, unknown = torch.split(logits, [len(batch), len(others)])
            losses = functional.cross_entropy(unknown, labels, reduction="none")
            total.append(functional.cross_entropy(known, y) + self.settings.weight * warmth * (losses * keep).mean())
        return _total(total)

    @torch.no_grad()
    def _guess(self, others: Tensor) -> tuple[Tensor, Tensor]:
        """What each row is taken for, a class or shares of several, and how much the guess counts."""
        module = self.averaged if self.watch.averaged else self.module
        guesses = module(self.settings.weak(others, self.chance)).softmax(dim=1)
        if self.settings.align:
            self.guessed = torch.lerp(guesses.mean(dim=0), self.guessed, 0.99)
            guesses = guesses * self.prior / self.guessed
            guesses = guesses / guesses.sum(dim=1, keepdim=True)
        self.watch.see(guesses)
        return self.watch.labels(guesses)


def _total(losses: list[Tensor]) -> Tensor:
    return torch.stack(losses).sum()


def _endless(rows: int, count: int, chance: Generator) -> Iterator[Tensor]:
    """Row numbers, `count` at a time, for ever; every row comes once before any comes again."""
    left = torch.empty(0, dtype=torch.int64)
    while rows and count:
        while len(left) < count:
            left = torch.cat((left, torch.randperm(rows, generator=chance)))
        yield left[:count]
        left = left[count:]
