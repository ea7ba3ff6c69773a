"""Gaps: NaN where a party sent nothing about a row, and what is done about them by models that need a number.

The models that `Best` tries take standardised columns, zeros for gaps, and marks. A model that was named by hand keeps
its own columns: the mean of those that are known takes the place of a gap. A net sees, while it learns, some rows of
each batch with a block of columns taken away, so that one net serves whoever is present.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laconic.learn.device import device_now
from laconic.learn.draws import torch_generator, uniform
from laconic.learn.nets.nets import to_tensor
from laconic.values import Array, Rng, Weights, flat

FILL = ("fill.mean", "fill.sd", "fill.block")
GAPS = "gaps.mean"
"""The array of a model that holds what takes the place of gaps; only a model that learnt from gaps has it."""

_HIDDEN = 0.15
"""The share of a batch's rows for which a block that is missing elsewhere is taken away."""


def learn_gaps(x: Array) -> Weights:
    """What takes the place of gaps: the mean of each column where it is known; nothing if there is no gap."""
    missing = np.isnan(x)
    if not missing.any():
        return {}
    total = np.where(missing, 0.0, x).sum(axis=0, dtype=np.float64)
    return {GAPS: (total / np.maximum(len(x) - missing.sum(axis=0), 1)).astype(np.float32)}


def without_gaps(weights: Weights, x: Array) -> Array:
    """The rows with their gaps filled; with zeros, if the model never learnt from gaps."""
    missing = np.isnan(x)
    return np.where(missing, weights.get(GAPS, np.float32(0)), x).astype(x.dtype) if missing.any() else x


def apart(weights: Weights) -> Weights:
    """A model's weights without what takes the place of gaps."""
    return {name: values for name, values in weights.items() if name != GAPS}


def hide_blocks(module: nn.Module, x: Array, gaps: Weights, rng: Rng) -> None:
    """Have a net's last input lack some blocks, drawn anew for each batch, while it is trained.

    Args:
        x: the last input's rows with their gaps: columns that are missing together are a block.
        gaps: what takes their place.
    """
    blocks, draws, mean = blocks_of(flat(x)).reshape(x.shape[1:]), torch_generator(rng), to_tensor(gaps[GAPS])
    masks = [torch.tensor(blocks == number, device=device_now()) for number in range(int(blocks.max()) + 1)]

    def hide(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        rows: Tensor = inputs[-1]
        for mask in masks if module.training else ():
            drawn = (uniform((len(rows),), draws) < _HIDDEN).to(device_now())
            rows = torch.where(drawn.view(-1, *[1] * (rows.dim() - 1)) & mask, mean, rows)
        return (*inputs[:-1], rows)

    module.register_forward_pre_hook(hide)


def blocks_of(x: Array) -> Array:
    """For each column the number of its block, columns that are missing in the same rows; -1 if it is never missing."""
    missing = np.isnan(x)
    known: dict[bytes, int] = {}
    found = np.full(x.shape[1], -1, dtype=np.int32)
    for column in np.flatnonzero(missing.any(axis=0)):
        found[column] = known.setdefault(np.packbits(missing[:, column]).tobytes(), len(known))
    return found


def learn_fill(x: Array, blocks: Array) -> Weights:
    """What `filled` needs: mean and standard deviation of each column, and its block."""
    known = ~np.isnan(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0, dtype=np.float64) / count
    sd = np.sqrt((np.where(known, x - mean, 0.0) ** 2).sum(axis=0) / count)
    return dict(zip(FILL, (mean, np.where(sd > 0, sd, 1.0), blocks), strict=True))


def filled(fill: Weights, x: Array, farthest: float | None = None) -> Array:
    """Standardised columns with zeros for what is missing, and beside them a mark for each block that is missing."""
    mean, sd, blocks = (fill[name] for name in FILL)
    numbers = np.nan_to_num((x - mean) / sd, nan=0.0)
    if farthest is not None:
        numbers = np.clip(numbers, -farthest, farthest)
    first = [int(np.argmax(blocks == number)) for number in range(int(blocks.max(initial=-1)) + 1)]
    return np.concatenate([numbers, np.isnan(x[:, first])], axis=1, dtype=np.float32)
