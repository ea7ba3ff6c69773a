"""Linear encoders that know how many numbers suit a row."""

from math import prod

from laconic.learn.linear import LinearEncoder
from laconic.learn.nets import Shape


class SizedEncoder(LinearEncoder, frozen=True):
    """Abstract: a linear encoder with a dimension that suits the data unless one is given.

    Attributes:
        dim: how many numbers stand for a row; 0 takes 8 for columns and 32 for images, and at most half as many as a
            row has: as many as there are columns would be the columns themselves, turned round.
    """

    dim: int = 0

    def __post_init__(self) -> None:
        """Refuse a dimension below 0."""
        if self.dim < 0:
            raise ValueError(f"dim must be 1 or more, or 0 for what suits the data, not {self.dim}")

    def dim_for(self, shape: Shape) -> int:
        """`dim`, or what suits; the numbers in a row at most."""
        usual = max(1, min(32 if len(shape) == 3 else 8, prod(shape) // 2))
        return min(self.dim or usual, prod(shape))
