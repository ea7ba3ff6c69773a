"""Randomness for tensors: always drawn on the processor, so that a seed draws the same numbers for every device.

What is drawn stays on the processor; whoever uses it on another device sends it there.
"""

import torch
from torch import Generator, Tensor

from laconic.values import Rng


def torch_generator(rng: Rng) -> Generator:
    """A torch generator that continues the randomness of `rng`."""
    return Generator("cpu").manual_seed(int(rng.integers(2**63 - 1)))


def permutation(count: int, chance: Generator) -> Tensor:
    """The numbers below `count` in a random order."""
    return torch.randperm(count, generator=chance, device="cpu")


def whole_numbers(below: int, shape: tuple[int, ...], chance: Generator) -> Tensor:
    """Whole numbers from 0 to below `below`, all equally likely."""
    return torch.randint(below, shape, generator=chance, device="cpu")


def uniform(shape: tuple[int, ...], chance: Generator) -> Tensor:
    """Numbers from 0 to below 1."""
    return torch.rand(shape, generator=chance, device="cpu")


def normal(shape: tuple[int, ...], chance: Generator) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=chance, device="cpu")


def mask_like(x: Tensor, keep: float, chance: Generator) -> Tensor:
    """Ones with probability `keep` and zeros else, in the form and on the device of `x`."""
    return torch.empty_like(x, device="cpu").bernoulli_(keep, generator=chance).to(x.device)
