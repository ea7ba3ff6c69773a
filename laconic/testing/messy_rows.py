"""The rows of a messy federation: true cells, labels that depend on them, who has which rows, and files of them.

Every file writes numbers, dates, true and false, and names in one notation, as a program exports it.
"""

import csv
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas
from pandas import DataFrame, Series

from laconic.values import Array, Rng, Settings

if TYPE_CHECKING:
    from laconic.testing.messy import FileStyle, MessyColumn, MessyFederation, MessyParty


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


NEW_ROWS = 12
UNSEEN = "never seen"
"""A level that only new rows have."""

RARE = "rare"
"""A level that a single row has, at one party."""

_AMBIGUOUS = ("day_first", "month_first")
_MOSTLY = 0.95
_NOISE = 0.3


@lru_cache(maxsize=8)
def build(federation: "MessyFederation", *, new: bool) -> Truth:
    """All parties' rows; `new` for rows to predict."""
    return (_columns_apart if federation.kind == "vertical" else _rows_apart)(federation, new=new)


def _columns_apart(federation: "MessyFederation", *, new: bool) -> Truth:
    rng = np.random.default_rng([federation.seed, 1 + new])
    count = NEW_ROWS if new else federation.rows
    latent = {party.name: rng.normal(size=(count, len(party.columns))) for party in federation.parties}
    label = _labels(federation, [(party, latent[party.name]) for party in federation.parties], rng, new=new)
    people = (federation.rows if new else 0) + np.arange(count)
    ids = [federation.id_form.format(person) for person in people.tolist()]
    parties = {}
    for place, party in enumerate(federation.parties):
        columns = {
            column.name: _cells(column, latent[party.name][:, at], rng, new=new)
            for at, column in enumerate(party.columns)
        }
        whole = PartyTruth(ids, columns, label if place == 0 else None)
        parties[party.name] = _as_in_file(party, whole.take(_kept(party, count, rng, new=new)), rng)
    shared = set.intersection(*(set(party.ids) for party in parties.values()))
    return Truth(parties, None, tuple(sorted(shared)))


def _rows_apart(federation: "MessyFederation", *, new: bool) -> Truth:
    rng = np.random.default_rng([federation.seed, 1 + new])
    parties = {}
    share = max(NEW_ROWS if new else federation.rows // len(federation.parties), 5)
    for place, party in enumerate(federation.parties):
        count = share if new else max(5, int(share * party.keeps))
        parties[party.name] = _as_in_file(party, _horizontal_rows(federation, party, place, count, rng, new=new), rng)
    public = None
    if federation.public and not new:
        shown = _horizontal_rows(federation, federation.parties[0], -1, max(30, federation.rows // 4), rng, new=False)
        public = PartyTruth(shown.ids, shown.columns, None)
    return Truth(parties, public, ())


def _horizontal_rows(
    federation: "MessyFederation", party: "MessyParty", place: int, count: int, rng: Rng, *, new: bool
) -> PartyTruth:
    latent = rng.normal(size=(count, len(party.columns)))
    columns = {}
    for at, column in enumerate(party.columns):
        cells = _cells(column, latent[:, at], rng, new=new)
        if place > 0 and column.trait == "level" and not new:
            # A level that this party alone has.
            cells.values[(latent[:, at] > 1.5) & ~cells.missing] = f"only at {place}"
        if place and column.trait == "rare level":
            cells.values[cells.values == RARE] = column.words[0]
        columns[column.name] = cells
    label = _labels(federation, [(party, latent)], rng, new=new)
    # Neighbours share people where ids say so.
    first = (federation.rows * 10 if new else 0) + max(place, 0) * count * 3 // 4
    ids = [federation.id_form.format(person) for person in range(first, first + count)]
    return PartyTruth(ids, columns, label)


def _labels(
    federation: "MessyFederation", latent: "list[tuple[MessyParty, Array]]", rng: Rng, *, new: bool
) -> CellTruth:
    """Labels that depend on columns of every party, and a little on nothing."""
    score = np.zeros(len(latent[0][1]))
    for party, block in latent:
        score += block @ np.array([column.weight for column in party.columns])
    score = score / (np.sqrt(sum(column.weight**2 for party, _ in latent for column in party.columns)) or 1.0)
    score += _NOISE * rng.normal(size=len(score))
    if federation.label_kind == "quantity":
        return CellTruth("number", np.round(1200 + 350 * score, 2))
    few = len(federation.classes) - 1
    edges = [federation.skew + (1 - federation.skew) * at / few for at in range(few)]
    places = np.searchsorted([_normal_quantile(edge) for edge in edges], score)
    if not new:
        # Every class is there at least twice, however few rows there are.
        order = np.argsort(-score, kind="stable")
        for place in range(1, len(federation.classes)):
            places[order[2 * (few - place) : 2 * (few - place) + 2]] = place
    return CellTruth("level", np.array(federation.classes, dtype=object)[places])


def _normal_quantile(share: float) -> float:
    return NormalDist(sigma=float(np.sqrt(1 + _NOISE**2))).inv_cdf(min(share, 0.999))


def _cells(column: "MessyColumn", latent: Array, rng: Rng, *, new: bool) -> CellTruth:
    """A column's true cells; those that numbers are written from, to the digits that are written."""
    if column.trait in ("boolean", "level", "rare level", "unique"):
        cells = CellTruth("boolean" if column.trait == "boolean" else "level", _words(column, latent, new=new))
        gap: object = None
    else:
        cells = CellTruth("date" if column.trait == "date" else "number", _numbers(column, latent))
        gap = np.nan
    share = {"mostly missing": _MOSTLY, "empty": 1.0}.get(column.trait, column.missing)
    cells.values[rng.random(len(latent)) < share] = gap
    return cells


def _numbers(column: "MessyColumn", latent: Array) -> Array:
    if column.trait in ("huge", "beyond", "tiny"):
        scale = {"huge": 1e13, "beyond": 1e298, "tiny": 1e-12}[column.trait]
        return np.array([float(f"{one:.6g}") for one in (latent * scale).tolist()])
    if column.trait == "constant":
        return np.full(len(latent), 7.5)
    centre, spread, digits = {
        "negative": (-50.0, 20.0, 2),
        "integer": (40.0, 12.0, 0),
        "grouped": (5e6, 3e6, 0),
        "money": (1500.0, 900.0, 2),
        "date": (15000.0, 400.0, 0),
    }.get(column.trait, (10.0, 4.0, 2))
    numbers = np.round(centre + spread * latent, digits)
    # 1.234.567 can be read in one way only, 1.234 in two.
    return np.asarray(np.maximum(numbers, 1e6) if column.trait == "grouped" else numbers)


def _words(column: "MessyColumn", latent: Array, *, new: bool) -> Array:
    if column.trait == "unique":
        return np.array([f"name {abs(one):.9f}" for one in latent.tolist()], dtype=object)
    if column.trait == "boolean":
        return np.asarray(np.array(column.words, dtype=object)[(latent < 0).astype(int)])
    edges = [_normal_quantile(at / len(column.words)) for at in range(1, len(column.words))]
    words: Array = np.array(column.words, dtype=object)[np.searchsorted(edges, latent)]
    if column.trait == "rare level":
        # One row alone has it: often one of those that are held out.
        words[len(words) // 2] = RARE
    if new:
        words[0] = UNSEEN
    return words


def _kept(party: "MessyParty", count: int, rng: Rng, *, new: bool) -> Array:
    """The people whom a party has rows of, shuffled."""
    there = np.arange(count) if new else np.flatnonzero(rng.random(count) < party.keeps)
    return np.asarray(rng.permutation(there if len(there) else np.arange(1)))


def _as_in_file(party: "MessyParty", truth: PartyTruth, rng: Rng) -> PartyTruth:
    """The rows with dates that cannot be read in two ways, and with those that come again."""
    if party.style.dates in _AMBIGUOUS:
        for cells in truth.columns.values():
            known = np.flatnonzero(~cells.missing)
            if cells.kind == "date" and len(known):
                cells.values[known[0]] = decisive_days(cells.values[known[0]])
    count = len(truth.ids)
    if party.duplicates != "none":
        again = rng.permutation(count)[: max(1, count // 20)]
        truth = truth.take(np.concatenate([np.arange(count), again]))
        if party.duplicates == "other":
            _change(truth, count, rng)
    return truth


def _change(truth: PartyTruth, first: int, rng: Rng) -> None:
    """Give rows that come again other numbers than the first time."""
    for cells in truth.columns.values():
        if cells.kind == "number":
            cells.values[first:] = rng.permutation(cells.values[:first])[: len(cells.values) - first]


_FOLDED = {word for pair in FOLDED for word in pair}


def write_files(federation: "MessyFederation", folder: Path, *, new: bool) -> dict[str, Path]:
    """Write each party's file, and return the paths by party."""
    truth = federation.new_truth if new else federation.truth
    paths = {}
    for party in federation.parties:
        path = folder / f"{party.name}{'-new' if new else ''}.{party.style.format}"
        _write(federation, party, truth.parties[party.name], path)
        paths[party.name] = path
    return paths


def write_public(federation: "MessyFederation", folder: Path) -> Path | None:
    """Write the rows that everybody may see, as the first party writes files; None if there are none."""
    shown, first = federation.truth.public, federation.parties[0]
    if shown is None:
        return None
    path = folder / f"open rows.{first.style.format}"
    _write(federation, first, shown, path)
    return path


def frame_of(federation: "MessyFederation", party: "MessyParty", truth: PartyTruth) -> DataFrame:
    """A party's rows as a DataFrame: of numbers, dates and booleans, or all of text as its file would have it."""
    return _frame(federation, party, truth, typed=party.style.typed, plain_dates=False)


def _write(federation: "MessyFederation", party: "MessyParty", truth: PartyTruth, path: Path) -> None:
    style = party.style
    if style.format == "parquet":
        frame = _frame(federation, party, truth, typed=style.typed, plain_dates=style.dates == "iso")
        frame.to_parquet(path, index=False)
        return
    frame = _frame(federation, party, truth, typed=False, plain_dates=False)
    texts = frame.map(lambda cell: style.empty if cell is None else str(cell))
    (texts.map(" {} ".format) if style.padded else texts).to_csv(
        path,
        index=False,
        sep=style.delimiter,
        lineterminator=style.line_end,
        # In a file of one column nothing else says what the delimiter is.
        quoting=csv.QUOTE_ALL if style.quoted or texts.shape[1] == 1 else csv.QUOTE_MINIMAL,
        encoding="utf-8-sig" if style.bom else "utf-8",
    )


def _frame(
    federation: "MessyFederation", party: "MessyParty", truth: PartyTruth, *, typed: bool, plain_dates: bool
) -> DataFrame:
    found: dict[str, Series] = {}
    if federation.id is not None:
        whole = typed and federation.id_form == "{}"
        found[federation.id] = pandas.Series([int(key) for key in truth.ids] if whole else truth.ids)
    described = {column.name: column for column in party.columns}
    # Parties with the same columns have them in different orders.
    for name in sorted(truth.columns, reverse=federation.parties.index(party) % 2 == 1):
        column, cells = described[name], truth.columns[name]
        # True at one party and yes at another would be two words for one thing.
        fits = typed and not (cells.kind == "boolean" and federation.kind == "horizontal")
        found[name] = _typed(column, cells, plain_dates) if fits else _spelt(column, cells, party.style)
    if truth.label is not None:
        found[federation.label] = _label(federation, truth.label, party.style, typed=typed)
    return pandas.DataFrame(found)


def _typed(column: "MessyColumn", cells: CellTruth, plain_dates: bool) -> Series:
    """A column with the types that a program would keep it in."""
    if cells.kind == "number":
        return pandas.Series(cells.values).astype("Int64" if column.trait == "integer" else "float64")
    if cells.kind == "date":
        days = [None if gap else as_date(one) for one, gap in zip(cells.values, cells.missing, strict=True)]
        return pandas.Series(days, dtype=object) if plain_dates else pandas.to_datetime(pandas.Series(days))
    if cells.kind == "boolean":
        return pandas.Series([None if one is None else one == column.words[0] for one in cells.values], dtype="boolean")
    return pandas.Series(cells.values, dtype="category" if column.trait == "level" else object)


def _spelt(column: "MessyColumn", cells: CellTruth, style: "FileStyle") -> Series:
    """A column as text, None where missing."""
    pairs = enumerate(zip(cells.values.tolist(), cells.missing.tolist(), strict=True))
    texts = [None if gap else _spell(column, one, style, row) for row, (one, gap) in pairs]
    return pandas.Series(texts, dtype=object)


def _spell(column: "MessyColumn", value: float | str, style: "FileStyle", row: int) -> str:
    if isinstance(value, str):
        return spell_word(value, style.case, row) if column.trait == "boolean" and value in _FOLDED else value
    numbers = style.numbers
    if column.trait == "date":
        return spell_date(value, style.dates)
    if column.trait in ("huge", "beyond", "tiny"):
        return numbers.scientific(value)
    if column.trait == "money":
        return numbers.money(value)
    if column.trait == "integer":
        return numbers.fixed(value, 1 if style.quoted else 0)
    return numbers.fixed(value, 0 if column.trait == "grouped" else 2)


def _label(federation: "MessyFederation", cells: CellTruth, style: "FileStyle", *, typed: bool) -> Series:
    kind = federation.label_kind
    if typed and kind in ("quantity", "decimals"):
        return pandas.Series(cells.values.astype(float))
    if typed and kind == "numbers":
        return pandas.Series(cells.values.astype(int))
    if kind in ("quantity", "decimals"):
        digits = 2 if kind == "quantity" else 1
        return pandas.Series([style.numbers.fixed(float(one), digits) for one in cells.values], dtype=object)
    folded = kind == "words" and set(federation.classes) <= _FOLDED
    texts = [spell_word(one, style.case, row) if folded else one for row, one in enumerate(cells.values)]
    return pandas.Series(texts, dtype=object)
