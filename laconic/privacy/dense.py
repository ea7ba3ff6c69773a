"""Clipped gradient sums of fully connected nets, with the pass back written by hand.

In a net of a few thousand weights torch spends most of its time on hooks and on its graph; neither is needed where
every layer is a matrix. Gives what `RowGradients` gives for any module.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from laconic.learn import heads, layers
from laconic.learn.heads import Loss
from laconic.learn.nets import Join


class _After(Protocol):
    """What follows a matrix, number by number."""

    def forward(self, values: Tensor) -> Tensor:
        """What becomes of the values; may overwrite them."""
        ...

    def back(self, slope: Tensor, given: Tensor) -> Tensor:
        """The slope before it, from the slope after it and what it gave."""
        ...


class _Relu:
    def forward(self, values: Tensor) -> Tensor:
        return values.relu_()

    def back(self, slope: Tensor, given: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward(slope, given, 0)  # type: ignore[no-any-return]


class _Tanh:
    def forward(self, values: Tensor) -> Tensor:
        return values.tanh_()

    def back(self, slope: Tensor, given: Tensor) -> Tensor:
        return torch.ops.aten.tanh_backward(slope, given)  # type: ignore[no-any-return]


class _Nothing:
    def forward(self, values: Tensor) -> Tensor:
        return values

    def back(self, slope: Tensor, given: Tensor) -> Tensor:
        return slope


_AFTER: dict[type[nn.Module], _After] = {nn.ReLU: _Relu(), nn.Tanh: _Tanh()}


class _Stage(NamedTuple):
    """A matrix with its biases, and what follows it."""

    path: str
    weight: Tensor
    bias: Tensor
    after: _After


class DenseNet:
    """A module that is one fully connected layer after another, taken apart."""

    def __init__(self, stages: Sequence[_Stage], loss: Loss) -> None:
        self.stages, self.loss = stages, loss

    @classmethod
    def of(cls, module: nn.Module, loss: Loss) -> "DenseNet | None":
        """The module taken apart; None if it holds anything but matrices with biases, ReLU and tanh."""
        stages: list[_Stage] = []
        for path, layer in _unfolded(module):
            after = _AFTER.get(type(layer))
            if isinstance(layer, (layers.Linear, nn.Linear)) and layer.bias is not None:
                stages.append(_Stage(path, layer.weight, layer.bias, _Nothing()))
            elif after is not None and stages and isinstance(stages[-1].after, _Nothing):
                stages[-1] = stages[-1]._replace(after=after)
            else:
                return None
        weights = {id(values) for stage in stages for values in (stage.weight, stage.bias)}
        # Fewer weights than places for them: some are shared, and a row's gradient is then no outer product.
        return cls(stages, loss) if stages and len(weights) == 2 * len(stages) else None

    def add_clipped(
        self, inputs: Sequence[Tensor], targets: Tensor, clip: float, sums: dict[str, Tensor], share: float
    ) -> Tensor:
        """As `RowGradients.add_clipped`."""
        with torch.no_grad():
            given = self._forward(inputs)
        last = self._last_slope(given[-1], targets)
        with torch.no_grad():
            slopes = self._back(last, given)
            # A row's gradient by a matrix is an outer product, by its biases the slope itself.
            lengths: Tensor = torch.linalg.vecdot(_squares(slopes), _squares(given[:-1]).add_(1), dim=0).sqrt_()
            weights = clip / lengths.clamp_min(clip)
            for stage, slope, taken in zip(self.stages, slopes, given, strict=False):
                sums[f"{stage.path}weight"].addmm_((slope * weights[:, None]).T, taken, alpha=share)
                sums[f"{stage.path}bias"].addmv_(slope.T, weights, alpha=share)
        return lengths

    def _forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """What went into the first layer, and what each gave."""
        flat = [x.flatten(1) for x in inputs]
        given = [flat[0] if len(flat) == 1 else torch.cat(flat, dim=1)]
        for _, weight, bias, after in self.stages:
            given.append(after.forward(torch.addmm(bias, given[-1], weight.T)))
        return given

    def _last_slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Class codes, not shares of classes, which `cross_entropy` takes as well.
        known = heads.slope(self.loss, outputs, targets) if targets.ndim == 1 else None
        if known is not None:
            return known
        outputs = outputs.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.loss(outputs, targets), outputs)
        # Of the mean loss, a row has the share 1 / rows: take it times rows.
        return slope.mul_(len(targets))

    def _back(self, slope: Tensor, given: list[Tensor]) -> list[Tensor]:
        """The slope of the loss at every matrix's outputs, first to last."""
        slopes = []
        for place in range(len(self.stages) - 1, -1, -1):
            _, weight, _, after = self.stages[place]
            slope = after.back(slope, given[place + 1])
            slopes.append(slope)
            if place:
                slope = slope @ weight
        return slopes[::-1]


def _unfolded(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module's layers as rows pass them, each after its path ("0.", "head.2."); what only flattens is left out."""
    if type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1:
        return
    if type(module) is nn.Sequential:
        for name, layer in module.named_children():
            yield from _unfolded(layer, f"{path}{name}.")
    elif type(module) is Join and (module.own is None or type(module.own) is nn.Flatten):
        yield from _unfolded(module.head, f"{path}head.")
    else:
        yield path, module


def _squares(parts: list[Tensor]) -> Tensor:
    """Each part's squared lengths of rows, (parts, rows)."""
    return torch.stack([torch.linalg.vector_norm(rows, dim=1) for rows in parts]).square_()
