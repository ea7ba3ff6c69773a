"""Changed views of whole batches at once: shifts, warps, shades and holes for images, masks and noise for columns.

Everything works on tensors of prepared rows: images of shape (rows, channels, height, width), columns of shape (rows,
columns), both with mean about zero. Chance comes from the generator given, one draw a row.
"""

from math import pi

import torch
from torch import Generator, Tensor
from torch.nn import functional


def shift(images: Tensor, most: int, chance: Generator) -> Tensor:
    """Move each image by up to `most` pixels in both directions; its border is drawn on."""
    if most == 0:
        return images
    rows, _, height, width = images.shape
    padded = functional.pad(images, (most, most, most, most), mode="replicate")
    down, right = torch.randint(0, 2 * most + 1, (2, rows), generator=chance)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(rows), :, down, right]


def flip(images: Tensor, chance: Generator) -> Tensor:
    """Mirror every other image, on average, left to right."""
    mirrored = torch.rand(len(images), generator=chance) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)


def warp(images: Tensor, turn: float, zoom: float, slide: float, chance: Generator) -> Tensor:
    """Turn, stretch, shear and slide each image a little, in one resampling.

    Args:
        images: what to warp.
        turn: greatest angle in degrees, of turning and of shearing.
        zoom: greatest relative change of width and of height.
        slide: greatest movement as a share of the side.
        chance: where the amounts come from.
    """
    drawn = torch.rand(6, len(images), generator=chance) * 2 - 1
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


def shade(images: Tensor, most: float, chance: Generator) -> Tensor:
    """Change each image's contrast by a factor of up to 1 ± `most`, and its brightness by up to `most`."""
    drawn = (torch.rand(2, len(images), 1, 1, 1, generator=chance) * 2 - 1) * most
    return images * (1 + drawn[0]) + drawn[1]


def punch(images: Tensor, share: float, chance: Generator) -> Tensor:
    """Put one grey rectangle, `share` of each side, on each image; it may hang over the border."""
    rows, _, height, width = images.shape
    across, down = torch.rand(2, rows, 1, generator=chance)
    hidden_rows = (torch.arange(height) / height - down).abs() < share / 2
    hidden_columns = (torch.arange(width) / width - across).abs() < share / 2
    holes = hidden_rows[:, None, :, None] & hidden_columns[:, None, None, :]
    return images.masked_fill(holes, 0.0)


def mask(columns: Tensor, keep: float, chance: Generator) -> Tensor:
    """Keep each cell with chance `keep`, and put the others at their column's mean, which is zero in prepared rows."""
    return columns * torch.empty_like(columns).bernoulli_(keep, generator=chance)


def jitter(values: Tensor, scale: float, chance: Generator) -> Tensor:
    """Add Gaussian noise of standard deviation `scale` to every number."""
    return values + scale * torch.randn(values.shape, generator=chance)
