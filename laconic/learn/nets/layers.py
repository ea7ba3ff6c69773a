"""Layers that cost nothing to build: their weights are left unset until `initialise` or `load` fills them.

Split learning builds its model anew at every question, and torch's own layers spend most of that time on drawing
weights which are then thrown away.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from laconic.learn.device import device_now
from laconic.values import Rng, Settings


def torch_generator(rng: Rng) -> Generator:
    """A torch generator that continues the randomness of `rng`."""
    return Generator("cpu").manual_seed(int(rng.integers(2**63 - 1)))


def permutation(count: int, generator: Generator) -> Tensor:
    """The numbers below `count` in a random order."""
    return torch.randperm(count, generator=generator, device="cpu")


def whole_numbers(below: int, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Whole numbers from 0 to below `below`, all equally likely."""
    return torch.randint(below, shape, generator=generator, device="cpu")


def uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Numbers from 0 to below 1."""
    return torch.rand(shape, generator=generator, device="cpu")


def normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=generator, device="cpu")


def mask_like(x: Tensor, keep: float, generator: Generator) -> Tensor:
    """Ones with probability `keep` and zeros else, in the form and on the device of `x`."""
    return torch.empty_like(x, device="cpu").bernoulli_(keep, generator=generator).to(x.device)


Shape: TypeAlias = tuple[int, ...]
"""The shape of one row, without the batch axis: (columns,) or (channels, height, width)."""

Final: TypeAlias = Literal["linear", "tanh", "relu"]
"""What follows the last layer of a net."""


class OneInputNet(Settings, frozen=True):
    """Abstract: the form of a net that takes one input."""

    @abstractmethod
    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The net for rows of this shape, its weights unset."""

    def model(self, shapes: Sequence[Shape], outputs: int) -> nn.Module:
        """As `build`, for the shapes of a list of inputs, of which there must be one."""
        if len(shapes) != 1:
            inputs = f"{len(shapes)} of shapes {list(shapes)}"
            raise ValueError(f"this net takes one input, not {inputs}; use Joint to join two")
        return self.build(shapes[0], outputs)


def check_widths(**widths: tuple[int, ...]) -> None:
    """Refuse settings, by name, that hold a count below 1."""
    for name, counts in widths.items():
        if any(count < 1 for count in counts):
            raise ValueError(f"{name} must be whole numbers from 1 up, not {counts}")


def check_image(net: OneInputNet, shape: Shape) -> None:
    """Refuse rows that are no images."""
    if len(shape) != 3:
        name = type(net).__name__
        raise ValueError(f"a {name} needs rows of shape (channels, height, width), not {shape}; use Mlp for columns")


class Linear(nn.Module):
    """A fully connected layer with unset weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, device=device_now()))
        self.bias = nn.Parameter(torch.empty(outputs, device=device_now()))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of `inputs` numbers to rows of `outputs` numbers."""
        return functional.linear(x, self.weight, self.bias)


class Conv(nn.Module):
    """A square convolution with unset weights; with `pad` set and an odd kernel it keeps height and width.

    Its kernels lie in memory with channels last, so that outputs do too: pooling is faster there.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, *, stride: int = 1, pad: bool | int = True) -> None:
        super().__init__()
        shape = (outputs, inputs, kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape, memory_format=torch.channels_last, device=device_now()))
        self.bias = nn.Parameter(torch.empty(outputs, device=device_now()))
        self.stride, self.padding = stride, (kernel // 2 if pad else 0) if isinstance(pad, bool) else pad

    def forward(self, x: Tensor) -> Tensor:
        """Map images of `inputs` channels to images of `outputs` channels."""
        return functional.conv2d(x, self.weight, self.bias, stride=self.stride, padding=self.padding)


class Dropout(nn.Module):
    """Dropout whose masks come from a generator of its own, never from torch's global one.

    Attributes:
        generator: where the masks come from; set it with `give_randomness` before training.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.keep = 1.0 - rate
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Zero some values and scale up the rest while training; pass `x` on otherwise."""
        if not self.training or self.keep == 1.0:
            return x
        if self.generator is None:
            raise ValueError(
                "dropout has no randomness to draw its masks from; call give_randomness(module, rng) before training"
            )
        return x * mask_like(x, self.keep, self.generator) / self.keep


def dense(widths: Sequence[int], dropout: float, final: Final) -> list[nn.Module]:
    """Fully connected layers between these widths, with ReLU and dropout between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths[:-1]):
        layers += [Linear(inputs, outputs), nn.ReLU(), *([Dropout(dropout)] if dropout else [])]
    finals: dict[Final, list[nn.Module]] = {"linear": [], "tanh": [nn.Tanh()], "relu": [nn.ReLU()]}
    return [*layers, Linear(widths[-2], widths[-1]), *finals[final]]


class ResNet(OneInputNet, frozen=True):
    """Pre-activation residual blocks in stages that halve the image.

    Channels are normalised in groups within each image and have no scale of their own: the convolution that follows has
    one. The default is small enough for one processor core. The paper's WideResNet20 is
    `ResNet(blocks=3, widen=2)`: 6 x 3 + 2 layers; it wants a graphics card.

    Attributes:
        blocks: residual blocks, of two convolutions each, in every stage.
        channels: channels of each stage before widening.
        widen: what all channels are multiplied by.
        final: what follows the last layer.
    """

    blocks: int = 1
    channels: tuple[int, ...] = (16, 32, 64)
    widen: int = 1
    final: Literal["linear", "tanh", "relu"] = "linear"

    def __post_init__(self) -> None:
        check_widths(blocks=(self.blocks,), channels=self.channels or (0,), widen=(self.widen,))

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The net for images of this shape (channels, height, width), its weights unset."""
        check_image(self, shape)
        depths = [depth * self.widen for depth in self.channels]
        stages: list[nn.Module] = [Conv(shape[0], depths[0])]
        for number, (before, depth) in enumerate(pairwise([depths[0], *depths])):
            stages += [_Halve()] if number else []
            stages += [_Block(before if first == 0 else depth, depth) for first in range(self.blocks)]
        last = {"linear": nn.Identity(), "tanh": nn.Tanh(), "relu": nn.ReLU()}[self.final]
        return nn.Sequential(*stages, _Normalise(), nn.ReLU(), _Mean(), Linear(depths[-1], outputs), last)


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.more = outputs - inputs
        act = nn.ReLU()
        self.path = nn.Sequential(
            _Normalise(), act, Conv(inputs, outputs), _Normalise(), act, Conv(outputs, outputs)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        # New channels start empty on the short way, which so needs no weights.
        short = functional.pad(x, (0, 0, 0, 0, 0, self.more)) if self.more > 0 else x[:, : x.shape[1] + self.more]
        added: Tensor = short + self.path(x)
        return added


class _Normalise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        channels = x.shape[1]
        groups = next(count for count in (4, 2, 1) if channels % count == 0)
        return functional.group_norm(x, groups)


class _Halve(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height, width = (2 if side >= 4 else 1 for side in x.shape[2:])
        return functional.avg_pool2d(x, (height, width))


class _Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


_FLAT = 0.02
"""Added to a patch's variance, of pixels that have variance 1 in all, so that flat patches stay flat."""
_WHITEN = 0.1
"""Added to the variance of each direction of patches before they are whitened."""
_SURE = 0.25
"""Answers of a filter below this count as none."""
_PATCHES, _TURNS = 100_000, 10
_LOUD = 3.0
"""The length of all answers in one cell."""


class PatchNet(OneInputNet, frozen=True):
    """Filters for patches of an image, and a fully connected net on which of them answer where.

    Filters are random until `look_at` lets them be found among rows without labels, and are never trained: right for
    few labels.

    Attributes:
        filters: how many.
        size: height and width of a patch in pixels; no more than the image has.
        stride: pixels from one patch to the next.
        cell: height and width, in pixels, of the pieces of an image over which a filter's answers are averaged.
        hidden: widths of the fully connected hidden layers.
        final: what follows the last layer.
    """

    filters: int = 128
    size: int = 6
    stride: int = 2
    cell: int = 5
    hidden: tuple[int, ...] = ()
    final: Final = "linear"

    def __post_init__(self) -> None:
        check_widths(filters=(self.filters,), size=(self.size,), stride=(self.stride,), cell=(self.cell,))
        check_widths(hidden=self.hidden)

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The net for images of this shape (channels, height, width), its weights unset."""
        check_image(self, shape)
        layer = PatchLayer(self.filters, shape, self.size, self.stride, self.cell)
        return nn.Sequential(layer, *dense((layer.outputs, *self.hidden, outputs), 0.0, self.final))


class PatchLayer(nn.Module):
    """How strongly each of some filters answers in each cell of an image; nothing here is trained by gradients.

    A patch counts less its mean and over its spread, both signs of an answer count apart, answers are averaged within
    cells, and all answers of a cell are brought to the same length, so that neither light nor contrast matters.

    Attributes:
        kernels: the filters, (filters, channels, height, width).
        offsets: what each filter answers to the mean patch, (filters,).
        outputs: how many numbers come out for an image.
    """

    kernels: Tensor
    offsets: Tensor

    def __init__(self, filters: int, shape: tuple[int, ...], size: int, stride: int, cell: int) -> None:
        super().__init__()
        depth, *sides = shape
        patch = [min(size, side) for side in sides]
        places = [(side - length) // stride + 1 for side, length in zip(sides, patch, strict=True)]
        self.stride = stride
        high, wide = (min(most, max(1, round(side / cell))) for side, most in zip(sides, places, strict=True))
        self.cells = (high, wide)
        self.outputs = 2 * filters * high * wide
        self.register_buffer(
            "kernels", torch.empty(filters, depth, *patch, memory_format=torch.channels_last, device=device_now())
        )
        self.register_buffer("offsets", torch.empty(filters, device=device_now()))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Images to rows of numbers."""
        patch = (self.kernels.shape[2], self.kernels.shape[3])
        light = functional.avg_pool2d(x.mean(dim=1, keepdim=True), patch, self.stride)
        power = functional.avg_pool2d(x.square().mean(dim=1, keepdim=True), patch, self.stride)
        spread = (power - light.square()).clamp_min_(0).add_(_FLAT).sqrt_()
        # Kernels that were learnt sum to zero, so that a patch's mean is taken off by the product itself.
        answers = functional.conv2d(x, self.kernels, stride=self.stride).div_(spread).sub_(self.offsets[:, None, None])
        both = torch.cat([self._pool(sign * answers) for sign in (1, -1)], dim=1)
        even: Tensor = both * (_LOUD / (both.norm(dim=1, keepdim=True) + 1e-3))
        return even.flatten(1)

    @torch.no_grad()
    def learn(self, x: Tensor, generator: Generator) -> None:
        """Find filters by k-means over whitened patches of these images; without images, filters stay as drawn."""
        if len(x) == 0:
            return
        patches = _normalise(_draw(x, self.kernels.shape, generator))
        mean = patches.mean(dim=0)
        # On the processor: not every device has eigenvectors.
        squares = ((patches - mean).T @ (patches - mean) / len(patches)).cpu()
        spread, directions = (one.to(x.device) for one in torch.linalg.eigh(squares))
        whiten = directions / (spread.clamp_min(0) + _WHITEN).sqrt() @ directions.T
        filters = _cluster((patches - mean) @ whiten, len(self.offsets), generator) @ whiten
        self.offsets.copy_(filters @ mean)
        self.kernels.copy_((filters - filters.mean(dim=1, keepdim=True)).view(self.kernels.shape))

    def _pool(self, answers: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(answers.sub_(_SURE).relu_(), self.cells)


def _draw(x: Tensor, shape: torch.Size, generator: Generator) -> Tensor:
    """Patches from anywhere in these images, (patches, numbers)."""
    windows = x.unfold(2, shape[2], 1).unfold(3, shape[3], 1)
    image, down, right = (
        whole_numbers(windows.shape[axis], (_PATCHES,), generator).to(x.device) for axis in (0, 2, 3)
    )  # fmt: skip
    return windows[image, :, down, right].flatten(1)


def _normalise(patches: Tensor) -> Tensor:
    mean = patches.mean(dim=1, keepdim=True)
    return (patches - mean) / (patches.var(dim=1, keepdim=True, correction=0) + _FLAT).sqrt()


def _cluster(patches: Tensor, count: int, generator: Generator) -> Tensor:
    """Directions of length 1 such that each patch points along one of them, forwards or backwards."""
    found = functional.normalize(normal((count, patches.shape[1]), generator).to(patches.device))
    for _ in range(_TURNS):
        sums = 1e-3 * found  # A direction that no patch takes stays where it is.
        for some in torch.split(patches, 8192):
            along = some @ found.T
            nearest = along.abs().argmax(dim=1)
            sums.index_add_(0, nearest, some * along.gather(1, nearest[:, None]))
        found = functional.normalize(sums)
    return found
