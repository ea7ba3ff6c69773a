"""Layers that cost nothing to build: their weights are left unset until `initialise` or `load` fills them.

Split learning builds its model anew at every question, and torch's own layers spend most of that time on drawing
weights which are then thrown away.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Final: TypeAlias = Literal["linear", "tanh", "relu"]
"""What follows the last layer of a net."""


class Linear(nn.Module):
    """A fully connected layer with unset weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of `inputs` numbers to rows of `outputs` numbers."""
        return functional.linear(x, self.weight, self.bias)


class Conv(nn.Module):
    """A square convolution with unset weights; it keeps height and width if its kernel is odd and `pad` is set.

    Its kernels lie in memory with channels last, so that outputs do too: pooling is faster there.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, *, pad: bool = True) -> None:
        super().__init__()
        shape = (outputs, inputs, kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape, memory_format=torch.channels_last))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.padding = kernel // 2 if pad else 0

    def forward(self, x: Tensor) -> Tensor:
        """Map images of `inputs` channels to images of `outputs` channels."""
        return functional.conv2d(x, self.weight, self.bias, padding=self.padding)


class Dropout(nn.Module):
    """Dropout whose chance comes from a generator of its own, never from torch's global one.

    Attributes:
        generator: where the masks come from; set it with `give_chance` before training.
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
            raise ValueError("a net with dropout is trained without chance of its own; call give_chance(module, rng)")
        return x * torch.empty_like(x).bernoulli_(self.keep, generator=self.generator) / self.keep


def dense(widths: Sequence[int], dropout: float, final: Final) -> list[nn.Module]:
    """Fully connected layers between these widths, with ReLU and dropout between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths[:-1]):
        layers += [Linear(inputs, outputs), nn.ReLU(), *([Dropout(dropout)] if dropout else [])]
    finals: dict[Final, list[nn.Module]] = {"linear": [], "tanh": [nn.Tanh()], "relu": [nn.ReLU()]}
    return [*layers, Linear(widths[-2], widths[-1]), *finals[final]]
