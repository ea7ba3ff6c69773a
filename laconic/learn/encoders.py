"""All encoders, and which one suits which data."""

from math import prod
from typing import TypeAlias

from laconic.core.values import Array, Rng, Weights
from laconic.learn.autoencoder import Autoencoder
from laconic.learn.encoder import Encoder
from laconic.learn.nat import Nat
from laconic.learn.nets import Net, Shape
from laconic.learn.pca import Pca, WhitenedPca
from laconic.learn.projection import RandomProjection


class Suited(Encoder, frozen=True):
    """Whatever did best on data of a party's kind, as `studies/fedonce_oneshot.py` measures it.

    Attributes:
        dim: how many numbers stand for a row; 0 takes 8 for columns and 32 for images, and at most half as many as a
            row has (a single column apart): as many as there are columns would be the columns themselves, turned round.
    """

    dim: int = 0

    def __post_init__(self) -> None:
        """Refuse a dimension below 0."""
        if self.dim < 0:
            raise ValueError(f"dim must be 1 or more, or 0 for what suits the data, not {self.dim}")

    def net(self, shape: Shape) -> Net:
        """The net of the encoder that suits."""
        return self._choice(shape).net(shape)

    def dim_for(self, shape: Shape) -> int:
        """The dimension asked for, or what suits."""
        return self._choice(shape).dim_for(shape)

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Fit the encoder that suits."""
        return self._choice(x.shape[1:]).fit(x, rng)

    def _choice(self, shape: Shape) -> Encoder:
        usual = max(1, min(32 if len(shape) == 3 else 8, prod(shape) // 2))
        return Pca(dim=self.dim or usual)


AnyEncoder: TypeAlias = Suited | Nat | Pca | WhitenedPca | RandomProjection | Autoencoder
