"""What every encoder is: settings that learn, without labels, a net which puts a row into a few numbers."""

from torch import nn

from laconic.core.ledger import Noise
from laconic.core.values import Array, Rng, Settings, Weights
from laconic.learn.nets import Net, Shape, load, to_tensor
from laconic.learn.sgd import evaluate


class Encoder(Settings, frozen=True):
    """Abstract: learns from unlabelled rows the weights of a net that puts a row into at most `dim` numbers.

    Rows are float32 and already standardised: (rows, columns), or (rows, channels, height, width) for images.
    Linear encoders put out min(`dim`, numbers in a row): more would carry nothing new. Others put out `dim` exactly.

    What is learnt is always a net, so any encoder can be trained on with labels: `load(encoder.build(shape), weights)`
    is exactly what `encode` applies.

    Attributes:
        dim: how many numbers stand for a row.
    """

    dim: int = 16

    def __post_init__(self) -> None:
        """Refuse a dimension below 1."""
        if self.dim < 1:
            raise ValueError(f"dim must be 1 or more, not {self.dim}")

    def net(self, shape: Shape) -> Net:
        """The net, for rows of this shape, whose weights `fit` learns."""
        raise NotImplementedError

    def fit(self, x: Array, rng: Rng) -> Weights:
        """Learn the net's weights from these rows."""
        raise NotImplementedError

    def noise(self, rows: int) -> tuple[Noise, ...] | None:
        """The noise that `fit` puts on what it learns from so many rows; None if rows enter without noise.

        Nothing at all (an empty tuple) means that `fit` learns nothing from rows, and so has nothing to hide.
        """
        return None

    def dim_for(self, shape: Shape) -> int:
        """How many numbers stand for a row of this shape."""
        return self.dim

    def build(self, shape: Shape) -> nn.Module:
        """The net for rows of this shape as a module, its weights unset."""
        return self.net(shape).build(shape, self.dim_for(shape))

    def encode(self, weights: Weights, x: Array) -> Array:
        """The numbers that stand for each row: float32, (rows, `dim_for` the row's shape)."""
        return evaluate(load(self.build(x.shape[1:]), weights), [to_tensor(x)]).numpy()
