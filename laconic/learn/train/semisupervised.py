"""Learning from few labelled and many unlabelled rows, by FixMatch's rule, whatever the rows are.

A guess about a slightly changed row that is confident enough becomes the label of a much changed view of the same row.
Sohn and others: FixMatch (2020); class-prior alignment after Berthelot and others: ReMixMatch (2020).
"""

from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from math import pi
from typing import TypeAlias

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from laconic.learn.device import device_now
from laconic.learn.nets.layers import (
    Linear,
    PatchNet,
    Shape,
    mask_like,
    normal,
    permutation,
    torch_generator,
    uniform,
    whole_numbers,
)
from laconic.learn.nets.nets import (
    AnyExtractor,
    Mlp,
    Net,
    give_randomness,
    initialise,
    load,
    members_of,
    to_tensor,
    weights_of,
)
from laconic.learn.train.sgd import Optimiser, Sgd
from laconic.values import Array, Rng, Settings, Weights, check_above_zero, check_least, track


class Fixed(Settings, frozen=True):
    """One threshold for all classes and for all time.

    On a table of 78 % and 22 % a threshold of 0.95 takes one row in twenty, all of them of the common class.

    Attributes:
        level: the least probability.
    """

    level: float = 0.95

    def __post_init__(self) -> None:
        _check_share("level", self.level)

    def watch(self, classes: int) -> "_Watch":
        """Cut-offs that never change."""
        return _Watch(torch.full((classes,), self.level, device=device_now()))


class Adaptive(Settings, frozen=True):
    """Follows the model's mean confidence, and is lower for classes that it guesses seldom.

    Wang and others: FreeMatch, Self-adaptive Thresholding for Semi-supervised Learning (2023).

    Attributes:
        momentum: how slowly the running means follow.
    """

    momentum: float = 0.99

    def __post_init__(self) -> None:
        _check_share("momentum", self.momentum)

    def watch(self, classes: int) -> "_Watch":
        """Cut-offs that start at equal probabilities."""
        return _Running(self.momentum, classes)


class Soft(Settings, frozen=True):
    """None: every guess counts, as the probability that it gives each class, and comes from the averaged weights.

    Tarvainen, Valpola: Mean teachers are better role models (2017). Right where a row does not show its class, such as
    half a digit that may be of a 4 or a 9: it stays both, and what parties say of it can be added up.
    """

    def watch(self, classes: int) -> "_Watch":
        """No cut-offs for any number of classes."""
        return _Watch(None)


AnyThreshold: TypeAlias = Fixed | Adaptive | Soft


class _Watch:
    """Cut-offs, one per class; without any, every guess counts, and the averaged weights make the guesses."""

    def __init__(self, cutoffs: Tensor | None) -> None:
        self.cutoffs = cutoffs

    def see(self, guesses: Tensor) -> None:
        """Take note of a batch's probabilities."""

    def labels(self, guesses: Tensor) -> tuple[Tensor, Tensor]:
        """What is learnt from each row's probabilities, and how much each row counts."""
        if self.cutoffs is None:
            return guesses, torch.ones(len(guesses), device=guesses.device)
        confidence, labels = guesses.max(dim=1)
        return labels, (confidence >= self.cutoffs[labels]).float()


class _Running(_Watch):
    """Cut-offs that follow what a model guesses."""

    def __init__(self, momentum: float, classes: int) -> None:
        self._momentum = momentum
        self._confidence = torch.tensor(1 / classes, device=device_now())
        self._shares = torch.full((classes,), 1 / classes, device=device_now())
        super().__init__(self._shares)

    def see(self, guesses: Tensor) -> None:
        self._confidence = torch.lerp(guesses.max(dim=1).values.mean(), self._confidence, self._momentum)
        self._shares = torch.lerp(guesses.mean(dim=0), self._shares, self._momentum)
        self.cutoffs = self._confidence * self._shares / self._shares.max()


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1, not {value}")


_SLOWEST = 0.999


class SemiSupervised(Settings, frozen=True):
    """Abstract: few labels, many rows; what weak and strong views are depends on the kind of rows.

    Attributes:
        steps: gradient steps in all.
        batch: labelled rows per step.
        ratio: unlabelled rows per step for each labelled one (mu); 0 learns from labelled rows alone.
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
        check_least(1, steps=self.steps, batch=self.batch)
        check_least(0, ratio=self.ratio, weight=self.weight, lr=self.lr, weight_decay=self.weight_decay)
        for name, share in {"warm_up": self.warm_up, "average": self.average}.items():
            if not 0 <= share <= _SLOWEST:
                raise ValueError(f"{name} must be from 0 to {_SLOWEST}, not {share}")

    @abstractmethod
    def weak(self, rows: Tensor, generator: Generator) -> Tensor:
        """Rows changed a little: a good model guesses the same."""

    @abstractmethod
    def strong(self, rows: Tensor, generator: Generator) -> Tensor:
        """Rows changed a lot: what they are can still be seen."""

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
            rng: randomness for order, views and dropout.
        """
        classes = start["head.bias"].size
        module = load(Extractor(net, x.shape[1:], width, classes), start)
        y = torch.tensor(codes, dtype=torch.int64, device=device_now())
        run = _Run(self, module, to_tensor(x), y, to_tensor(unlabelled), rng)
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
        self.module = give_randomness(module, rng).train()
        self.generator = torch_generator(rng)
        self.pace = Sgd(lr=settings.lr, decay="cosine", weight_decay=settings.weight_decay)
        self.optimiser = Optimiser(self.pace, module, self.pace.begin(module))
        classes = module.head.bias.numel()
        self.prior = (torch.bincount(y, minlength=classes) + 1.0) / (len(y) + classes)
        self.guessed = torch.full((classes,), 1 / classes, device=device_now())
        self.watch = settings.threshold.watch(classes)
        self.labelled_rows = _endless(len(x), settings.batch, self.generator)
        self.other_rows = _endless(len(unlabelled), settings.batch * settings.ratio, self.generator)

    def step(self, number: int) -> None:
        """One gradient step on a labelled batch and, if there are any, on unlabelled rows."""
        rows = next(self.labelled_rows)
        batch, y = self.settings.weak(self.x[rows], self.generator), self.y[rows]
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
        views = torch.cat((batch, self.settings.strong(others, self.generator)))
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
        module = self.averaged if self.watch.cutoffs is None else self.module
        guesses = module(self.settings.weak(others, self.generator)).softmax(dim=1)
        if self.settings.align:
            self.guessed = torch.lerp(guesses.mean(dim=0), self.guessed, 0.99)
            guesses = guesses * self.prior / self.guessed
            guesses = guesses / guesses.sum(dim=1, keepdim=True)
        self.watch.see(guesses)
        return self.watch.labels(guesses)


def _total(losses: list[Tensor]) -> Tensor:
    return torch.stack(losses).sum()


def _endless(rows: int, count: int, generator: Generator) -> Iterator[Tensor]:
    """Row numbers, `count` at a time, for ever; every row comes once before any comes again."""
    left = torch.empty(0, dtype=torch.int64, device="cpu")
    while rows and count:
        while len(left) < count:
            left = torch.cat((left, permutation(rows, generator)))
        yield left[:count].to(device_now())
        left = left[count:]


class Confident(Settings, frozen=True):
    """One confidence for all classes, as in the paper; where one class is common, it chooses that class alone.

    Attributes:
        level: the least probability.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.level < 1:
            raise ValueError(f"level must be at least 0 and below 1, not {self.level}")

    def cutoffs(self, confidence: Array, decided: Array, classes: int) -> Array:
        """The least confidence for each class."""
        return np.full(classes, self.level)


class PerClass(Settings, frozen=True):
    """The surest share of the rows of each class, so that every class is chosen as often as it is seen.

    Attributes:
        share: of the rows that a model puts into a class.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        check_above_zero(1, share=self.share)

    def cutoffs(self, confidence: Array, decided: Array, classes: int) -> Array:
        """The least confidence for each class."""
        members = [confidence[decided == one] for one in range(classes)]
        return np.array([np.quantile(some, 1 - self.share) if len(some) else 1.0 for some in members])


AnyChoice: TypeAlias = Confident | PerClass


def chances(alone: Array, joint: Array, choice: AnyChoice, prior: Array) -> Array:
    """The probability that each row is given a label (paper, eq. 9): zero unless both models agree and are sure.

    Args:
        alone: class probabilities by the model of one party's numbers, shape (rows, classes).
        joint: class probabilities by the model of all parties' numbers.
        choice: how sure is sure.
        prior: how often each class comes among labelled rows; probabilities are scaled so that it does here too.
    """
    if len(alone) == 0:
        return np.zeros(0)
    alone, joint = aligned(alone, prior), aligned(joint, prior)
    decided, confidence = joint.argmax(axis=1), joint.max(axis=1)
    kept = decided == alone.argmax(axis=1)
    for sure in (alone.max(axis=1), confidence):
        kept = kept & (sure >= choice.cutoffs(sure, decided, len(prior))[decided])
    return np.asarray(kept * confidence)


def aligned(probabilities: Array, prior: Array) -> Array:
    """Probabilities scaled so that their mean comes near the prior."""
    scaled = probabilities * (prior / np.maximum(probabilities.mean(axis=0), 1e-6))
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def shift(images: Tensor, most: int, generator: Generator) -> Tensor:
    """Move each image by up to `most` pixels in both directions; its border is drawn on."""
    if most == 0:
        return images
    rows, _, height, width = images.shape
    padded = functional.pad(images, (most, most, most, most), mode="replicate")
    down, right = whole_numbers(2 * most + 1, (2, rows), generator).to(images.device)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(rows, device=images.device), :, down, right]


def flip(images: Tensor, generator: Generator) -> Tensor:
    """Mirror every other image, on average, left to right."""
    mirrored = uniform((len(images),), generator).to(images.device) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)


def warp(images: Tensor, turn: float, zoom: float, slide: float, generator: Generator) -> Tensor:
    """Turn, stretch, shear and slide each image a little, in one resampling.

    Args:
        images: what to warp.
        turn: greatest angle in degrees, of turning and of shearing.
        zoom: greatest relative change of width and of height.
        slide: greatest movement as a share of the side.
        generator: where the amounts come from.
    """
    drawn = uniform((6, len(images)), generator).to(images.device) * 2 - 1
    angle, lean = drawn[0] * (turn * pi / 180), drawn[1] * (turn * pi / 180)
    wide, high = 1 + drawn[2] * zoom, 1 + drawn[3] * zoom
    height, width = images.shape[2:]
    # Coordinates run from -1 to 1 on both axes, so turning an image that is not square needs its proportions.
    shape = height / width
    first = torch.stack((angle.cos() * wide, (lean - angle.sin()) * shape, drawn[4] * 2 * slide), dim=1)
    second = torch.stack((angle.sin() / shape, angle.cos() * high, drawn[5] * 2 * slide), dim=1)
    size = [len(images), images.shape[1], height, width]
    grid = functional.affine_grid(torch.stack((first, second), dim=1), size, align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def shade(images: Tensor, most: float, generator: Generator) -> Tensor:
    """Change each image's contrast by a factor of up to 1 ± `most`, and its brightness by up to `most`."""
    drawn = (uniform((2, len(images), 1, 1, 1), generator).to(images.device) * 2 - 1) * most
    return images * (1 + drawn[0]) + drawn[1]


def punch(images: Tensor, share: float, generator: Generator) -> Tensor:
    """Put one grey rectangle, `share` of each side, on each image; it may hang over the border."""
    rows, _, height, width = images.shape
    across, down = uniform((2, rows, 1), generator).to(images.device)
    hidden_rows = (torch.arange(height, device=images.device) / height - down).abs() < share / 2
    hidden_columns = (torch.arange(width, device=images.device) / width - across).abs() < share / 2
    holes = hidden_rows[:, None, :, None] & hidden_columns[:, None, None, :]
    return images.masked_fill(holes, 0.0)


def mask(columns: Tensor, keep: float, generator: Generator) -> Tensor:
    """Keep each cell with probability `keep`; the others get their column's mean, which is zero in prepared rows."""
    return columns * mask_like(columns, keep, generator)


def jitter(values: Tensor, scale: float, generator: Generator) -> Tensor:
    """Add Gaussian noise of standard deviation `scale` to every number."""
    return values + scale * normal(values.shape, generator).to(values.device)


class FixMatch(SemiSupervised, frozen=True):
    """Semi-supervised learning of images, and of pieces of images.

    Attributes:
        steps: gradient steps in all; fewer and smaller ones than for tables, as images cost more.
        batch: labelled images per step.
        shift: pixels that a weak view is moved by at most.
        flips: whether views may be mirrored; right for photographs, wrong for digits.
        turn: greatest angle of a strong view, in degrees, in turning and in shearing.
        zoom: greatest relative change of a strong view's width and height.
        shade: greatest change of a strong view's contrast and brightness.
        hole: side of the rectangle hidden in a strong view, as a share of the image's sides.
    """

    steps: int = 400
    batch: int = 32
    shift: int = 2
    flips: bool = False
    turn: float = 15.0
    zoom: float = 0.15
    shade: float = 0.3
    hole: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(0, shift=self.shift, turn=self.turn, zoom=self.zoom, shade=self.shade, hole=self.hole)
        if self.hole >= 1:
            raise ValueError(f"hole must be below 1, not {self.hole}: nothing of the image would be left")

    def fit(
        self, start: Weights, net: AnyExtractor, width: int, x: Array, codes: Array, unlabelled: Array, rng: Rng
    ) -> Weights:
        """As `SemiSupervised.fit`; only images can be warped."""
        if x.ndim != 4:
            raise ValueError(
                f"FixMatch learns from images, (channels, height, width), not from rows of shape {x.shape[1:]}; "
                "for columns use local=FixMatchTab(...), on the command line --set method.local.type=FixMatchTab, or "
                "leave local out, which takes what suits the data"
            )
        return super().fit(start, net, width, x, codes, unlabelled, rng)

    def weak(self, rows: Tensor, generator: Generator) -> Tensor:
        """Shifted, and mirrored where that is allowed."""
        return shift(flip(rows, generator) if self.flips else rows, self.shift, generator)

    def strong(self, rows: Tensor, generator: Generator) -> Tensor:
        """Warped, shaded, and with a hole."""
        height, width = rows.shape[2:]
        slide = 2 * self.shift / max(height, width)
        rows = warp(flip(rows, generator) if self.flips else rows, self.turn, self.zoom, slide, generator)
        return punch(shade(rows, self.shade, generator), self.hole, generator)


class FixMatchTab(SemiSupervised, frozen=True):
    """Semi-supervised learning of tables.

    The paper's formula keeps the share that its text says is masked; what works is keeping most.

    Attributes:
        keep: the probability that a weak view keeps a cell.
        strong_keep: the probability that a strong view keeps a cell; the paper uses the weak view's mask for both.
        noise: standard deviation of the noise on a strong view, in units of a column's spread.
    """

    keep: float = 0.8
    strong_keep: float = 0.6
    noise: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(1, keep=self.keep, strong_keep=self.strong_keep)
        check_least(0, noise=self.noise)

    def weak(self, rows: Tensor, generator: Generator) -> Tensor:
        """Some cells masked."""
        return mask(rows, self.keep, generator)

    def strong(self, rows: Tensor, generator: Generator) -> Tensor:
        """More cells masked, and noise."""
        return jitter(mask(rows, self.strong_keep, generator), self.noise, generator)


AnyLocal: TypeAlias = FixMatch | FixMatchTab


def default_local(shape: Shape) -> AnyLocal:
    """FixMatch for images, FixMatch-tab for columns."""
    return FixMatch() if len(shape) == 3 else FixMatchTab()


def default_extractor(shape: Shape) -> Net:
    """A small net, rectified in the end: patches found without labels for images, one hidden layer for columns."""
    return PatchNet(final="relu") if len(shape) == 3 else Mlp(hidden=(64,), final="relu")
