"""Which unlabelled rows are sure enough to be given a label: two models must agree on them and be confident."""

from typing import TypeAlias

import numpy as np

from laconic.core.values import Array, Settings


class Confident(Settings, frozen=True):
    """One confidence for all classes, as in the paper; where one class is common, it chooses that class alone.

    Attributes:
        level: the least probability.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 <= self.level < 1:
            raise ValueError(f"level must be at least 0 and below 1, not {self.level}")

    def cutoffs(self, confidence: Array, decided: Array, classes: int) -> Array:
        """The least confidence for each class."""
        return np.full(classes, self.level)


class PerClass(Settings, frozen=True):
    """The surest share of the rows of each class, so that every class is chosen as often as it is seen.

    Attributes:
        share: of the rows that a model puts into a class.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")

    def cutoffs(self, confidence: Array, decided: Array, classes: int) -> Array:
        """The least confidence for each class."""
        members = [confidence[decided == one] for one in range(classes)]
        return np.array([np.quantile(some, 1 - self.share) if len(some) else 1.0 for some in members])


AnyChoice: TypeAlias = Confident | PerClass


def chances(alone: Array, joint: Array, choice: AnyChoice, prior: Array) -> Array:
    """For each row, the chance that it is given a label (paper, eq. 9): zero unless both models agree and are sure.

    Args:
        alone: class probabilities by the model of one party's numbers, shape (rows, classes).
        joint: class probabilities by the model of all parties' numbers.
        choice: how sure is sure.
        prior: how often each class comes among labelled rows; probabilities are scaled so that it does here too.
    """
    if len(alone) == 0:
        return np.zeros(0)
    alone, joint = aligned(alone, prior), aligned(joint, prior)
    decided, confidence = joint.argmax(axis=1), joint.max(axis=1)
    kept = decided == alone.argmax(axis=1)
    for sure in (alone.max(axis=1), confidence):
        kept = kept & (sure >= choice.cutoffs(sure, decided, len(prior))[decided])
    return np.asarray(kept * confidence)


def aligned(probabilities: Array, prior: Array) -> Array:
    """Probabilities scaled so that their mean comes near the prior."""
    scaled = probabilities * (prior / np.maximum(probabilities.mean(axis=0), 1e-6))
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))
