"""FixMatch-tab: FixMatch for tables, whose views have some cells masked towards the mean, and noise on the others."""

from torch import Generator, Tensor

from laconic.learn.augment import jitter, mask
from laconic.learn.semisupervised import SemiSupervised


class FixMatchTab(SemiSupervised, frozen=True):
    """Semi-supervised learning of tables.

    The paper's formula keeps the share that its text says is masked; what works is keeping most.

    Attributes:
        keep: the chance that a weak view keeps a cell.
        strong_keep: the chance that a strong view keeps a cell; the paper uses the weak view's mask for both.
        noise: standard deviation of the noise on a strong view, in units of a column's spread.
    """

    keep: float = 0.8
    strong_keep: float = 0.6
    noise: float = 0.1

    def __post_init__(self) -> None:
        """Refuse chances outside (0, 1] and noise below zero."""
        super().__post_init__()
        for name, chance in {"keep": self.keep, "strong_keep": self.strong_keep}.items():
            if not 0 < chance <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, not {chance}")
        if self.noise < 0:
            raise ValueError(f"noise must be 0 or more, not {self.noise}")

    def weak(self, rows: Tensor, chance: Generator) -> Tensor:
        """Some cells masked."""
        return mask(rows, self.keep, chance)

    def strong(self, rows: Tensor, chance: Generator) -> Tensor:
        """More cells masked, and noise."""
        return jitter(mask(rows, self.strong_keep, chance), self.noise, chance)
