"""Residual networks as settings, without batch statistics: rows never meet, and nothing but weights is learnt."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from laconic.core.values import Settings
from laconic.learn.layers import Conv, Linear


class ResNet(Settings, frozen=True):
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
        """Refuse counts below 1."""
        for name, counts in {"blocks": (self.blocks,), "channels": self.channels, "widen": (self.widen,)}.items():
            if not counts or min(counts) < 1:
                raise ValueError(f"{name} must be whole numbers from 1 up, not {counts}")

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The net for images of this shape (channels, height, width), its weights unset."""
        if len(shape) != 3:
            raise ValueError(f"a ResNet needs rows of shape (channels, height, width), not {shape}; columns need Mlp")
        depths = [depth * self.widen for depth in self.channels]
        stages: list[nn.Module] = [Conv(shape[0], depths[0])]
        for number, (before, depth) in enumerate(pairwise([depths[0], *depths])):
            stages += [_Halve()] if number else []
            stages += [_Block(before if first == 0 else depth, depth) for first in range(self.blocks)]
        last = {"linear": nn.Identity(), "tanh": nn.Tanh(), "relu": nn.ReLU()}[self.final]
        return nn.Sequential(*stages, _Normalise(), nn.ReLU(), _Mean(), Linear(depths[-1], outputs), last)

    def model(self, shapes: Sequence[tuple[int, ...]], outputs: int) -> nn.Module:
        """As `build`, for the shapes of a list of inputs, of which there must be one."""
        (shape,) = shapes
        return self.build(shape, outputs)


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
