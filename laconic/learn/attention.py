"""Attention: guess the numbers that a row would have at another party, from rows that both parties know.

A row's guess is the mean of the known rows' numbers, weighted by how alike the rows are where both can be seen: scaled
dot-product attention, as few-shot VFL and FedCVT use it.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from laconic.core.values import Array, Settings
from laconic.learn.nets import to_tensor

_GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Attention(Settings, frozen=True):
    """How alike two rows have to be to learn from each other.

    Rows are centred and brought to length 1 before they are compared: raw ones, as in the paper, are dominated by
    whichever rows have large numbers, and the weights then collapse onto single rows.

    Attributes:
        sharpness: what similarities, from -1 to 1, are multiplied by; large looks at the most alike rows alone. None
            takes the one that guesses each known row best from all the other known rows.
    """

    sharpness: float | None = None

    def __post_init__(self) -> None:
        """Refuse a sharpness that turns likeness round."""
        if self.sharpness is not None and self.sharpness < 0:
            raise ValueError(f"sharpness must be 0 or more, not {self.sharpness}; None finds one")

    def estimate(self, rows: Array, known: Array, missing: Array) -> Array:
        """The missing numbers of `rows`.

        Args:
            rows: what can be seen of them, shape (rows, seen).
            known: what can be seen of the rows known in full, shape (known rows, seen).
            missing: the known rows' other numbers, shape (known rows, missing).
        """
        queries, keys, values = to_tensor(rows), to_tensor(known), to_tensor(missing)
        sharpness = self.sharpness if self.sharpness is not None else best_sharpness(keys, values)
        parts = [attend(part, keys, values, sharpness) for part in torch.split(queries, 4096)]
        return torch.cat(parts).numpy()


def attend(queries: Tensor, keys: Tensor, values: Tensor, sharpness: float) -> Tensor:
    """The values' mean for each query, weighted by the likeness of query and key."""
    centre = keys.mean(dim=0)
    return (sharpness * _likeness(queries - centre, keys - centre)).softmax(dim=1) @ values


def best_sharpness(keys: Tensor, values: Tensor) -> float:
    """The sharpness with which every row's values are best guessed from those of all other rows."""
    if len(keys) < 2:
        return _GRID[0]
    likeness = _likeness(keys - keys.mean(dim=0), keys - keys.mean(dim=0)).fill_diagonal_(-np.inf)
    errors = [float(functional.mse_loss((one * likeness).softmax(dim=1) @ values, values)) for one in _GRID]
    return _GRID[int(np.argmin(errors))]


def _likeness(queries: Tensor, keys: Tensor) -> Tensor:
    return functional.normalize(queries, dim=1) @ functional.normalize(keys, dim=1).T
