"""FixMatch for images: weak views are shifted, strong ones warped, shaded and pierced."""

from torch import Generator, Tensor

from laconic.core.values import Array, Rng, Weights
from laconic.learn.augment import flip, punch, shade, shift, warp
from laconic.learn.semisupervised import SemiSupervised
from laconic.learn.several import AnyExtractor


class FixMatch(SemiSupervised, frozen=True):
    """Semi-supervised learning of images, and of pieces of images.

    Attributes:
        steps: gradient steps in all; fewer and smaller ones than for tables, as images cost more.
        batch: labelled images a step.
        shift: pixels that a weak view is moved by at most.
        flips: whether views may be mirrored; right for photographs, wrong for digits.
        turn: greatest angle of a strong view, in degrees, in turning and in shearing.
        zoom: greatest relative change of a strong view's width and height.
        shade: greatest change of a strong view's contrast and brightness.
        hole: side of the rectangle hidden in a strong view, as a share of the image's sides.
    """

    steps: int = 400
    batch: int = 32
    shift: int = 2
    flips: bool = False
    turn: float = 15.0
    zoom: float = 0.15
    shade: float = 0.3
    hole: float = 0.4

    def __post_init__(self) -> None:
        """Refuse amounts below zero and holes larger than the image."""
        super().__post_init__()
        amounts = {"shift": self.shift, "turn": self.turn, "zoom": self.zoom, "shade": self.shade, "hole": self.hole}
        for name, amount in amounts.items():
            if amount < 0:
                raise ValueError(f"{name} must be 0 or more, not {amount}")
        if self.hole >= 1:
            raise ValueError(f"hole must be below 1, not {self.hole}: nothing of the image would be left")

    def fit(
        self, start: Weights, net: AnyExtractor, width: int, x: Array, codes: Array, unlabelled: Array, rng: Rng
    ) -> Weights:
        """As `SemiSupervised.fit`; only images can be warped."""
        if x.ndim != 4:
            raise ValueError(
                f"FixMatch learns from images, (channels, height, width), not from rows of shape {x.shape[1:]}; "
                "for columns use local=FixMatchTab(...), on the command line --set method.local.type=FixMatchTab, or "
                "leave local out, which takes what suits the data"
            )
        return super().fit(start, net, width, x, codes, unlabelled, rng)

    def weak(self, rows: Tensor, chance: Generator) -> Tensor:
        """Shifted, and mirrored where that is allowed."""
        return shift(flip(rows, chance) if self.flips else rows, self.shift, chance)

    def strong(self, rows: Tensor, chance: Generator) -> Tensor:
        """Warped, shaded, and with a hole."""
        height, width = rows.shape[2:]
        slide = 2 * self.shift / max(height, width)
        rows = warp(flip(rows, chance) if self.flips else rows, self.turn, self.zoom, slide, chance)
        return punch(shade(rows, self.shade, chance), self.hole, chance)
