"""Randomness for tensors: always drawn on the processor, so that a seed draws the same numbers for every device.

What is drawn stays on the processor; whoever uses it on another device sends it there.
"""

import torch
from torch import Generator, Tensor

from laconic.values import Rng


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
