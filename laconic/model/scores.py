"""Predictions, and how each came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.task import Task
from laconic.core.values import Array

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Scores:
    """Predictions, and how each came about.

    Attributes:
        ids: whom they are about.
        predictions: in the shape of `Task.shape`; NaN where there is none.
        present: which parties, beside the hub, had a say in each.
        how: what predicted each: `all`, the word for what was done about absent parties, or why there is no answer.
        task: what is predicted.
    """

    ids: tuple[str, ...]
    predictions: Array
    present: tuple[tuple[str, ...], ...]
    how: tuple[str, ...]
    task: Task

    @property
    def probabilities(self) -> Array:
        """A column for each class, in their order; NaN where there is no answer."""
        if self.task.kind == "regression":
            raise ValueError(f"{self.task.label} is a number, which has no probabilities; use the predictions")
        found = self.predictions.astype(np.float64)
        return found if self.task.kind == "multiclass" else np.stack([1.0 - found, found], axis=1)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each person's score is."""
        return {one: at for at, one in enumerate(self.ids)}

    def with_others(self, places: Sequence[int], others: "Scores") -> "Scores":
        """The same with the scores at these places replaced by others."""
        predictions = self.predictions.astype(np.float64)
        predictions[list(places)] = others.predictions
        present, how = list(self.present), list(self.how)
        for at, place in enumerate(places):
            present[place], how[place] = others.present[at], others.how[at]
        return Scores(self.ids, predictions, tuple(present), tuple(how), self.task)

    def take(self, ids: Sequence[str]) -> "Scores":
        """The scores of these people, in this order, each as often as named."""
        if tuple(ids) == self.ids:
            return self
        at = [self.places[one] for one in ids]
        return Scores(
            tuple(ids),
            self.predictions[at],
            tuple(self.present[place] for place in at),
            tuple(self.how[place] for place in at),
            self.task,
        )

    @property
    def answered(self) -> Array:
        """Whether there is an answer, row by row."""
        return np.asarray(np.isfinite(self.predictions.reshape(len(self.ids), -1)).all(axis=1))

    @property
    def decisions(self) -> list[str | float | None]:
        """The name of the likeliest class, or the number, row by row; None where there is no answer."""
        decided = self.task.decide(np.nan_to_num(self.predictions))
        named = [self.task.classes[one] if self.task.classes else float(one) for one in decided.tolist()]
        return [one if there else None for one, there in zip(named, self.answered.tolist(), strict=True)]


def scores_frame(scores: Scores) -> "DataFrame":
    """A table with a line for each id: what is predicted, how likely each class is, and how it came about."""
    import pandas

    columns: dict[str, object] = {"id": scores.ids, scores.task.label: scores.decisions}
    if scores.task.kind != "regression":
        shares = scores.probabilities
        columns |= {f"probability of {name}": shares[:, place] for place, name in enumerate(scores.task.classes)}
    columns |= {"answered by": scores.how, "parties": ["+".join(one) for one in scores.present]}
    return pandas.DataFrame(columns)
