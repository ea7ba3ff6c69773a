"""Gradient descent with a price: every step sees a random draw of rows, clips each row's say, and adds noise.

Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep learning with differential privacy (2016).
"""

from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Literal, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from laconic.core.ledger import Noise
from laconic.learn.device import device_now
from laconic.learn.kernels import Stage, forwards, slopes, stages_of
from laconic.learn.nets import layers
from laconic.learn.nets.nets import AnyModule, give_randomness, to_array
from laconic.learn.train import losses as heads
from laconic.learn.train.losses import Loss
from laconic.learn.train.sgd import Optimiser, Pulls, Sgd
from laconic.privacy.budget import Demand
from laconic.privacy.mechanisms.gaussian import gaussian_noise
from laconic.privacy.randomness import Randomness, poisson_sample, randomness_from
from laconic.values import Rng, Settings, check_least, track


class _DenseNet:
    """A module that is one fully connected layer after another."""

    def __init__(self, stages: dict[str, Stage], loss: Loss) -> None:
        self.paths, self.stages, self.loss = list(stages), list(stages.values()), loss

    def add_clipped(
        self, inputs: Sequence[Tensor], targets: Tensor, clip: float, sums: dict[str, Tensor], share: float
    ) -> Tensor:
        """As `RowGradients.add_clipped`."""
        flat = [x.flatten(1) for x in inputs]
        with torch.no_grad():
            given = forwards(self.stages, flat[0] if len(flat) == 1 else torch.cat(flat, dim=1))
        last = self._last_slope(given[-1], targets)
        with torch.no_grad():
            found = slopes(self.stages, given, last)
            # A row's gradient by a matrix is an outer product, by its biases the slope itself.
            lengths: Tensor = torch.linalg.vecdot(_squares(found), _squares(given[:-1]).add_(1), dim=0).sqrt_()
            weights = _shrink(lengths, clip)
            for path, slope, taken in zip(self.paths, found, given, strict=False):
                sums[f"{path}weight"].addmm_((slope * weights[:, None]).T, taken, alpha=share)
                sums[f"{path}bias"].addmv_(slope.T, weights, alpha=share)
        return lengths

    def _last_slope(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # Class codes, not shares of classes, which `cross_entropy` takes as well.
        known = heads.slope(self.loss, outputs, targets) if targets.ndim == 1 else None
        if known is not None:
            return known
        outputs = outputs.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.loss(outputs, targets), outputs)
        # Of the mean loss, a row has the share 1 / rows: take it times rows.
        return slope.mul_(len(targets))


def _squares(parts: list[Tensor]) -> Tensor:
    """Each part's squared lengths of rows, (parts, rows)."""
    return torch.stack([torch.linalg.vector_norm(rows, dim=1) for rows in parts]).square_()


_MIXING = (nn.modules.batchnorm._BatchNorm,)
_LINEAR = (layers.Linear, nn.Linear)
_PIECE = 128
"""So many rows at a time where something is built for each row: more would not fit the processor's cache."""


class Clipped(NamedTuple):
    """The clipped sum by parameter name, and how long each row's gradient was before."""

    sums: dict[str, Tensor]
    lengths: Tensor


class RowGradients:
    """Clipped gradient sums of one module, by the quickest exact way for each of its layers.

    Linear and plain two-dimensional convolution layers go by ghost norms. Where there is any other layer with weights,
    or layers share weights, are used twice in a pass, or hold both weights and further layers, every row's gradient is
    built by `torch.func`.
    """

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        """Take the module apart.

        Args:
            module: what is trained; layers in which rows of a batch see each other are refused.
            loss: the mean of a loss over rows, of (outputs, targets).
        """
        stages = stages_of(module)
        self.module, self.loss, self.dense = module, loss, None if stages is None else _DenseNet(stages, loss)
        self.layers = {name: layer for name, layer in module.named_modules() if list(layer.parameters(recurse=False))}
        for name, layer in module.named_modules():
            if isinstance(layer, _MIXING):
                raise ValueError(
                    f"layer {name!r} ({type(layer).__name__}) mixes the rows of a batch, so no row's gradient is its "
                    "own; use GroupNorm or LayerNorm"
                )
        owned = [id(values) for layer in self.layers.values() for values in layer.parameters(recurse=False)]
        nested = any(list(layer.children()) for layer in self.layers.values())
        self.plain = not nested and len(owned) == len(set(owned))
        linear = self.plain and all(isinstance(layer, _LINEAR) for layer in self.layers.values())
        self.piece = None if linear else _PIECE

    def add_clipped(
        self, inputs: Sequence[Tensor], targets: Tensor, clip: float, sums: dict[str, Tensor], share: float = 1.0
    ) -> Tensor:
        """Clip each row's gradient to length `clip`, add them, times `share`, to `sums`; return their lengths before.

        Args:
            inputs: what the module is called with; one row for each target.
            targets: what the loss takes.
            clip: the greatest length of one row's gradient.
            sums: by parameter name; changed in place.
            share: what every gradient is multiplied by, after it was clipped.
        """
        inputs = [_bounded(x) for x in inputs]
        if self.dense is not None:
            return self.dense.add_clipped(inputs, targets, clip, sums, share)
        pieces = [torch.split(values, self.piece or len(targets)) for values in (targets, *inputs)]
        lengths = []
        for aims, *taken in zip(*pieces, strict=True):
            found = self._clipped_piece(taken, aims, clip)
            lengths.append(found.lengths)
            for name, values in found.sums.items():
                sums[name].add_(values, alpha=share)
        return torch.cat(lengths)

    def clipped_sum(self, inputs: Sequence[Tensor], targets: Tensor, clip: float) -> Clipped:
        """As `add_clipped`, to nothing."""
        sums = {name: torch.zeros_like(values) for name, values in self.module.named_parameters()}
        return Clipped(sums, self.add_clipped(inputs, targets, clip, sums))

    def _clipped_piece(self, inputs: Sequence[Tensor], targets: Tensor, clip: float) -> Clipped:
        if self.plain:
            seen, outputs = self._forward(inputs)
            if all(len(calls) == 1 and _is_known(self.layers[name], calls[0][0]) for name, calls in seen.items()):
                return self._by_layer({name: calls[0] for name, calls in seen.items()}, outputs, targets, clip)
        each = row_gradients(self.module, self.loss, inputs, targets)
        lengths = _added([_dots(values.flatten(1)) for values in each.values()]).sqrt()
        weights = _shrink(lengths, clip)
        return Clipped({name: torch.tensordot(weights, values, 1) for name, values in each.items()}, lengths)

    def _forward(self, inputs: Sequence[Tensor]) -> tuple[dict[str, list[tuple[Tensor, Tensor]]], Tensor]:
        """The module's outputs, and what went in and out of each layer at each of its calls."""
        seen: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self.layers}
        hooks = [layer.register_forward_hook(_watch(seen[name])) for name, layer in self.layers.items()]
        try:
            outputs: Tensor = self.module(*inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return seen, outputs

    def _by_layer(
        self, seen: dict[str, tuple[Tensor, Tensor]], outputs: Tensor, targets: Tensor, clip: float
    ) -> Clipped:
        # Of the mean loss, a row has the share 1 / rows: take it times rows.
        total = self.loss(outputs, targets) * len(targets)
        back = torch.autograd.grad(total, [given for _, given in seen.values()])
        with torch.no_grad():
            parts = {
                name: (_Outer if isinstance(self.layers[name], _LINEAR) else _Patches)(self.layers[name], taken, slope)
                for (name, (taken, _)), slope in zip(seen.items(), back, strict=True)
            }
            lengths = _added([part.squares() for part in parts.values()]).sqrt()
            weights = _shrink(lengths, clip)
            sums = {
                f"{name}.{key}".lstrip("."): values
                for name, part in parts.items()
                for key, values in part.weighted(weights).items()
            }
        return Clipped(sums, lengths)


def row_gradients(module: nn.Module, loss: Loss, inputs: Sequence[Tensor], targets: Tensor) -> dict[str, Tensor]:
    """Every row's own gradient, by parameter name, with a first axis for rows: exact for any module, and slow."""
    weights = {name: values.detach() for name, values in module.named_parameters()}

    def of_one(weights: dict[str, Tensor], target: Tensor, *row: Tensor) -> Tensor:
        outputs = functional_call(module, weights, tuple(x.unsqueeze(0) for x in row))
        return loss(outputs, target.unsqueeze(0))

    found: dict[str, Tensor] = vmap(grad(of_one), (None, 0, *(0 for _ in inputs)), randomness="different")(
        weights, targets, *inputs
    )
    return found


class _Outer:
    """A layer that multiplies once per row: its gradient is the outer product of what came in and the slope."""

    def __init__(self, layer: nn.Module, taken: Tensor, slope: Tensor) -> None:
        self.taken, self.slope, self.biased = taken, slope, getattr(layer, "bias", None) is not None

    def squares(self) -> Tensor:
        return _dots(self.slope) * (_dots(self.taken) + int(self.biased))

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        slope = self.slope * weights[:, None]
        return {"weight": slope.T @ self.taken} | ({"bias": slope.sum(dim=0)} if self.biased else {})


class _Patches:
    """A convolution: as an outer product at every place of the image, summed."""

    def __init__(self, layer: nn.Module, taken: Tensor, slope: Tensor) -> None:
        self.shape = tuple(layer.get_parameter("weight").shape)
        self.patches = functional.unfold(taken, self.shape[2:], **(_geometry(layer) or {}))
        self.slope = slope.flatten(2)
        self.biased = getattr(layer, "bias", None) is not None
        places, wide, high = self.slope.shape[2], self.patches.shape[1], self.slope.shape[1]
        # Ghost norms compare all places with all places; building the gradient is cheaper where there are many.
        self.built = self.slope @ self.patches.mT if places * (wide + high) > wide * high else None

    def squares(self) -> Tensor:
        bias = self.slope.sum(dim=2).square().sum(dim=1) * int(self.biased)
        if self.built is not None:
            return _dots(self.built.flatten(1)) + bias
        between = (self.patches.mT @ self.patches) * (self.slope.mT @ self.slope)
        return between.sum(dim=(1, 2)) + bias

    def weighted(self, weights: Tensor) -> dict[str, Tensor]:
        slope = self.slope * weights[:, None, None]
        if self.built is not None:
            whole = torch.tensordot(weights, self.built, 1)
        else:
            whole = torch.einsum("rop,rip->oi", slope, self.patches)
        return {"weight": whole.view(self.shape)} | ({"bias": slope.sum(dim=(0, 2))} if self.biased else {})


def _geometry(layer: nn.Module) -> dict[str, tuple[int, ...]] | None:
    """How a convolution goes over an image; None for any other layer, and for one that is no plain convolution."""
    if isinstance(layer, layers.Conv):
        return {"padding": (layer.padding, layer.padding), "stride": (layer.stride, layer.stride)}
    if not isinstance(layer, nn.Conv2d) or layer.groups != 1 or layer.padding_mode != "zeros":
        return None
    if isinstance(layer.padding, str):
        return None
    return {"padding": layer.padding, "stride": layer.stride, "dilation": layer.dilation}


def _is_known(layer: nn.Module, taken: Tensor) -> bool:
    """Whether the lengths of rows' gradients follow from what comes into the layer and from its slopes."""
    return taken.ndim == 2 if isinstance(layer, _LINEAR) else _geometry(layer) is not None


def _added(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else parts[0] + _added(parts[1:])


def _dots(rows: Tensor) -> Tensor:
    """Each row's squared length."""
    # Quicker than a sum of squares: the squares are never written to memory.
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return lengths.square_()


def _watch(calls: list[tuple[Tensor, Tensor]]) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    return lambda _, taken, given: calls.append((taken[0], given))


def _shrink(lengths: Tensor, clip: float) -> Tensor:
    """What to multiply each row by so that it is no longer than `clip`."""
    return clip / lengths.clamp_min(clip)


UNIT = "one row at this party: there, or blanked"
NEVER_COVERED = (
    "not covered: how columns and labels were scaled, how many rows there are, how settings were chosen; noise is in "
    "floating point"
)
"""What no noise in this package covers; said with each."""

UNCOVERED = f"{NEVER_COVERED}; exchanging a row for another costs up to twice, at a larger delta"
"""The same, where the unit is a row there or blanked."""

_POOL = 65_536
_GREATEST = 1e6
"""Nets that learn privately see no greater number: its square would pass what float32 holds, and so any clip."""


class DpSgd(Settings, frozen=True):
    """How to train a net by differentially private gradient descent; goes wherever `Sgd` goes.

    Rows take part by independent draws (Poisson batches), as the price assumes. Validation rows are never looked at:
    a choice made by them would be a release of its own.

    Attributes:
        sigma: standard deviation of the noise in units of `clip`; None to have it worked out from a budget.
        clip: the greatest length of one row's gradient.
        epochs: how often a row is seen on average.
        batch: rows per step on average.
        lr: the learning rate.
        decay: how the learning rate goes on: `none` keeps it, `linear` lets it fall to zero.
        weight_decay: weight of the L2 penalty.
        optimizer: plain gradient descent with `momentum`, or Adam.
        momentum: used by plain gradient descent only.
        seeded: take noise and draws from the run's seed, so that a study can be repeated: then whoever knows the
            seed can take the noise off, and the ledger names the seed. Otherwise they come from a secure generator.
    """

    sigma: float | None = None
    clip: float = 1.0
    epochs: int = 20
    batch: int = 256
    lr: float = 0.5
    decay: Literal["none", "linear"] = "none"
    weight_decay: float = 0.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    seeded: bool = False

    def __post_init__(self) -> None:
        if self.sigma is not None and not 0 <= self.sigma < inf:
            raise ValueError(f"sigma must be 0 or more, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.clip < inf:
            raise ValueError(f"clip must be above 0, not {self.clip}; use Sgd(...) for training without privacy")
        check_least(1, epochs=self.epochs, batch=self.batch)
        self._plain()

    def fit(
        self,
        module: AnyModule,
        inputs: Sequence[Tensor],
        targets: Tensor,
        loss: Loss,
        rng: Rng,
        *,
        valid: tuple[Sequence[Tensor], Tensor] | None = None,
        what: str = "training",
        pulls: Pulls | None = None,
    ) -> AnyModule:
        """Train the module in place, and return it in evaluation mode; arguments as for `Sgd.fit`.

        `loss` must be a mean over rows, and no layer may let rows of a batch see each other. `valid` is not used.
        What `pulls` gives for a parameter is added to its gradient after the noise: it must not come from rows.
        """
        give_randomness(module, rng)
        randomness = randomness_from(rng, self.seeded, *map(to_array, (*inputs, targets)))
        step = PrivateStep(self, module, loss, len(targets), randomness, pulls)
        count = self.steps(len(targets))
        for number in track(count, what):
            rows = poisson_sample(len(targets), self.rate(len(targets)), randomness)
            step.take(
                [x.index_select(0, rows) for x in inputs], targets.index_select(0, rows), self._lr_at(number / count)
            )
        return module.eval()

    def rate(self, rows: int) -> float:
        """The probability with which each row takes part in a step."""
        return min(1.0, self.batch / rows)

    def steps(self, rows: int) -> int:
        """How many steps `fit` takes."""
        return ceil(self.epochs / self.rate(rows))

    def noise(self, rows: int) -> tuple[Noise, ...]:
        """The noise that `fit` puts on what it learns from so many rows: known before it runs."""
        caveat = f"covers the weights learnt, and all that is made from them alone; {UNCOVERED}"
        noise = gaussian_noise(self.needed_sigma() * self.clip, self.clip, UNIT, caveat, seeded=self.seeded)
        return (msgspec.structs.replace(noise, rate=self.rate(rows), count=self.steps(rows)),)

    def demand(self, rows: int) -> Demand:
        """What `fit` would do with so many rows, for a budget to be divided."""
        return Demand(rate=self.rate(rows), answers=self.steps(rows))

    def with_sigma(self, sigma: float) -> "DpSgd":
        """The same with this noise."""
        return msgspec.structs.replace(self, sigma=sigma)

    def needed_sigma(self) -> float:
        """The noise's scale; not having one yet is an error."""
        if self.sigma is None:
            raise ValueError("DpSgd has no sigma; give sigma=..., or a plan with budget.epsilon to work it out")
        return self.sigma

    def _plain(self) -> Sgd:
        return Sgd(lr=self.lr, weight_decay=self.weight_decay, optimizer=self.optimizer, momentum=self.momentum)

    def _lr_at(self, share: float) -> float:
        return self.lr if self.decay == "none" else self.lr * (1 - share)


class PrivateStep:
    """One module at work: clipped sums, noise, and the optimiser's step."""

    def __init__(
        self,
        settings: DpSgd,
        module: nn.Module,
        loss: Loss,
        rows: int,
        randomness: Randomness,
        pulls: Pulls | None = None,
    ) -> None:
        plain = settings._plain()
        self.pulls = pulls
        self.module, self.randomness, self.clip = module.train(), randomness, settings.clip
        self.scale = settings.needed_sigma() * settings.clip
        self.size = settings.rate(rows) * rows
        self.gradients = RowGradients(module, loss)
        self.optimiser = Optimiser(plain, module, plain.begin(module))
        self.total, self.grads = _flat_grads(module)
        self.pool: list[Tensor] = []

    def take(self, inputs: Sequence[Tensor], targets: Tensor, lr: float) -> None:
        """Learn from the rows drawn; a draw of none still takes its noise, as the price assumes."""
        self.total.copy_(self._noise())
        if len(targets):
            # Divided by the expected number of rows: the number drawn is not noised, and would reveal it.
            self.gradients.add_clipped(inputs, targets, self.clip, self.grads, 1 / self.size)
        if self.pulls is not None:
            with torch.no_grad():
                for name, values in self.module.named_parameters():
                    self.grads[name].add_(self.pulls(name, values))
        self.optimiser.step(lr)

    def _noise(self) -> Tensor:
        """Noise for one step; drawn for several at once, as most of a small draw's time is the asking."""
        if not self.pool:
            length = len(self.total)
            ahead = max(1, _POOL // length)
            drawn = self.randomness.normal(ahead * length).mul_(self.scale / self.size)
            self.pool = list(drawn.view(ahead, length))
        return self.pool.pop()


def _bounded(x: Tensor) -> Tensor:
    """The same rows without numbers from which a row's gradient would be none; each changed by itself alone."""
    return x.nan_to_num(0.0, _GREATEST, -_GREATEST).clamp(-_GREATEST, _GREATEST) if x.is_floating_point() else x


def _flat_grads(module: nn.Module) -> tuple[Tensor, dict[str, Tensor]]:
    """One vector for all gradients of a module, and by parameter name the parts of it that the module then uses."""
    params = dict(module.named_parameters())
    sizes = [values.numel() for values in params.values()]
    total = torch.zeros(sum(sizes), device=device_now())
    grads = {name: part.view_as(params[name]) for name, part in zip(params, torch.split(total, sizes), strict=True)}
    for name, values in params.items():
        values.grad = grads[name]
    return total, grads
