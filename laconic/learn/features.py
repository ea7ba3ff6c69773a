"""Feature maps: fixed functions from a row to many numbers, on which a linear model is strong.

A map learns nothing from any party's rows. It follows from its settings, and where it names them from public rows or
from the two photographs that come with scikit-learn. So every party can make the same map by itself, and none is sent.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from math import ceil, prod, sqrt
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from msgspec.structs import replace
from torch.nn import functional

from laconic.learn.nets.layers import Shape
from laconic.values import Array, Rng, Settings, Weights, flat

Public: TypeAlias = Callable[[], Array]
"""Gives the prepared public rows; called only by maps that need them."""

_BATCH = 500
_SAMPLE = 4000
"""From so many public images, or crops of photographs, a map is made."""


def _check_width(width: int) -> None:
    if width < 0:
        raise ValueError(f"the number of features must be 1 or more, or 0 for as many as fit, not {width}")


class FeatureMap(Settings, frozen=True):
    """Abstract: how a row becomes features.

    To bring a map of your own, write a frozen subclass; it is known to your own process only. `FrozenEncoder` takes a
    torch model from a file, which works everywhere.
    """

    @property
    def needs_public(self) -> bool:
        """Whether it is made from public rows, which every party must then have."""
        return False

    def sized(self, most: int, shape: Shape) -> "FeatureMap":
        """The same map; if its width was left open, as wide as `most` features allow for rows of this shape."""
        return self

    @abstractmethod
    def draw(self, shape: Shape, public: Public) -> Weights:
        """What the map is made of, for rows of this shape: the same arrays at every party."""

    @abstractmethod
    def apply(self, weights: Weights, x: Array) -> Array:
        """The features of prepared rows, float32, shape (rows, features)."""


class Columns(FeatureMap, frozen=True):
    """The columns, or pixels, as they are."""

    def draw(self, shape: Shape, public: Public) -> Weights:
        """Nothing is drawn."""
        return {}

    def apply(self, weights: Weights, x: Array) -> Array:
        """The rows, flat."""
        return np.asarray(flat(x), dtype=np.float32)


class RandomFourier(FeatureMap, frozen=True):
    """Cosines of random sums of the columns, beside the columns themselves: about a Gaussian kernel.

    Rahimi, Recht: Random Features for Large-Scale Kernel Machines (2007).

    Attributes:
        width: how many cosines; 0 for as many as fit.
        scale: how far apart rows still count as similar, in units of the root of the number of columns.
        seed: the draw, which is public.
    """

    width: int = 0
    scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a width below 0 and a scale that nothing has."""
        _check_width(self.width)
        if not self.scale > 0:
            raise ValueError(f"scale must be above 0, not {self.scale}")

    def sized(self, most: int, shape: Shape) -> "RandomFourier":
        """As many cosines as fit beside the columns."""
        return self if self.width else replace(self, width=max(1, most - prod(shape)))

    def draw(self, shape: Shape, public: Public) -> Weights:
        """Directions from a normal distribution, and phases."""
        rng, columns = np.random.default_rng(self.seed), prod(shape)
        directions = rng.standard_normal((columns, self.width)) / (self.scale * sqrt(columns))
        return {"directions": _float32(directions), "phases": _float32(2 * np.pi * rng.random(self.width))}

    def apply(self, weights: Weights, x: Array) -> Array:
        """Columns and cosines side by side."""
        rows = np.asarray(flat(x), dtype=np.float32)
        waves = np.cos(rows @ weights["directions"] + weights["phases"]) * np.float32(sqrt(2))
        return np.concatenate([rows, waves], axis=1)


class RandomRelu(FeatureMap, frozen=True):
    """Random sums of the columns where they are above a random threshold, beside the columns themselves.

    This is a net with one hidden layer whose first weights stay as they are drawn.

    Attributes:
        width: how many; 0 for as many as fit.
        seed: the draw, which is public.
    """

    width: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a width below 0."""
        _check_width(self.width)

    def sized(self, most: int, shape: Shape) -> "RandomRelu":
        """As many as fit beside the columns."""
        return self if self.width else replace(self, width=max(1, most - prod(shape)))

    def draw(self, shape: Shape, public: Public) -> Weights:
        """Directions of length 1 on average, and thresholds."""
        rng, columns = np.random.default_rng(self.seed), prod(shape)
        directions = rng.standard_normal((columns, self.width)) / sqrt(columns)
        return {"directions": _float32(directions), "thresholds": _float32(rng.standard_normal(self.width))}

    def apply(self, weights: Weights, x: Array) -> Array:
        """Columns and what is above the thresholds, side by side."""
        rows = np.asarray(flat(x), dtype=np.float32)
        return np.concatenate([rows, np.maximum(rows @ weights["directions"] - weights["thresholds"], 0)], axis=1)


class Drawn(Settings, frozen=True):
    """Filters drawn at random: no image is needed."""

    needs_public: ClassVar[bool] = False

    def filters(self, shape: Shape, kernel: int, count: int, public: Public, rng: Rng) -> Array:
        """Filters of mean 0 and length 1."""
        return _unit(rng.standard_normal((count, shape[0], kernel, kernel)))


class Photographs(Settings, frozen=True):
    """Crops of the two photographs that come with scikit-learn, brought to the size of the rows."""

    needs_public: ClassVar[bool] = False

    def images(self, shape: Shape, public: Public, rng: Rng) -> Array:
        """Square crops of any size that holds a row, each brought to mean 0 and spread 1."""
        if len(shape) != 3:
            raise ValueError("photographs stand in for images only; use by=PublicRows() for columns")
        channels, height, width = shape
        photographs, found = _photographs(channels), []
        for _ in range(_SAMPLE):
            photograph = photographs[rng.integers(len(photographs))]
            side = int(rng.integers(max(height, width), 7 * max(height, width)))
            side = min(side, *photograph.shape[1:])
            top, left = (int(rng.integers(length - side + 1)) for length in photograph.shape[1:])
            crop = photograph[None, :, top : top + side, left : left + side]
            small = functional.interpolate(crop, size=(height, width), mode="area")[0]
            found.append((small - small.mean()) / (small.std() + 1e-3))
        return np.asarray(torch.stack(found).numpy())

    def filters(self, shape: Shape, kernel: int, count: int, public: Public, rng: Rng) -> Array:
        """Patches of the crops, whitened."""
        return _whitened_patches(self.images(shape, public, rng), kernel, count, rng)


class PublicRows(Settings, frozen=True):
    """Rows that everybody may see, cut "public", which all parties have in the same order."""

    needs_public: ClassVar[bool] = True

    def images(self, shape: Shape, public: Public, rng: Rng) -> Array:
        """The first of them."""
        return np.asarray(public()[:_SAMPLE], dtype=np.float32)

    def filters(self, shape: Shape, kernel: int, count: int, public: Public, rng: Rng) -> Array:
        """Patches of these images, whitened."""
        return _whitened_patches(self.images(shape, public, rng), kernel, count, rng)


class Convolutions(FeatureMap, frozen=True):
    """Images through fixed filters; of what is above zero, the root of the mean over each cell of a grid.

    With whitened patches as filters this is the single-layer net of Coates, Ng, Lee: An Analysis of Single-Layer
    Networks in Unsupervised Feature Learning (2011), without its clustering.

    Attributes:
        filters: how many; 0 for as many as fit.
        kernel: height and width of a filter.
        grid: cells along each side of the image.
        filters_from: where filters come from; never from a party's own images.
        seed: the draw, which is public.
    """

    filters: int = 0
    kernel: int = 6
    grid: int = 3
    filters_from: Drawn | Photographs | PublicRows = Drawn()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse counts below 1."""
        _check_width(self.filters)
        if min(self.kernel, self.grid) < 1:
            raise ValueError(f"kernel and grid must be 1 or more, not {self.kernel} and {self.grid}")

    @property
    def needs_public(self) -> bool:
        """If its filters are."""
        return self.filters_from.needs_public

    def sized(self, most: int, shape: Shape) -> "Convolutions":
        """As many filters as fit."""
        return self if self.filters else replace(self, filters=max(1, most // self.grid**2))

    def draw(self, shape: Shape, public: Public) -> Weights:
        """The filters."""
        if len(shape) != 3:
            raise ValueError(f"Convolutions are for images, not rows of shape {shape}; use RandomFourier() for columns")
        kernel, rng = min(self.kernel, *shape[1:]), np.random.default_rng(self.seed)
        return {"filters": _float32(self.filters_from.filters(shape, kernel, self.filters, public, rng))}

    def apply(self, weights: Weights, x: Array) -> Array:
        """Filter, cut off below zero, average over each cell, take the root."""
        filters = torch.from_numpy(np.ascontiguousarray(weights["filters"]))
        found = [np.empty((0, len(filters) * self.grid**2), np.float32)]
        for start in range(0, len(x), _BATCH):
            images = torch.from_numpy(np.ascontiguousarray(x[start : start + _BATCH], dtype=np.float32))
            above = functional.conv2d(images, filters, padding=filters.shape[-1] // 4).relu_()
            found.append(functional.adaptive_avg_pool2d(above, self.grid).flatten(1).sqrt_().numpy())
        return np.concatenate(found)


class Whitened(FeatureMap, frozen=True):
    """The strongest directions of another map's features among public images, each brought to mean 0 and spread 1.

    Few features of equal weight are what noise spares most: meant for private sums.

    Attributes:
        of: the map whose features these are.
        width: how many directions are kept.
        by: which images say what is strong.
    """

    of: Convolutions | RandomFourier | RandomRelu | Columns = Convolutions(filters=128, kernel=8)
    width: int = 256
    by: Photographs | PublicRows = Photographs()

    def __post_init__(self) -> None:
        """Refuse a width below 1."""
        if self.width < 1:
            raise ValueError(f"width must be 1 or more, not {self.width}")

    @property
    def needs_public(self) -> bool:
        """If the inner map, or the images that say what is strong, are."""
        return self.of.needs_public or self.by.needs_public

    def draw(self, shape: Shape, public: Public) -> Weights:
        """Principal components of the inner features, scaled; a component's largest entry is positive."""
        inner = self.of.sized(4 * self.width, shape)
        weights = inner.draw(shape, public)
        seen = inner.apply(weights, self.by.images(shape, public, np.random.default_rng(0))).astype(np.float64)
        mean = seen.mean(axis=0)
        variances, components = np.linalg.eigh(np.cov(seen.T))
        variances, components = variances[::-1][: self.width].clip(min=0), components[:, ::-1][:, : self.width]
        largest = np.abs(components).argmax(axis=0)
        components = components * np.sign(components[largest, np.arange(components.shape[1])])
        # Directions that hardly vary among public images would be blown up beyond all others.
        directions = components / np.sqrt(variances + 1e-3 * variances[0])
        return {"mean": _float32(mean), "directions": _float32(directions)} | {
            f"of {name}": values for name, values in weights.items()
        }

    def apply(self, weights: Weights, x: Array) -> Array:
        """The inner features along these directions."""
        inner = {name.removeprefix("of "): values for name, values in weights.items() if name.startswith("of ")}
        features = self.of.sized(4 * self.width, x.shape[1:]).apply(inner, x)
        return np.asarray((features - weights["mean"]) @ weights["directions"])


class FrozenEncoder(FeatureMap, frozen=True):
    """A torch model of your own, saved by `torch.export.save` with a free batch size; every party has the same file.

    Attributes:
        file: its path, at every party.
        digest: of the file, as `digest_of_file` gives it: a party that has another file refuses instead of sending sums
            that fit nobody else's.
    """

    file: str
    digest: str

    def draw(self, shape: Shape, public: Public) -> Weights:
        """Nothing is drawn; the file is checked."""
        _exported(self.file, self.digest)
        return {}

    def apply(self, weights: Weights, x: Array) -> Array:
        """What the model puts out, flat."""
        module = _exported(self.file, self.digest)
        with torch.no_grad():
            found = [
                module(torch.from_numpy(np.ascontiguousarray(x[start : start + _BATCH], dtype=np.float32))).flatten(1)
                for start in range(0, max(len(x), 1), _BATCH)
            ]
        return np.asarray(torch.cat(found).numpy(), dtype=np.float32)


AnyFeatureMap: TypeAlias = Columns | RandomFourier | RandomRelu | Convolutions | Whitened | FrozenEncoder


def default_map(shape: Shape) -> "Convolutions | RandomFourier":
    """Convolutions for images, columns and cosines for columns: `studies/analytic_tables.py` chose between them."""
    return Convolutions() if len(shape) == 3 else RandomFourier()


def draw_once(chosen: FeatureMap, shape: Shape, public: Public) -> Weights:
    """`chosen.draw`, worked out once in a process, however many parties share it."""
    rows = public() if chosen.needs_public else None
    key = chosen, shape, None if rows is None else blake2b(rows.tobytes()).digest()
    if key not in _drawn:
        while len(_drawn) >= 4:
            del _drawn[next(iter(_drawn))]
        _drawn[key] = chosen.draw(shape, public)
    return _drawn[key]


_drawn: dict[tuple[FeatureMap, Shape, bytes | None], Weights] = {}


def digest_of_file(path: str) -> str:
    """What tells this file from all others."""
    return blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()


@lru_cache(maxsize=4)
def _exported(path: str, digest: str) -> Any:
    found = digest_of_file(path)
    if found != digest:
        raise ValueError(f"{path} has digest {found}, not {digest}; all parties must have the same encoder")
    return torch.export.load(path).module()


def _photographs(channels: int) -> list[torch.Tensor]:
    """Both photographs, in colour for three channels and grey for any other number."""
    from sklearn.datasets import load_sample_images

    found = [torch.from_numpy(np.moveaxis(image, 2, 0).astype(np.float32)) for image in load_sample_images().images]
    return found if channels == 3 else [image.mean(dim=0, keepdim=True).repeat(channels, 1, 1) for image in found]


def _whitened_patches(images: Array, kernel: int, count: int, rng: Rng) -> Array:
    """Filters that find patches like those of the images, once what neighbouring pixels share is taken off.

    Whitening is by the symmetric root, which is the same on every machine whatever the signs of eigenvectors.
    """
    height, width = images.shape[2:]
    drawn = max(10 * count, 10_000)
    which, top, left = (
        rng.integers(below, size=drawn) for below in (len(images), height - kernel + 1, width - kernel + 1)
    )
    cut = [images[i, :, a : a + kernel, b : b + kernel].ravel() for i, a, b in zip(which, top, left, strict=True)]
    patches = np.array(cut, dtype=np.float64)
    patches -= patches.mean(axis=1, keepdims=True)
    spreads = patches.std(axis=1)
    patches = patches[spreads > np.quantile(spreads, 0.3)]
    patches /= patches.std(axis=1, keepdims=True)
    variances, components = np.linalg.eigh(patches.T @ patches / len(patches))
    whitening = (components / np.sqrt(variances.clip(min=0) + 0.1)) @ components.T
    chosen = patches[:: ceil(len(patches) / count)] if len(patches) < count else patches[:count]
    whitened = chosen @ whitening
    whitened /= np.linalg.norm(whitened, axis=1, keepdims=True)
    return _unit((whitened @ whitening).reshape(-1, images.shape[1], kernel, kernel))


def _unit(filters: Array) -> Array:
    filters = filters - filters.mean(axis=(1, 2, 3), keepdims=True)
    lengths = np.sqrt((filters**2).sum(axis=(1, 2, 3), keepdims=True))
    return np.asarray(filters / np.maximum(lengths, 1e-12))


def _float32(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)
