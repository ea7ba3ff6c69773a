"""A feature map that works out the features of a row once, however often a study deals the row to another party.

The three skews of a draw deal the same rows through the same map. What differs between them is the order of sums; the
filters, which take nearly all the time, need not run again.
"""

from hashlib import blake2b

import numpy as np
from msgspec.structs import replace

from laconic.learn import Convolutions
from laconic.learn.features import AnyFeatureMap, FeatureMap, Public
from laconic.values import Array, Weights


class Remembered(FeatureMap, frozen=True):
    """The same features as `of` has, kept for as long as no other map is asked for any."""

    of: Convolutions

    @property
    def needs_public(self) -> bool:
        """As the map itself."""
        return self.of.needs_public

    def sized(self, most: int, shape: tuple[int, ...]) -> "Remembered":
        """The map, sized."""
        return replace(self, of=self.of.sized(most, shape))

    def draw(self, shape: tuple[int, ...], public: Public) -> Weights:
        """What the map is made of."""
        return self.of.draw(shape, public)

    def apply(self, weights: Weights, x: Array) -> Array:
        """The features of rows: those known by their bytes, and the others as the map gives them."""
        known = _features_of(weights)
        digests = [blake2b(row.tobytes(), digest_size=16).digest() for row in x]
        new = np.array([at for at, digest in enumerate(digests) if digest not in known], dtype=np.int64)
        for at, features in zip(new, self.of.apply(weights, x[new]), strict=True):
            known[digests[at]] = features
        width = len(weights["filters"]) * self.of.grid**2
        return np.array([known[digest] for digest in digests], dtype=np.float32).reshape(len(x), width)


def remembered(chosen: AnyFeatureMap) -> AnyFeatureMap:
    """A map that remembers, where working out features takes long."""
    return Remembered(of=chosen) if isinstance(chosen, Convolutions) else chosen  # type: ignore[return-value]


def _features_of(weights: Weights) -> dict[bytes, Array]:
    """The features known of the map that is made of these weights; those of other maps are dropped."""
    key = blake2b(weights["filters"].tobytes()).digest()
    if key not in _known:
        _known.clear()
        _known[key] = {}
    return _known[key]


_known: dict[bytes, dict[bytes, Array]] = {}
