"""Nets whose first layer looks for patches of an image that are common among rows without labels.

Coates, Lee, Ng: An Analysis of Single-Layer Networks in Unsupervised Feature Learning (2011). Where few rows have a
label, filters found without any do better than filters trained on those few.
"""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from laconic.core.values import Settings
from laconic.learn.layers import Final, dense

_FLAT = 0.02
"""Added to a patch's variance, of pixels that have variance 1 in all, so that flat patches stay flat."""
_WHITEN = 0.1
"""Added to the variance of each direction of patches before they are whitened."""
_SURE = 0.25
"""Answers of a filter below this count as none."""
_PATCHES, _TURNS = 100_000, 10
_LOUD = 3.0
"""The length of all answers in one cell."""


class PatchNet(Settings, frozen=True):
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
        """Refuse counts and widths below 1."""
        counts = {"filters": self.filters, "size": self.size, "stride": self.stride, "cell": self.cell}
        for name, widths in {**{name: (count,) for name, count in counts.items()}, "hidden": self.hidden}.items():
            if any(width < 1 for width in widths):
                raise ValueError(f"{name} must be whole numbers from 1 up, not {widths}")

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The net for images of this shape (channels, height, width), its weights unset."""
        if len(shape) != 3:
            raise ValueError(
                f"a PatchNet needs rows of shape (channels, height, width), not {shape}; use Mlp for columns"
            )
        layer = PatchLayer(self.filters, shape, self.size, self.stride, self.cell)
        return nn.Sequential(layer, *dense((layer.outputs, *self.hidden, outputs), 0.0, self.final))

    def model(self, shapes: Sequence[tuple[int, ...]], outputs: int) -> nn.Module:
        """As `build`, for the shapes of a list of inputs, of which there must be one."""
        (shape,) = shapes
        return self.build(shape, outputs)


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
        self.register_buffer("kernels", torch.empty(filters, depth, *patch, memory_format=torch.channels_last))
        self.register_buffer("offsets", torch.empty(filters))

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
    def learn(self, x: Tensor, chance: Generator) -> None:
        """Find filters by k-means over whitened patches of these images; without images, filters stay as drawn."""
        if len(x) == 0:
            return
        patches = _normalise(_draw(x, self.kernels.shape, chance))
        mean = patches.mean(dim=0)
        spread, directions = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
        whiten = directions / (spread.clamp_min(0) + _WHITEN).sqrt() @ directions.T
        filters = _cluster((patches - mean) @ whiten, len(self.offsets), chance) @ whiten
        self.offsets.copy_(filters @ mean)
        self.kernels.copy_((filters - filters.mean(dim=1, keepdim=True)).view(self.kernels.shape))

    def _pool(self, answers: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(answers.sub_(_SURE).relu_(), self.cells)


def _draw(x: Tensor, shape: torch.Size, chance: Generator) -> Tensor:
    """Patches from anywhere in these images, (patches, numbers)."""
    windows = x.unfold(2, shape[2], 1).unfold(3, shape[3], 1)
    image, down, right = (
        torch.randint(windows.shape[axis], (_PATCHES,), generator=chance) for axis in (0, 2, 3)
    )  # fmt: skip
    return windows[image, :, down, right].flatten(1)


def _normalise(patches: Tensor) -> Tensor:
    mean = patches.mean(dim=1, keepdim=True)
    return (patches - mean) / (patches.var(dim=1, keepdim=True, correction=0) + _FLAT).sqrt()


def _cluster(patches: Tensor, count: int, chance: Generator) -> Tensor:
    """Directions of length 1 such that each patch lies along one of them, forwards or backwards."""
    found = functional.normalize(torch.randn(count, patches.shape[1], generator=chance))
    for _ in range(_TURNS):
        sums = 1e-3 * found  # A direction that no patch takes stays where it is.
        for some in torch.split(patches, 8192):
            along = some @ found.T
            nearest = along.abs().argmax(dim=1)
            sums.index_add_(0, nearest, some * along.gather(1, nearest[:, None]))
        found = functional.normalize(sums)
    return found
