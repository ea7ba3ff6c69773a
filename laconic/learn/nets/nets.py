"""Small networks as settings: what to build, and how weights get in and out of what was built; and several as one.

Nets that start from different weights err in different places. Averaged, they know how sure to be, which one net that
has learnt few rows by heart does not; where parties' words are added up, that matters more than being right alone.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.learn.device import device_now
from laconic.learn.nets.layers import (
    Conv,
    Dropout,
    Final,
    Linear,
    OneInputNet,
    PatchLayer,
    PatchNet,
    ResNet,
    Shape,
    check_image,
    check_widths,
    dense,
    torch_generator,
)
from laconic.tables.task import Task
from laconic.values import Array, Rng, Settings, Weights, check_least

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class Mlp(OneInputNet, frozen=True):
    """A fully connected net with ReLU between its layers; images are flattened.

    Attributes:
        hidden: widths of the hidden layers; empty for a linear map.
        dropout: share of hidden values zeroed while training.
        final: what follows the last layer.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.0
    final: Final = "linear"

    def __post_init__(self) -> None:
        check_widths(hidden=self.hidden)
        _check_dropout(self.dropout)

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The net for rows of this shape, its weights unset."""
        return nn.Sequential(nn.Flatten(), *dense((prod(shape), *self.hidden, outputs), self.dropout, self.final))


class Convolution(Settings, frozen=True, tag=False):
    """One convolution of a `Cnn`, with ReLU and what follows it.

    Attributes:
        channels: channels that it puts out.
        kernel: its height and width.
        stride: pixels from one place to the next.
        pad: pixels added on each side.
        pool: height and width of the windows of which the largest value is kept; 1 for no pooling.
        pool_stride: pixels from one window to the next; None for windows side by side.
        dropout: share of values zeroed behind it while training.

    Example:
        >>> from laconic.learn import Cnn, Convolution
        >>> strided = Cnn(channels=(Convolution(16, kernel=8, stride=2, pad=3, pool=2, pool_stride=1),), hidden=())
        >>> tuple(strided.build((1, 14, 14), 8)[-1].weight.shape)
        (8, 576)
    """

    channels: int
    kernel: int = 3
    stride: int = 1
    pad: int = 0
    pool: int = 1
    pool_stride: int | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_least(
            1,
            channels=self.channels,
            kernel=self.kernel,
            stride=self.stride,
            pool=self.pool,
            pool_stride=self.pool_stride,
        )
        check_least(0, pad=self.pad)
        _check_dropout(self.dropout)

    def layers(self, depth: int, side: tuple[int, int]) -> tuple[list[nn.Module], tuple[int, int]]:
        """Its layers for images of so many channels and this height and width, and the sides of what they put out."""
        step = self.pool_stride or self.pool
        made: list[nn.Module] = [Conv(depth, self.channels, self.kernel, stride=self.stride, pad=self.pad)]
        made += [nn.MaxPool2d(self.pool, step)] if self.pool > 1 else []
        made += [nn.ReLU(), *([Dropout(self.dropout)] if self.dropout else [])]
        high, wide = ((one + 2 * self.pad - self.kernel) // self.stride + 1 for one in side)
        return made, ((high - self.pool) // step + 1, (wide - self.pool) // step + 1)


class Cnn(OneInputNet, frozen=True):
    """Convolutions with ReLU and pooling, then a fully connected net.

    Each pooling halves the sides that are still 4 or longer, so that narrow strips of an image work too.

    Attributes:
        channels: channels after each convolution; or convolutions whose kernel, stride and pooling are their own.
        hidden: widths of the fully connected hidden layers.
        kernel: height and width of each convolution, an odd number.
        pad: whether images are padded so that a convolution keeps their size; without, each side loses `kernel` - 1.
        dropout: share of hidden values zeroed while training.
        final: what follows the last layer.
    """

    channels: tuple[int | Convolution, ...] = (32, 64)
    hidden: tuple[int, ...] = (128,)
    kernel: int = 3
    pad: bool = True
    dropout: float = 0.0
    final: Final = "linear"

    def __post_init__(self) -> None:
        check_widths(channels=tuple(one for one in self.channels if isinstance(one, int)), hidden=self.hidden)
        _check_dropout(self.dropout)
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel must be an odd number from 1 up, not {self.kernel}")

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The net for images of this shape (channels, height, width), its weights unset."""
        check_image(self, shape)
        depth, height, width = shape
        layers: list[nn.Module] = []
        for one in self.channels:
            if isinstance(one, Convolution):
                made, (height, width) = one.layers(depth, (height, width))
                layers, depth, pool = [*layers, *made], one.channels, (1, 1)
            else:
                lost = 0 if self.pad else self.kernel - 1
                height, width = height - lost, width - lost
                pool = (_pooling(height), _pooling(width))
                # The largest of what is above zero is what is above zero of the largest, and there are fewer of these.
                layers += [Conv(depth, one, self.kernel, pad=self.pad), nn.MaxPool2d(pool), nn.ReLU()]
                depth = one
            if min(height, width) < 1:
                raise ValueError(f"images of shape {shape} are too small for this Cnn; use pad=True or fewer channels")
            height, width = height // pool[0], width // pool[1]
        widths = (depth * height * width, *self.hidden, outputs)
        return nn.Sequential(*layers, nn.Flatten(), *dense(widths, self.dropout, self.final))


Net: TypeAlias = Mlp | Cnn | ResNet | PatchNet


class Joint(Settings, frozen=True):
    """The label holder's model: its own columns through a small net, beside what it received, into a head.

    Attributes:
        own: the net for its own columns; None passes them on as they are.
        width: how many numbers `own` puts out for a row.
        head: from own and received numbers, side by side, to the outputs.
    """

    own: Net | None = None
    width: int = 32
    head: Mlp = msgspec.field(default_factory=Mlp)

    def __post_init__(self) -> None:
        check_widths(width=(self.width,))

    def model(self, shapes: Sequence[Shape], outputs: int) -> nn.Module:
        """The joint net for inputs of these shapes: own and received, or received alone if there are no own columns."""
        *own_shapes, received = shapes
        if not own_shapes:
            return Join(None, self.head.build(received, outputs))
        (shape,) = own_shapes
        own = nn.Flatten() if self.own is None else self.own.build(shape, self.width)
        width = prod(shape) if self.own is None else self.width
        return Join(own, self.head.build((width + prod(received),), outputs))


class Join(nn.Module):
    """What `Joint` builds; called with (own, received), or with (received) alone if there are no own columns."""

    def __init__(self, own: nn.Module | None, head: nn.Module) -> None:
        super().__init__()
        self.own = own
        self.head = head

    def forward(self, *inputs: Tensor) -> Tensor:
        """The outputs for rows of own columns and received numbers."""
        *own, received = inputs
        if self.own is not None:
            received = torch.cat((self.own(own[0]), received.flatten(1)), dim=1)
        outputs: Tensor = self.head(received)
        return outputs


AnyNet: TypeAlias = Net | Joint


def default_net(shape: Shape) -> Net:
    """A fully connected net for columns, a convolutional one for images."""
    return Cnn() if len(shape) == 3 else Mlp()


def make(net: Net, shape: Shape, outputs: int, rng: Rng) -> nn.Module:
    """Build a net for rows of this shape and draw its first weights."""
    return initialise(net.build(shape, outputs), rng)


def initialise(module: AnyModule, rng: Rng) -> AnyModule:
    """Draw every weight and bias from U(-b, b) with b = 1 / sqrt(inputs of its layer), and return the module."""
    for layer in module.modules():
        weights = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        for values in weights:
            bound = weights[0][0].numel() ** -0.5
            drawn = rng.random(tuple(values.shape), dtype=np.float32) * np.float32(2 * bound) - np.float32(bound)
            values.data.copy_(torch.from_numpy(drawn))
    return module


def look_at(module: AnyModule, rows: Callable[[], Array], rng: Rng) -> AnyModule:
    """Let layers that learn from rows without labels do so, and return the module; rows are fetched if one does."""
    for layer in module.modules():
        if isinstance(layer, PatchLayer):
            layer.learn(to_tensor(rows()), torch_generator(rng))
    return module


def give_randomness(module: AnyModule, rng: Rng) -> AnyModule:
    """Let dropout draw its masks from `rng` from here on, and return the module."""
    generator = torch_generator(rng)
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.generator = generator
    return module


def weights_of(module: nn.Module) -> Weights:
    """The module's weights by name: trained ones first, then those that no gradient changes.

    On the processor they share the module's memory.
    """
    return {name: to_array(values) for name, values in _all_weights(module).items()}


def load(module: AnyModule, weights: Weights) -> AnyModule:
    """Copy weights into a module and return it.

    Copied, not shared: torch's own memory is aligned the same in every process, and fast matrix products round
    differently on differently aligned memory. It stays laid out as the layers want it, however the arrays are.

    Raises:
        ValueError: an array is missing, unknown, or of the wrong shape; the message names it.
    """
    targets = _all_weights(module)
    if weights.keys() != targets.keys():
        missing, unknown = sorted(targets.keys() - weights.keys()), sorted(weights.keys() - targets.keys())
        raise ValueError(f"these weights are not this net's: missing {missing}, unknown {unknown}")
    for name, values in targets.items():
        if weights[name].shape != tuple(values.shape):
            raise ValueError(f"weights {name!r} have shape {weights[name].shape}; this net needs {tuple(values.shape)}")
        values.data.copy_(torch.tensor(np.ascontiguousarray(weights[name]), device="cpu"))
    return module


def _all_weights(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def to_tensor(x: Array) -> Tensor:
    """A copy of `x` as float32 on the device of the block, in torch's own memory (see `load`)."""
    return torch.tensor(np.ascontiguousarray(x), dtype=torch.float32, device=device_now())


def to_array(values: Tensor) -> Array:
    """A tensor of whatever device as an array; on the processor the two share their memory."""
    found: Array = values.detach().cpu().numpy()
    return found


def _pooling(side: int) -> int:
    return 2 if side >= 4 else 1


def _check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {dropout}")


class Ensemble(Settings, frozen=True):
    """Nets of one form whose numbers are averaged: no more numbers cross than from one, for `count` times the work.

    What a class head says of the mean is the mean of what it says of each, since it is linear.

    Attributes:
        net: the form of each.
        count: how many.
    """

    net: Net
    count: int = 2

    def __post_init__(self) -> None:
        check_least(1, count=self.count)

    def build(self, shape: Shape, outputs: int) -> "Members":
        """The nets for rows of this shape, their weights unset."""
        return Members(self.net.build(shape, outputs) for _ in range(self.count))


class Members(nn.ModuleList):
    """What `Ensemble` builds."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean of what all make of the rows."""
        total: Tensor = sum(member(x) for member in self)
        return total / len(self)


AnyExtractor: TypeAlias = Net | Ensemble
"""A net, or several, that puts a row into a few numbers."""


def members_of(body: nn.Module) -> list[nn.Module]:
    """The nets that learn each by itself in a body built by `AnyExtractor`."""
    return list(body) if isinstance(body, Members) else [body]


LINEAR = Mlp(hidden=())
"""The form of heads added up."""


class SummedHeads(Settings, frozen=True):
    """The parties' own class heads added up; the label holder learns which class is which, and nothing else.

    Parties send their heads too: as many numbers for each class as for a row, and one more.
    """


class PartLayer(NamedTuple):
    """What one party brings.

    Attributes:
        numbers: what its net puts out for labelled rows, (rows, width).
        head: what its class head makes of them, (width + 1, classes), the biases last; classes have names of its own.
    """

    numbers: Array
    head: Array


def class_head(local: Weights) -> Array:
    """The class head in the weights of an `Extractor`, as `Part` has it."""
    return np.concatenate([local["head.weight"].T, local["head.bias"][None]])


def add_up(task: Task, parts: Sequence[PartLayer], y: Array) -> Weights:
    """The weights of `LINEAR` on all parties' numbers side by side, given the rows' labels."""
    count = 2 if task.kind == "binary" else len(task.classes)
    codes = np.asarray(y, dtype=np.int64)
    heads = [_in_order(part, codes, count) for part in parts]
    matrix = np.concatenate([head[:-1] for head in heads])
    shares = (np.bincount(codes, minlength=count) + 1) / (len(codes) + count)
    bias = np.sum([head[-1] for head in heads], axis=0) - (len(heads) - 1) * np.log(shares)
    if task.kind == "binary":
        matrix, bias = matrix[:, 1:] - matrix[:, :1], bias[1:] - bias[:1]
    names = weights_of(LINEAR.build(matrix.shape[:1], matrix.shape[1]))
    return dict(zip(names, (np.ascontiguousarray(matrix.T, np.float32), bias.astype(np.float32)), strict=True))


def _in_order(part: PartLayer, codes: Array, count: int) -> Array:
    """A party's head with a column for each of so many classes, by the labels that its own come with most often.

    A class that it did not learn, as no labelled row had it, counts as the rarest, whatever its numbers are.
    """
    numbers, head = part.numbers.astype(np.float32), part.head.astype(np.float32)
    together = np.zeros((count, head.shape[1]))
    np.add.at(together, (codes, (numbers @ head[:-1] + head[-1]).argmax(axis=1)), 1)
    # Under randomised response, parties may have learnt more classes than the rows have.
    present = np.unique(codes)
    classes = present if len(present) >= head.shape[1] else np.arange(count)
    from scipy.optimize import linear_sum_assignment

    places, columns = linear_sum_assignment(together[classes], maximize=True)
    found = head[:, columns]
    if len(columns) == count:
        return found
    # Around their mean the largest of its log-odds is above zero: a class not learnt, below it, is never the likeliest.
    whole = np.zeros((len(head), count), np.float32)
    whole[-1] = -np.log(len(codes) + count)
    whole[:, classes[places]] = found - found.mean(axis=1, keepdims=True)
    return whole


_GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Attention(Settings, frozen=True):
    """How similar two rows have to be to learn from each other.

    Rows are centred and brought to length 1 before they are compared: raw ones, as in the paper, are dominated by
    whichever rows have large numbers, and the weights then collapse onto single rows.

    Attributes:
        sharpness: what similarities, from -1 to 1, are multiplied by; large looks at the most similar rows alone. None
            takes the one that guesses each known row best from all the other known rows.
    """

    sharpness: float | None = None

    def __post_init__(self) -> None:
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
        return to_array(torch.cat(parts))


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


class Agreement(NamedTuple):
    """When a guess counts as a label: how sure both heads are, what it weighs, and how missing numbers are guessed."""

    threshold: float
    weight: float
    sharpness: float


class CrossView(nn.Module):
    """A joint head for classes, and beside it one linear head for each party's block of numbers.

    Called like the joint head alone, which is what predicts.
    """

    def __init__(self, joint: Join, widths: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.joint = joint
        self.views = nn.ModuleList(Linear(width, outputs) for width in widths)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The joint head's outputs."""
        outputs: Tensor = self.joint(*inputs)
        return outputs

    def own(self, x: Tensor) -> Tensor:
        """The block of numbers that the label holder's own net makes of its columns."""
        return torch.flatten(x, 1) if self.joint.own is None else self.joint.own(x)

    def loss(self, blocks: list[Tensor], targets: Tensor, others: list[Tensor], rule: Agreement) -> Tensor:
        """The loss of shared rows for every head, and of each party's other rows where two heads agree on them.

        Args:
            blocks: each party's numbers for the shared rows.
            targets: the shared rows' class codes.
            others: each party's numbers for rows of its own, outside the overlap; may be none.
            rule: when an agreement counts.
        """
        logits = [self._all(blocks), *(self._alone(place, block) for place, block in enumerate(blocks))]
        total = torch.stack([functional.cross_entropy(one, targets) for one in logits]).sum()
        for place, rows in enumerate(others):
            if len(rows):
                total = total + rule.weight * self._guessed(blocks, place, rows, rule)
        return total

    def _guessed(self, blocks: list[Tensor], place: int, rows: Tensor, rule: Agreement) -> Tensor:
        # Guesses are made from shared rows as they are: unlabelled rows must not move labelled ones.
        keys = blocks[place].detach()
        guesses = [attend(rows, keys, block.detach(), rule.sharpness) for block in blocks]
        whole = [*guesses[:place], rows, *guesses[place + 1 :]]
        both = torch.stack((self._all(whole), self._alone(place, rows)))
        sure, labels = both.detach().softmax(dim=2).max(dim=2)
        keep = (labels[0] == labels[1]) & (sure > rule.threshold).all(dim=0)
        losses = torch.stack([functional.cross_entropy(one, labels[0], reduction="none") for one in both])
        return (losses.sum(dim=0) * keep).mean()

    def _all(self, blocks: list[Tensor]) -> Tensor:
        return _of_classes(self.joint.head(torch.cat(blocks, dim=1)))

    def _alone(self, place: int, block: Tensor) -> Tensor:
        return _of_classes(self.views[place](block))


def _of_classes(outputs: Tensor) -> Tensor:
    """A logit for each class: a single output is that of class 1 against class 0."""
    return outputs if outputs.shape[1] > 1 else torch.cat((torch.zeros_like(outputs), outputs), dim=1)
