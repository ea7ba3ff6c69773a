"""What is to be predicted: one of two classes, one of several, or a number."""

from typing import Literal

import msgspec
import numpy as np

from laconic.core.values import Array


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of label, and what its codes mean.

    Attributes:
        kind: labels are 0 or 1 (`binary`), 0 to C-1 (`multiclass`), or real numbers (`regression`).
        classes: the names behind the codes, in their order; empty for regression.
        label: the name of the label column, for reports.
    """

    kind: Literal["binary", "multiclass", "regression"]
    classes: tuple[str, ...] = ()
    label: str = "label"

    @property
    def outputs(self) -> int:
        """How many numbers a model puts out for one row: one logit, C logits, or one number."""
        return len(self.classes) if self.kind == "multiclass" else 1

    def shape(self, rows: int) -> tuple[int, ...]:
        """The shape of predictions: P(class 1) a row, C probabilities a row, or a number a row."""
        return (rows, len(self.classes)) if self.kind == "multiclass" else (rows,)

    def decide(self, predictions: Array) -> Array:
        """The class code a row, or the number itself for regression."""
        if self.kind == "multiclass":
            return np.asarray(np.argmax(predictions, axis=1))
        return np.asarray(predictions >= 0.5, dtype=int) if self.kind == "binary" else predictions
