"""Fully connected nets by hand-written gradients: one net a few steps at a time, or many side by side.

A few steps on one batch are what a party does between two questions. Weights and velocity come in and go out as plain
arrays, so that a party can be stopped after any question. On the processor, fully connected nets take compiled steps;
without a compiler, and on other devices, torch takes them.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from laconic.learn.device import device_now, is_on_cpu
from laconic.learn.kernels import (
    CompiledLayers,
    DenseLayer,
    Stage,
    compiled_products,
    forwards,
    slopes,
    stages_of,
    widened,
)
from laconic.learn.nets.layers import Final, Shape
from laconic.learn.nets.nets import Mlp, Net, give_randomness, load, make, to_array, to_tensor, weights_of
from laconic.learn.train.losses import kept_scale, scale_of, scaled, slope_of
from laconic.learn.train.sgd import Sgd, evaluate, move, send_back
from laconic.tables.task import Task
from laconic.values import Array, Rng, Weights, flat, track


class CompiledDescent:
    """`Mlp` at work on one batch by compiled products; every array is made once and then written over.

    Layers are kept as (inputs, outputs), the other way round from `nets`, because products of tall matrices are
    fastest so. Each has columns of zeros up to the next full number of lanes: weights that begin at zero and whose
    inputs or flows are zero stay there.
    """

    def __init__(self, library: ctypes.CDLL, final: Final, weights: Weights, velocity: Array, x: Array) -> None:
        self._names = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
        shapes = [weights[f"{name}.weight"].shape[::-1] for name in self._names]
        wide = _widened(shapes)
        # Both in torch's memory, which is aligned the same everywhere, and cut by numpy, which cuts faster.
        both = torch.zeros(2, sum((one + 1) * other for one, other in wide), device="cpu")
        self._flat, self._velocity = both
        matrices, speeds = (_cut(values, wide) for values in both.numpy())
        self._weights, self._velocities = _without_zeros(matrices, shapes), _without_zeros(speeds, shapes)
        for name, (there, beside) in zip(self._names, self._weights, strict=True):
            there[:], beside[:] = weights[f"{name}.weight"].T, weights[f"{name}.bias"]
        for there, here in zip(_each(self._velocities), _each(_cut(velocity, shapes)), strict=True):
            there[:] = here
        layers: list[DenseLayer] = []
        inputs = torch.tensor(x, dtype=torch.float32, device="cpu").reshape(len(x), -1)
        for pairs in zip(matrices, speeds, strict=True):
            matrix, bias, speed, bias_speed = map(torch.from_numpy, _each(list(pairs)))
            layer = DenseLayer(
                matrix=matrix,
                bias=bias,
                speed=speed,
                bias_speed=bias_speed,
                inputs=inputs,
                outputs=torch.empty(len(x), len(bias), device="cpu"),
                by_inputs=torch.empty_like(inputs) if layers else None,
                final=final if len(layers) == len(wide) - 1 else "relu",
            )
            layers.append(layer)
            inputs = layer.outputs
        self._outputs, self._layers = inputs, CompiledLayers(layers, library)

    def outputs(self) -> Tensor:
        """The net's outputs for the batch, (rows, lanes), as `widen` would have them; good until the next call."""
        self._layers.forwards()
        return self._outputs

    def descend(self, gradient: Tensor, rule: "Rule") -> None:
        """One step of momentum, given the loss's gradient by the last outputs, (rows, lanes), which is written over."""
        self._layers.backwards(gradient, rule.momentum)
        self._velocity.add_(self._flat, alpha=rule.weight_decay)
        self._flat.add_(self._velocity, alpha=-rule.lr)

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        found: Weights = {}
        for name, (matrix, bias) in zip(self._names, self._weights, strict=True):
            found |= {f"{name}.weight": np.ascontiguousarray(matrix.T), f"{name}.bias": bias.copy()}
        return found

    def velocity(self) -> Array:
        """The velocity now, in the order of the flat vector."""
        return np.concatenate([part.ravel() for part in _each(self._velocities)])


def _widened(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The layers' shapes with outputs up to the next full number of lanes, which are the next layer's inputs."""
    outputs = [widened(count) for _, count in shapes]
    return list(zip([shapes[0][0], *outputs[:-1]], outputs, strict=True))


def _cut(flat: Array, shapes: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    """Views into the flat vector: each layer's matrix, as (inputs, outputs), and its bias."""
    views, at = [], 0
    for inputs, outputs in shapes:
        matrix = flat[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        views.append((matrix, flat[at : at + outputs]))
        at += outputs
    return views


def _without_zeros(layers: list[tuple[Array, Array]], shapes: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    return [
        (matrix[:inputs, :outputs], bias[:outputs])
        for (matrix, bias), (inputs, outputs) in zip(layers, shapes, strict=True)
    ]


def _each(layers: list[tuple[Array, Array]]) -> list[Array]:
    return [part for layer in layers for part in layer]


class Rule(msgspec.Struct, frozen=True):
    """Gradient descent with momentum: velocity = momentum velocity + gradient; weights -= lr velocity."""

    lr: float
    momentum: float
    weight_decay: float


def start_descent(net: Net, outputs: int, weights: Weights, velocity: Array, x: Array, rng: Rng) -> "Descent":
    """Go on from these weights and this velocity on the rows `x`; randomness is for dropout alone."""
    is_dense = isinstance(net, Mlp) and net.dropout == 0
    library = compiled_products() if is_dense and is_on_cpu() and net.final != "tanh" and len(x) else None
    if library is not None:
        return CompiledDescent(library, net.final, weights, velocity, x)
    module = give_randomness(load(net.build(x.shape[1:], outputs), weights), rng)
    return ModuleDescent(module, velocity, x, turned=is_dense)


def take_steps(descent: "Descent", steps: int, slope: Callable[[Tensor], Tensor], rule: Rule) -> None:
    """Take so many steps, given how the loss's gradient follows from the net's outputs."""
    # Compiled gradients need nothing of what torch writes down for automatic ones at every call.
    with torch.inference_mode(isinstance(descent, CompiledDescent)):
        for _ in range(steps):
            descent.descend(slope(descent.outputs()), rule)


def outputs_of(net: Net, outputs: int, weights: Weights, x: Array) -> Array:
    """What a net with these weights makes of the rows `x`, in evaluation mode."""
    return to_array(evaluate(load(net.build(x.shape[1:], outputs), weights), [to_tensor(x)]))


def no_velocity(weights: Weights) -> Array:
    """The velocity before the first step."""
    return np.zeros(sum(values.size for values in weights.values()), np.float32)


class ModuleDescent:
    """Any net by torch.

    Args:
        turned: set where `CompiledDescent` may go on, whose velocity has each matrix turned round.
        gradients: finds the weights' gradients, given the loss's by the last outputs; None takes the exact ones.
    """

    def __init__(
        self,
        module: nn.Module,
        velocity: Array,
        x: Array,
        *,
        turned: bool = False,
        gradients: Callable[[Tensor], list[Tensor]] | None = None,
    ) -> None:
        self._shapes = [tuple(values.shape) for values in module.parameters()] if turned else []
        if turned:
            velocity = _turned(velocity, [shape[::-1] for shape in self._shapes])
        self._module, self._x = module.train(), to_tensor(x)
        self.stages = [*(stages_of(module) or {}).values()]
        self._find = gradients or self._gradients
        self._params = list(module.parameters())
        self._sizes = [values.numel() for values in self._params]
        self._velocity = torch.tensor(velocity, device=device_now())
        self._moving = self._velocity[: sum(self._sizes)]  # Weights that no gradient changes come last and stay.
        self._given: list[Tensor] = []

    def outputs(self) -> Tensor:
        """As `CompiledDescent.outputs`."""
        if self.stages:
            with torch.no_grad():
                self._given = forwards(self.stages, self._x.flatten(1))
        else:
            self._given = [self._module(self._x)]
        narrow = self._given[-1].detach()
        return pad(narrow, (0, widened(narrow.shape[1]) - narrow.shape[1]))

    def descend(self, gradient: Tensor, rule: Rule) -> None:
        """As `CompiledDescent.descend`."""
        grads = self._find(gradient[:, : self._given[-1].shape[1]])
        with torch.no_grad():
            flat = torch.cat([values.flatten() for values in grads])
            flat.add_(torch.cat([values.flatten() for values in self._params]), alpha=rule.weight_decay)
            self._moving.mul_(rule.momentum).add_(flat)
            for values, change in zip(self._params, torch.split(self._moving, self._sizes), strict=True):
                values.add_(change.view(values.shape), alpha=-rule.lr)

    def _gradients(self, slope: Tensor) -> list[Tensor]:
        if not self.stages:
            self._module.zero_grad()
            send_back(self._given[0], slope)
            return [values.grad for values in self._params if values.grad is not None]
        with torch.no_grad():
            found = zip(slopes(self.stages, self._given, slope), self._given, strict=False)
            return [one for slope, given in found for one in (slope.T @ given, slope.sum(dim=0))]

    def weights(self) -> Weights:
        """The weights now, as `nets` names them."""
        return weights_of(self._module)

    def velocity(self) -> Array:
        """The velocity now, one number per weight."""
        found = to_array(self._velocity)
        return _turned(found, self._shapes) if self._shapes else found


Descent: TypeAlias = CompiledDescent | ModuleDescent
"""A net at work on one batch."""


def _turned(flat: Array, shapes: list[tuple[int, ...]]) -> Array:
    """A flat vector of arrays of these shapes, with each array turned round."""
    parts = np.split(flat, np.cumsum([prod(shape) for shape in shapes])[:-1])
    return np.concatenate([part.reshape(shape).T.ravel() for part, shape in zip(parts, shapes, strict=True)])


class DenseNets:
    """Nets of one form, and their optimiser; each counts its own steps, for some may take fewer."""

    def __init__(self, net: Mlp, first: Sequence[Weights], trainer: Sgd) -> None:
        self.trainer, self.given = trainer, [torch.empty(0, device=device_now())]
        self.names, self.shapes = list(first[0]), [values.shape for values in first[0].values()]
        all_weights = to_tensor(
            np.stack([np.concatenate([values.ravel() for values in one.values()]) for one in first])
        )
        by_weights, steps = torch.zeros_like(all_weights), torch.zeros(len(first), device=device_now())
        self.layers, self.grads = self._layers(all_weights), self._layers(by_weights)
        self.stages = [Stage(*layer, "relu") for layer in self.layers[:-1]] + [Stage(*self.layers[-1], net.final)]
        moments = [torch.zeros_like(all_weights) for _ in trainer.moments]
        self.state = [list(values) for values in (all_weights, by_weights, steps, *moments)]

    def outputs(self, x: Tensor) -> Tensor:
        """What each net makes of rows of its own, (nets, rows, columns); kept in mind for `learn`."""
        self.given = forwards(self.stages, x)
        return self.given[-1]

    def learn(self, slope: Tensor, lr: float, active: Sequence[int]) -> None:
        """One step of the nets that are active, given how each one's loss changes with its last outputs."""
        found = slopes(self.stages, self.given, slope)
        for one, taken, (weight, bias) in zip(found, self.given, self.grads, strict=False):
            torch.bmm(one.mT, taken, out=weight)
            torch.sum(one, dim=1, keepdim=True, out=bias)
        weights, grads, steps, *moments = ([values[place] for place in active] for values in self.state)
        move(self.trainer, weights, grads, moments, steps, lr)

    def weights(self) -> list[Weights]:
        """Each net's weights, as `nets` names them."""
        arrays = [to_array(values) for layer in self.layers for values in layer]
        parts = list(zip(self.names, self.shapes, arrays, strict=True))
        count = len(arrays[0])
        return [{name: values[place].reshape(shape).copy() for name, shape, values in parts} for place in range(count)]

    def _layers(self, vectors: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views into the nets' vectors: each layer's matrices, and its biases as one row per net."""
        parts = torch.split(vectors, [prod(shape) for shape in self.shapes], dim=1)
        shaped = zip(parts[::2], parts[1::2], self.shapes[::2], strict=True)
        return [(weight.view(len(vectors), *shape), bias.unsqueeze(1)) for weight, bias, shape in shaped]


def fit_dense_nets(
    net: Mlp, task: Task, shards: Sequence[tuple[Array, Array]], trainer: Sgd, own: Sequence[Rng]
) -> list[Weights]:
    """Train a net for each shard, given where each one's first weights and order of rows come from."""
    shape: Shape = shards[0][0].shape[1:]
    nets = DenseNets(net, [weights_of(make(net, shape, task.outputs, rng)) for rng in own], trainer)
    slope, scales = slope_of(task), [scale_of(task, y) for _, y in shards]
    shards = [(x, _targets(task, y, scale)) for (x, y), scale in zip(shards, scales, strict=True)]
    for epoch in track(trainer.epochs, f"{len(shards)} nets"):
        with torch.inference_mode():
            for batch in _batches(shards, trainer.batch, own):
                outputs = nets.outputs(batch.x)
                by_row = slope(outputs.flatten(0, 1), batch.targets.flatten()).view_as(outputs)
                by_row.mul_(batch.shares)
                nets.learn(by_row, trainer.lr_at((epoch + batch.before) / trainer.epochs), batch.active)
    kept = (kept_scale(task, scale) for scale in scales)
    return [{**weights, **scale} for weights, scale in zip(nets.weights(), kept, strict=True)]


def _targets(task: Task, y: Array, scale: Weights) -> Array:
    """Class codes as they are, and numbers as nets learn them."""
    return scaled(task, y, scale).astype(np.float32) if scale else y


class _Batch(NamedTuple):
    """Rows and targets for each net, padded where it has fewer; what each row counts; and where in the epoch it is."""

    x: Tensor
    targets: Tensor
    shares: Tensor
    active: list[int]
    before: float


_FULL_AT_ONCE = 1 << 20
"""Numbers in batches that are put together at once: small steps would take longer to prepare than to make."""


def _batches(shards: Sequence[tuple[Array, Array]], size: int, own: Sequence[Rng]) -> Iterator[_Batch]:
    """Shuffled batches until every net has seen all its rows."""
    orders = [rng.permutation(len(y)) for (_, y), rng in zip(shards, own, strict=True)]
    longest, columns = max(map(len, orders)), prod(shards[0][0].shape[1:])
    full = min(map(len, orders)) // size * size
    at_once = max(1, _FULL_AT_ONCE // (len(shards) * size * max(columns, 1))) * size
    for start in range(0, full, at_once):
        some = [order[start : min(full, start + at_once)].reshape(-1, size) for order in orders]
        yield from _full_batches(shards, some, start, longest)
    for at in range(full, longest, size):
        rows = [order[at : at + size] for order in orders]
        most = max(map(len, rows))
        x = np.zeros((len(rows), most, columns), np.float32)
        numbers = shards[0][1].dtype.kind == "f"
        targets = np.zeros((len(rows), most), np.float32 if numbers else np.int64)
        shares = np.zeros((len(rows), most, 1), np.float32)
        for place, (chosen, shard) in enumerate(zip(rows, shards, strict=True)):
            x[place, : len(chosen)] = flat(shard[0][chosen])
            targets[place, : len(chosen)] = shard[1][chosen]
            shares[place, : len(chosen)] = 1 / max(len(chosen), 1)
        active = [place for place, chosen in enumerate(rows) if len(chosen)]
        yield _Batch(_to_device(x), _to_device(targets), _to_device(shares), active, at / longest)


def _full_batches(
    shards: Sequence[tuple[Array, Array]], rows: Sequence[Array], start: int, longest: int
) -> Iterator[_Batch]:
    """Batches that every net fills, from their rows as (batches, size) for each net."""
    steps, size = rows[0].shape
    x, targets = (
        _to_device(np.stack([flat(shard[part])[chosen] for shard, chosen in zip(shards, rows, strict=True)], axis=1))
        for part in (0, 1)
    )
    shares = torch.full((len(shards), size, 1), 1 / size, device=device_now())
    active = list(range(len(shards)))
    for step in range(steps):
        yield _Batch(x[step], targets[step], shares, active, (start + step * size) / longest)


def _to_device(values: Array) -> Tensor:
    """Rows as float32, class codes as they are, where torch learns."""
    return (
        to_tensor(values) if values.dtype.kind == "f" else torch.tensor(values, dtype=torch.int64, device=device_now())
    )


_MOST_STEPS = 100
_MOST_HALVINGS = 40
_EXACT = 1e-12
_ROUNDING = 4 * float(np.finfo(np.float64).eps)
_SMALL_RHO = 0.01


def nearest_logits(task: Task, sums: Array, duals: Array, targets: Array, rho: float) -> Array:
    """Solve the problem of every row at once, in float64, exactly for numbers and to rounding for classes.

    Args:
        sums: what all parties together predict, (rows, outputs): logits, or standardised numbers.
        duals: each row's dual, of the same shape.
        targets: from `targets_of`, of the same shape.
        rho: how much staying near `sums` weighs; above 0.
    """
    pulled = np.asarray(sums, np.float64) + (np.asarray(duals, np.float64) + targets) / rho
    if task.kind == "regression":
        # Half the squared error has the gradient z - y, so that the minimum is a weighted mean.
        return pulled * (rho / (1.0 + rho))
    return _newton_softmax(pulled, rho) if task.kind == "multiclass" else _newton_sigmoid(pulled, rho)


def targets_of(task: Task, y: Array) -> Array:
    """Labels as the loss compares them with predictions, (rows, outputs): 0 and 1 for classes, numbers as they are."""
    if task.kind == "multiclass":
        return np.eye(task.outputs)[np.asarray(y, dtype=np.int64)]
    return np.asarray(y, dtype=np.float64)[:, None]


def loss_gradient(task: Task, sums: Array, targets: Array) -> Array:
    """How each row's loss changes with its logits: prediction less target."""
    from scipy.special import expit, softmax

    sums = np.asarray(sums, np.float64)
    if task.kind == "multiclass":
        predicted: Array = softmax(sums, axis=1)
        return predicted - targets
    return (expit(sums) if task.kind == "binary" else sums) - targets


def _newton_softmax(pulled: Array, rho: float) -> Array:
    """Newton's method for logsumexp(z) + rho / 2 |z - pulled|^2, whose Hessian is diagonal less a rank-one part."""

    def change(gradient: Array, p: Array) -> Array:
        diagonal = p + rho
        straight, shares = gradient / diagonal, p / diagonal
        # Sherman-Morrison; 1 - p'D^-1 p is written as rho sum(p / D), which cannot round to 0.
        found: Array = straight + shares * ((p * straight).sum(axis=1) / (rho * shares.sum(axis=1)))[:, None]
        return found

    start = pulled - 1.0 / (rho * pulled.shape[1]) if rho >= _SMALL_RHO else _logits_by_total(pulled, rho)
    return _newton(_look_softmax, change, start, pulled, rho)


def _newton_sigmoid(pulled: Array, rho: float) -> Array:
    def change(gradient: Array, p: Array) -> Array:
        return gradient / (p * (1.0 - p) + rho)

    return _newton(_look_sigmoid, change, pulled - 0.5 / rho, pulled, rho)


def _newton(
    look: Callable[[Array], tuple[Array, Array]],
    change: Callable[[Array, Array], Array],
    z: Array,
    pulled: Array,
    rho: float,
) -> Array:
    """Newton's method for a loss and rho / 2 |z - pulled|^2, until no gradient is left but what rounding leaves.

    Args:
        look: each row's loss, and its gradient by the logits.
        change: Newton's step, given the whole gradient and the loss's.
        z: where to start.
        pulled: where the second term would have the logits.
        rho: its weight.
    """

    def see(z: Array) -> tuple[Array, Array]:
        loss, p = look(z)
        return loss + 0.5 * rho * ((z - pulled) ** 2).sum(axis=1), p

    small = _EXACT + _ROUNDING * (rho * np.abs(pulled).max(initial=0.0) + np.abs(z).max(initial=0.0))
    value, p = see(z)
    for _ in range(_MOST_STEPS):
        gradient = p + rho * (z - pulled)
        if np.abs(gradient).max(initial=0.0) < small:
            return z
        full, step = change(gradient, p), np.ones((len(z), 1))
        before, start = value + 1e-14 * np.maximum(1.0, np.abs(value)), z
        # Halved in the rows where the whole of it would lead uphill, which a small rho can cause.
        for _ in range(_MOST_HALVINGS):
            z = start - step * full
            value, p = see(z)
            worse = value > before
            if not worse.any():
                break
            step[worse] *= 0.5
    raise ValueError(
        f"found no best logits for all of {len(z)} rows at rho={rho:g}; look for NaN in what parties send, or try a "
        "rho nearer to 1"
    )


def _logits_by_total(pulled: Array, rho: float) -> Array:
    """Nearly the best logits, by way of one number for each row; slow, but it cannot miss, however small rho is.

    At the minimum z = total + log(p) with p = softmax(z) = rho (pulled - z). So p is rho times Wright's omega of
    pulled - total - log(rho), and all p must add up to 1. Their sum falls with `total` and is convex, so that Newton's
    method goes straight up to it from below.
    """
    from scipy.special import wrightomega

    total = pulled.max(axis=1, keepdims=True) - 1.0 / rho
    for _ in range(_MOST_STEPS):
        omega = wrightomega(pulled - total - np.log(rho))
        more = (rho * omega.sum(axis=1, keepdims=True) - 1.0) / (rho * omega / (1.0 + omega)).sum(axis=1, keepdims=True)
        total = total + more
        if not (more > 1e-12 * np.maximum(1.0, np.abs(total))).any():
            break
    return np.asarray(pulled - wrightomega(pulled - total - np.log(rho)))


def _look_softmax(z: Array) -> tuple[Array, Array]:
    # By hand, as scipy looks at many special cases, which takes longer than all else here together.
    highest = z.max(axis=1, keepdims=True)
    odds = np.exp(z - highest)
    total = odds.sum(axis=1, keepdims=True)
    return (highest + np.log(total))[:, 0], odds / total


def _look_sigmoid(z: Array) -> tuple[Array, Array]:
    from scipy.special import expit

    return np.logaddexp(0.0, z)[:, 0], expit(z)


class DuplicateRows(NamedTuple):
    """Which rows of a batch are equal.

    Attributes:
        first: the place of one row of each kind.
        kind: the kind of each row, as a place in `first`.
        counts: how many rows there are of each kind.
    """

    first: Array
    kind: Array
    counts: Array

    def means(self, values: Array) -> Array:
        """The mean of the rows of each kind, of an array with as many rows as the batch."""
        empty = torch.zeros(len(self.first), values.shape[1], device="cpu")
        sums = empty.index_add_(0, *map(torch.from_numpy, (self.kind, values)))
        found: Array = sums.numpy() / self.counts[:, None].astype(np.float32)
        return found


def find_duplicates(x: Array) -> DuplicateRows:
    """Sort rows into kinds, in the order in which they come, by their bytes.

    Each row's bytes are summed with random weights, the same for all rows, so that equal rows have the same sum; where
    other rows have it too, as good as never, every row is left alone.
    """
    rows = np.ascontiguousarray(x, dtype=np.float32).reshape(len(x), -1)
    words = rows.view(np.uint32 if rows.shape[1] % 2 else np.uint64)
    sums = words @ _weights(words.shape[1])
    in_order = np.sort(sums)
    if (in_order[1:] != in_order[:-1]).all():
        return each_alone(len(x))
    _, first, kind, counts = np.unique(sums, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found = DuplicateRows(first[order], place[kind], counts[order])
    model = found.first[found.kind]
    again = np.flatnonzero(model != np.arange(len(x)))
    return found if np.array_equal(words[again], words[model[again]]) else each_alone(len(x))


def each_alone(rows: int) -> DuplicateRows:
    """Every row a kind of its own, for when rows may not be put together."""
    return DuplicateRows(np.arange(rows), np.arange(rows), np.ones(rows, np.int64))


@cache
def _weights(words: int) -> Array:
    """Random weights for so many words of a row."""
    return np.random.default_rng(0).integers(2**64, size=words, dtype=np.uint64)
