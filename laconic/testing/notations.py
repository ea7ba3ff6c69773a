"""How users' files write numbers, dates, true and false, and names: one notation per file, as a program exports it."""

from datetime import date, timedelta
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from laconic.values import Array, Settings

DateNotation: TypeAlias = Literal["iso", "dotted", "day_first", "month_first"]
"""2013-01-31, 31.01.2013, 31/01/2013 or 01/31/2013."""

Case: TypeAlias = Literal["lower", "upper", "title", "mixed"]

_DATES = {"iso": "%Y-%m-%d", "dotted": "%d.%m.%Y", "day_first": "%d/%m/%Y", "month_first": "%m/%d/%Y"}
_EPOCH = date(1970, 1, 1)

FOLDED = (("yes", "no"), ("true", "false"), ("y", "n"))
"""Words for true and false that are read the same in upper and lower case."""

BOOLEANS = (*FOLDED, ("ja", "nein"), ("oui", "non"), ("wahr", "falsch"), ("sí", "no"), ("on", "off"))
"""Words for true and false."""

LEVELS = {
    "plain": ("red", "green", "blue", "grey"),
    "unicode": ("Zürich", "Kraków", "São Paulo", "東京", "Ñuñoa"),
    "punctuated": ("a,b", 'say "hi"', "x;y|z", "two\nlines", "it's"),
    "bands": ("10-19", "20-29", "30-39", "40+"),
    "codes": ("A1", "B2", "C3", "0D4"),
}
"""Levels of categories, by what is awkward about them."""


class NumberNotation(Settings, frozen=True, tag=False):
    """How a file writes numbers; `before` is whether a currency stands before the amount."""

    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "\u202f", "'"] = ""
    currency: str = "€"
    before: bool = True

    def __post_init__(self) -> None:
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}; choose another for one of them")

    def fixed(self, value: float, digits: int) -> str:
        """A number with so many digits after the point.

        Example:
            >>> NumberNotation(decimal=",", thousands=".").fixed(-1234.5, 2)
            '-1.234,50'
        """
        signs = str.maketrans({",": self.thousands, ".": self.decimal})
        return f"{value:,.{digits}f}".translate(signs)

    def scientific(self, value: float) -> str:
        """A number as short as it can be written, with an exponent where it is far from 1."""
        return repr(value).replace(".", self.decimal)

    def money(self, value: float) -> str:
        """An amount with its currency; a minus stands before both."""
        amount, minus = self.fixed(abs(value), 2), "-" if value < 0 else ""
        gap = " " if len(self.currency) > 1 else ""
        return f"{minus}{self.currency}{gap}{amount}" if self.before else f"{minus}{amount} {self.currency}"


def spell_date(days: float, notation: DateNotation) -> str:
    """A number of days since 1970 as a date."""
    return as_date(days).strftime(_DATES[notation])


def as_date(days: float) -> date:
    """A number of days since 1970 as Python's own date."""
    return _EPOCH + timedelta(days=int(days))


def decisive_days(days: float) -> float:
    """The same date, or one later in its month where the day could be read as a month."""
    return days if as_date(days).day > 12 else days + 13


def spell_word(word: str, case: Case, row: int) -> str:
    """A word in the case that a file uses; `mixed` goes through all of them by row."""
    ways = {"lower": word.lower(), "upper": word.upper(), "title": word.title()}
    return list(ways.values())[row % len(ways)] if case == "mixed" else ways[case]


CellKind: TypeAlias = Literal["number", "date", "boolean", "level"]


class CellTruth(NamedTuple):
    """One column's true cells.

    Attributes:
        kind: `number` and `date` (days since 1970) are floats, NaN where missing; `boolean` and `level` are text, None
            where missing.
        values: one per row of the file.
    """

    kind: CellKind
    values: Array

    @property
    def missing(self) -> Array:
        """Which cells are missing."""
        if self.kind in ("number", "date"):
            return np.isnan(self.values.astype(np.float64))
        return np.array([value is None for value in self.values], dtype=bool)

    def take(self, rows: Array) -> "CellTruth":
        """Some rows, in another order."""
        return CellTruth(self.kind, self.values[rows])


class PartyTruth(NamedTuple):
    """One party's rows in the order of its file.

    Attributes:
        ids: who each row is about, as text.
        columns: by name, without id and label.
        label: the true labels; None at a party without.
    """

    ids: list[str]
    columns: dict[str, CellTruth]
    label: CellTruth | None

    def take(self, rows: Array) -> "PartyTruth":
        """Some rows, in another order."""
        columns = {name: cells.take(rows) for name, cells in self.columns.items()}
        label = None if self.label is None else self.label.take(rows)
        return PartyTruth([self.ids[row] for row in rows], columns, label)


class Truth(NamedTuple):
    """All parties' rows.

    Attributes:
        parties: by name.
        public: rows that everybody may see; None if there are none.
        shared: the ids that every party has; empty where parties have other rows.
    """

    parties: dict[str, PartyTruth]
    public: PartyTruth | None
    shared: tuple[str, ...]
