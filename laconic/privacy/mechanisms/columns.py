"""Sums of columns that can be added up over parties and bear noise: of cells cut at bounds that were said beforehand.

By them parties with other rows agree on how columns, and a label of numbers, are scaled.
"""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from laconic.core.ledger import Noise, Noised
from laconic.core.party import Party
from laconic.errors import DataError
from laconic.privacy.mechanisms.sums import IN_SUM
from laconic.privacy.private_sgd import UNIT
from laconic.privacy.randomness import randomness_from
from laconic.tables.columns import Column
from laconic.tables.table import Table
from laconic.tables.task import LabelScale
from laconic.values import Array, Settings

Bounds = tuple[float, float]
"""The least and the greatest that a cell is taken to be."""

DATES: Bounds = (-25_567.0, 47_482.0)
"""Days since 1970 of the years 1900 to 2099: the bounds of dates, unless others are said."""

_CAVEAT = (
    "covers the sums of columns, and of a label of numbers, and how they are scaled by these; not covered: the names "
    "of columns, of levels and of classes, and which of them a party has; noise is in floating point; exchanging a row "
    "for another costs up to twice, at a larger delta"
)


class Linear(NamedTuple):
    """Sums over rows: how many there are, and of each column and of the label how many are known, and their powers.

    Attributes:
        rows: how many rows.
        columns: for each column how many cells are known, the sum and the sum of squares of what they are between
            their bounds, from -1 to 1, and how many are 0; shape (columns, 4). Of levels, only how many are known.
        label: how many labels are known, their sum and their sum of squares, likewise; all 0 for classes.
    """

    rows: float
    columns: Array
    label: Array

    def plain(self) -> dict[str, float | Array]:
        """By name, as it crosses."""
        return {"rows": self.rows, "columns": self.columns, "label": self.label}


class ColumnBounds(Settings, frozen=True, tag=False):
    """Between which numbers the cells of columns, and labels, are taken to be; they must not be read off the rows.

    Attributes:
        columns: by the name of the column. Dates are in days since 1970, and need none.
        label: of a label that is a number.
    """

    columns: dict[str, Bounds] = {}  # noqa: RUF012 (msgspec copies it)
    label: Bounds | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that leave nothing between them."""
        named = self.columns | ({} if self.label is None else {"the label": self.label})
        for name, (low, high) in named.items():
            if not -inf < low < high < inf:
                raise ValueError(f"the bounds of {name} must be two numbers that rise, not {low} and {high}")

    def of(self, column: Column) -> Bounds | None:
        """Those of a column; None for levels, which need none.

        Raises:
            DataError: nobody said them.
        """
        if column.kind == "categorical":
            return None
        usual = DATES if column.prepare == "date" else None
        found = self.columns.get(column.name, usual)
        if found is None:
            raise DataError(
                f"column {column.name!r} holds numbers, and noise or masks on its sums need the least and the greatest "
                f"that they can be, which must not be read off the rows: say such as --set "
                f"data.agree.bounds.columns.{column.name}=[0,100]"
            )
        return found

    def of_label(self, name: str) -> Bounds:
        """Those of a label of numbers."""
        if self.label is None:
            raise DataError(
                f"label {name!r} is a number, and noise or masks on its sums need the least and the greatest that it "
                "can be, which must not be read off the rows: say such as --set data.agree.bounds.label=[0,100]"
            )
        return self.label

    def sums(self, table: Table, columns: Sequence[Column], label: str | None) -> Linear:
        """The sums of a party's training rows, in the order of the columns agreed on; of a column it lacks, none.

        Args:
            label: its name if it is a number; None adds up no labels.
        """
        at, own = table.cut("train"), {column.name: place for place, column in enumerate(table.columns)}
        found = np.zeros((len(columns), 4))
        for number, column in enumerate(columns):
            if column.name in own:
                found[number] = _powers(table.raw[at, own[column.name]], self.of(column))
        labels = np.zeros(3)
        if label is not None and table.y is not None and table.task is not None:
            labels[:] = _powers(table.task.amounts(table.y[at].astype(np.float64)), self.of_label(label))[:3]
        return Linear(float(len(at)), found, labels)

    def sensitivity(self, columns: Sequence[Column], label: str | None) -> float:
        """How far one row, there or not, moves all sums together (L2): exactly, by the row that moves them furthest.

        A row adds 1 to the rows, and to a column 1, z, z^2, and 1 if its cell is 0, where z is from -1 to 1. That is
        furthest at an end or at 0, the only place with the last 1: the square is the greatest of 1 + z^2 + z^4 at
        an end, which is 3, and of the same at 0 with 1 more. To the label it adds 1, t and t^2, 3 at most.
        """
        square = 1.0
        for column in columns:
            bounds = self.of(column)
            square += 1.0 if bounds is None else max(3.0, 2.0 + _between(0.0, bounds) ** 2 + _between(0.0, bounds) ** 4)
        return sqrt(square + (0.0 if label is None else 3.0))

    def moments(self, total: Linear, columns: Sequence[Column], noise: float) -> Array:
        """What `laconic.data.schema_agreement.SUMS` names, for each column, of all rows together.

        Args:
            noise: the standard deviation of the noise on each number; 0 for none.
        """
        found = []
        for column, one in zip(columns, total.columns, strict=True):
            bounds = self.of(column)
            rows, known = _counts(total.rows, float(one[0]), noise)
            if bounds is None or known == 0:
                found.append((rows, known, 0.0, 0.0, 0.0))
                continue
            mean, spread = _mean_and_spread(one[:3], known, bounds, noise)
            # Where noise alone may be why nearly all cells seem to be 0, none counts as 0.
            zeros = float(one[3]) if known - float(one[3]) > 5 * noise else 0.0 if noise else known
            found.append((rows, known, mean, known * spread**2, max(zeros, 0.0)))
        return np.array(found, dtype=np.float64).reshape(-1, 5)

    def scale(self, total: Linear, label: str, noise: float) -> LabelScale | None:
        """The mean and the spread of a label of numbers; None if no row has one."""
        known = _counts(total.rows, float(total.label[0]), noise)[1]
        if known == 0:
            return None
        mean, spread = _mean_and_spread(total.label, known, self.of_label(label), noise)
        # Labels that are all the same have no spread; 1 stands for it, as where one party learns alone.
        return LabelScale(mean, spread if spread > 0 else 1.0)


class GaussianColumns(Settings, frozen=True):
    """Gaussian noise on the sums of columns by which parties agree, as one release of known sensitivity.

    Names of columns, of levels and of classes bear no noise: have parties read them from a schema if that is too much.

    Attributes:
        sigma: standard deviation of the noise, in units of how far one row moves all sums together (see
            `ColumnBounds.sensitivity`); None to have it worked out from a budget.
        share: of a budget, the share that is for agreeing, in units of squared loss; what is left is for learning.
        seeded: take the noise from the run's seed, for studies; see `DpSgd`.
    """

    sigma: float | None = None
    share: float = 0.1
    seeded: bool = False

    def __post_init__(self) -> None:
        """Refuse noise that is none, and shares that leave nothing."""
        if self.sigma is not None and not 0 < self.sigma < inf:
            raise ValueError(f"sigma must be above 0, not {self.sigma}; leave it out to have a budget decide")
        if not 0 < self.share < 1:
            raise ValueError(f"share is a part of the budget above 0 and below 1, not {self.share}")

    def release(
        self, sums: Linear, sensitivity: float, party: Party, share: float = 1.0
    ) -> Noised[dict[str, float | Array]]:
        """Sums under noise, ready to leave a party.

        With a `share` below 1 they bear less noise than they need: only for a secure sum, in which others add the rest.
        """
        numbers = np.concatenate([[sums.rows], sums.columns.ravel(), sums.label])
        drawn = randomness_from(party.rng, self.seeded, numbers).normal(numbers.size).numpy().astype(np.float64)
        noisy = numbers + drawn * (share * self.scale(sensitivity))
        end = 1 + sums.columns.size
        parts = Linear(float(noisy[0]), noisy[1:end].reshape(sums.columns.shape), noisy[end:])
        return Noised(parts.plain(), self.words(sensitivity, in_sum=share != 1.0))

    def scale(self, sensitivity: float) -> float:
        """The standard deviation of the noise on each number."""
        return self.needed_sigma() * sensitivity

    def words(self, sensitivity: float, *, in_sum: bool) -> Noise:
        """The noise as ledgers write it down."""
        return Noise(
            mechanism="gaussian",
            scale=self.scale(sensitivity),
            sensitivity=sensitivity,
            unit=UNIT,
            caveat=f"{_CAVEAT}; {IN_SUM}" if in_sum else _CAVEAT,
            secure=not self.seeded,
        )

    def with_sigma(self, sigma: float) -> "GaussianColumns":
        """The same with this noise."""
        return replace(self, sigma=sigma)

    def needed_sigma(self) -> float:
        """The multiplier of the noise; an error if nobody decided."""
        if self.sigma is None:
            raise ValueError("agree.noise has no sigma; say data.agree.noise.sigma, or budget.epsilon to work it out")
        return self.sigma


def add_up(parts: Mapping[str, Linear]) -> Linear:
    """The sums over all parties' rows."""
    rows, columns, label = zip(*parts.values(), strict=True)
    return Linear(float(sum(rows)), np.sum(columns, axis=0), np.sum(label, axis=0))


def _powers(cells: Array, bounds: Bounds | None) -> tuple[float, float, float, float]:
    known = cells[~np.isnan(cells)]
    if bounds is None:
        return float(len(known)), 0.0, 0.0, 0.0
    z = _between(known, bounds)
    return float(len(known)), float(z.sum()), float((z**2).sum()), float((known == 0).sum())


def _between(cells: Array | float, bounds: Bounds) -> Array:
    low, high = bounds
    return np.asarray((np.clip(cells, low, high) - (low + high) / 2) / ((high - low) / 2))


def _counts(rows: float, known: float, noise: float) -> tuple[float, float]:
    """How many rows there are and know a column; all of them if noise alone may be why they are not the same."""
    rows, known = (max(one, 1.0) if noise else one for one in (rows, known))
    return (known, known) if rows - known < 5 * noise or rows < known else (rows, known)


def _mean_and_spread(powers: Array, known: float, bounds: Bounds, noise: float) -> tuple[float, float]:
    half, middle = (bounds[1] - bounds[0]) / 2, (bounds[1] + bounds[0]) / 2
    if known <= 3 * noise:  # Noise says more than the rows: what lies between the bounds is all that is known.
        return middle, half
    mean = float(np.clip(powers[1] / known, -1, 1))
    # What noise may have put there or taken away is no spread; and rounding is none where there is no noise.
    least = noise / known if noise else 1e-12
    square = float(powers[2] / known) - mean**2
    if square < least:
        square = least if noise else 0.0
    return mean * half + middle, half * sqrt(square)
