"""FixMatch for images: weak views are shifted, strong ones warped, shaded and pierced."""

from math import pi
from typing import TypeAlias

import torch
from torch import Generator, Tensor
from torch.nn import functional

from laconic.learn.draws import mask_like, normal, uniform, whole_numbers
from laconic.learn.nets.layers import PatchNet, Shape
from laconic.learn.nets.nets import AnyExtractor, Mlp, Net
from laconic.learn.train.semisupervised import SemiSupervised
from laconic.values import Array, Rng, Weights, check_above_zero, check_least


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
