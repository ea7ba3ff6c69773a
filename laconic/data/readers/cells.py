"""A column's cells as text, each different text once; and what such texts are as numbers, dates or levels."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow
import pyarrow.compute as pc

from laconic.values import Array

if TYPE_CHECKING:
    from pandas import Series


NO_VALUE = frozenset(
    {"na", "n/a", "n.a.", "nan", "nil", "null", "none", "unknown", "missing", "not available", "not known"}
    | {"k.a.", "-", "--", "---", "\u2013", "\u2014", "?", "??", ".", "..", "...", "#n/a", "#na", "#value!", "#null!"}
    | {"<na>", "nat", "not a number", "#div/0!", "#ref!", "#name?", "#num!"}
)
"""Texts that mean a missing cell among numbers or dates; among levels, `none` and `unknown` are levels."""

MARKS = frozenset(word for word in NO_VALUE if not any(letter.isalnum() for letter in word))
"""Those of them without letters or digits: a column of nothing else is empty."""


class Cells(NamedTuple):
    """A column of text.

    Attributes:
        words: each different text once, without white space around it, in the order in which they first occur.
        places: for each row, where in `words` its text is; -1 for a missing cell.
    """

    words: Any
    places: Array

    @property
    def counts(self) -> Array:
        """How many rows have each word."""
        return np.bincount(self.places[self.places >= 0], minlength=len(self.words))

    def first_row(self, which: Array) -> int:
        """The first row, counted from 0, that has one of the words that the mask chooses."""
        return int(np.append(which, False)[self.places].argmax())

    def word_at(self, row: int) -> str:
        """The text of a row that has one."""
        return str(self.words[int(self.places[row])])

    def spread(self, values: Array) -> Array:
        """A value for each row from one for each word; NaN where the cell is missing."""
        return np.append(np.asarray(values, dtype=np.float64), np.nan)[self.places]


def cells_of(series: "Series") -> Cells:
    """A column of any kind as text; empty text is a missing cell, and so is what pandas counts as missing."""
    whole = pc.dictionary_encode(pc.utf8_trim_whitespace(arrow_text(as_whole_numbers(series))))
    words, places = whole.dictionary, whole.indices.to_numpy(zero_copy_only=False)
    places = np.where(np.isnan(places), -1, places).astype(np.int64) if places.dtype.kind == "f" else places
    empty = pc.index(words, "").as_py()
    if empty >= 0:
        places = np.where(places == empty, -1, places - (places > empty))
        words = words.filter(pc.not_equal(words, ""))
    return Cells(words, places)


def arrow_text(series: "Series") -> Any:
    """A column as one Arrow array of text."""
    made = pyarrow.array(series.astype("string"), from_pandas=True)
    if isinstance(made, pyarrow.ChunkedArray):
        made = made.combine_chunks()
    return made.cast(pyarrow.large_string())


def plain_name(name: object) -> str:
    """A column's name as text without white space around it, each letter in the composed form of Unicode."""
    return unicodedata.normalize("NFC", str(name).strip())


def fold(word: str) -> str:
    """What words have in common that differ only in case, or in how Unicode writes a letter."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())


def one_spelling(words: Sequence[str], counts: Sequence[int]) -> dict[str, str]:
    """For each word how it is written: as the most frequent of those that `fold` makes the same, or the first."""
    found: dict[str, tuple[int, str]] = {}
    for word, count in zip(words, counts, strict=True):
        best = found.get(fold(word))
        if best is None or (-count, word) < (-best[0], best[1]):
            found[fold(word)] = (count, word)
    return {word: unicodedata.normalize("NFC", found[fold(word)][1]) for word in words}


def as_whole_numbers(series: "Series") -> "Series":
    """Whole floats as integers, as a file of text has them: a gap among them makes pandas keep 1 as 1.0."""
    from pandas.api import types

    if types.is_float_dtype(series.dtype):
        known = series.dropna()
        if bool(((known == np.floor(known)) & (np.abs(known) < 2**63)).all()):
            return series.astype("Int64")
    return series


def code_levels(series: "Series", levels: Sequence[str] | None = None) -> tuple[Array, tuple[str, ...]]:
    """A code for each cell, NaN for a missing one, and the levels the codes stand for.

    Args:
        series: cells of any kind; compared as text without white space around it, in whatever case; empty text is
            missing.
        levels: those of an earlier coding, for rows that come later; a level not among them gets the next code after
            them, which no recipe knows. None to take the levels found here, in sorted order.
    """
    return code_cells(cells_of(series), levels, "", [])


def code_cells(
    cells: Cells, levels: Sequence[str] | None, where: str, notes: list[str]
) -> tuple[Array, tuple[str, ...]]:
    """As `code_levels`, for cells at hand; a note begins with `where` if levels were written in several ways."""
    words: list[str] = cells.words.to_pylist()
    spelled = one_spelling(words, cells.counts.tolist())
    if levels is None:
        levels = sorted(set(spelled.values()))
        note_spellings(spelled, where, notes)
    codes = {fold(level): float(code) for code, level in reversed(list(enumerate(levels)))}
    exact = {level: float(code) for code, level in enumerate(levels)}
    coded = [exact.get(word, codes.get(fold(word), float(len(levels)))) for word in words]
    return cells.spread(np.array(coded)), tuple(levels)


def note_spellings(spelled: Mapping[str, str], where: str, notes: list[str]) -> None:
    """Note that some words differ from how they are now written in case alone."""
    times = Counter(spelled.values())
    joined = [(word, now) for word, now in spelled.items() if word != now and times[now] > 1]
    if joined:
        word, now = joined[0]
        more = f" ({len(joined)} such words)" if len(joined) > 1 else ""
        notes.append(
            f"{where}: {word!r} is taken as {now!r}, which differs in case or in spelling of letters only{more}"
        )


Decimal: TypeAlias = Literal[".", ","]
"""The sign before a fraction."""

_CODES = "EUR|USD|CHF|GBP|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|AUD|NZD|CAD|BRL|MXN|ZAR|SGD|HKD|TRY|ILS|KRW|RUB"
_CURRENCY = rf"(?:(?i:{_CODES})|(?:US|AU|CA|NZ)?\$|€|£|¥|₹|₽|₩|₺|₪|zł|kr\.?|Kč|Ft|Fr\.?|R\$)"
_SAME = {"€": "EUR", "$": "USD", "US$": "USD", "£": "GBP", "¥": "JPY", "FR": "CHF", "FR.": "CHF", "KR.": "KR"}
_SIGN, _EXPONENT = r"[+-]?", r"(?:[eE][+-]?\d+)?"


class Written(NamedTuple):
    """What the words of a column are as numbers, as far as each says by itself.

    Attributes:
        text: the words without currency, percent sign and groups by spaces or apostrophes.
        whole, point, comma, either: which words are whole numbers; have a point before the fraction for certain; have a
            comma there for certain; or could have either meaning. A word that is none of these is no number.
        percent: which words end in a percent sign.
        spaced: whether any has groups by spaces or apostrophes; then points and commas are before fractions.
        ungrouped: whether any has four digits or more without groups.
        currencies: all that occur.
    """

    text: Any
    whole: Array
    point: Array
    comma: Array
    either: Array
    percent: Array
    spaced: bool
    ungrouped: bool
    currencies: tuple[str, ...]

    @property
    def numbers(self) -> Array:
        """Which words are numbers."""
        found: Array = self.whole | self.point | self.comma | self.either
        return found

    @property
    def has_commas(self) -> bool:
        """Whether a comma occurs in any number."""
        return bool((_is(self.text, ",") & self.numbers).any())

    def decimal(self, counts: Array) -> Decimal | None:
        """What is before fractions, as far as the cells of this column say for certain; None if they do not."""
        points, commas = int(counts[self.point].sum()), int(counts[self.comma].sum())
        if points or commas:
            return "," if commas > points else "."
        return self._only_sign() if self.spaced else None

    def likely_decimal(self) -> Decimal | None:
        """What is before fractions if numbers without groups show that there are no groups at all."""
        return self._only_sign() if self.ungrouped else None

    def values(self, decimal: Decimal) -> Array:
        """Each word's number, with the sign before fractions where a word does not say; NaN for what is no number."""
        as_comma = self.comma | (self.either if decimal == "," else False)
        by_point = pc.replace_substring(self.text, ",", "")
        by_comma = pc.replace_substring(pc.replace_substring(self.text, ".", ""), ",", ".")
        text = pc.if_else(pyarrow.array(as_comma), by_comma, by_point)
        # 12.3 % is read as 12.3e-2: a division would round once more.
        hundredth = pyarrow.array(self.percent & ~_is(text, r"[eE]"))
        text = pc.if_else(hundredth, pc.replace_substring_regex(text, r"$", "e-2", max_replacements=1), text)
        text = pc.if_else(pyarrow.array(self.numbers), text, pyarrow.scalar(None, text.type))
        values = pc.cast(text, pyarrow.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
        late = self.percent & ~hundredth.to_numpy(zero_copy_only=False)
        return np.asarray(np.where(late, values / 100, values))

    def _only_sign(self) -> Decimal | None:
        commas = bool(_is(self.text, ",")[self.either].any())
        points = bool(_is(self.text, r"\.")[self.either].any())
        return None if commas == points else "," if commas else "."


def written(words: Any) -> Written:
    """Look at the different words of a column."""
    text = pc.replace_substring_regex(words, r"[\x{2212}\x{2013}\x{FE63}\x{FF0D}]", "-")
    text = pc.replace_substring_regex(text, r"[\x{A0}\x{202F}\x{2007}\x{2009}]", " ")
    text = pc.replace_substring_regex(text, r"[\x{2019}\x{2018}\x{02BC}]", "'")
    digits = _is(text, r"\d")
    money, currencies = _currencies(text, digits)
    text = pc.if_else(pyarrow.array(money), _without_currency(text), text)
    percent = _is(text, r"\d\s*%$")
    text = pc.if_else(pyarrow.array(percent), pc.replace_substring_regex(text, r"\s*%$", ""), text)
    bracketed = _is(text, r"^\(\s*\d.*\)$")
    if bracketed.any() and not _is(text, r"^-").any():
        text = pc.replace_substring_regex(text, r"^\(\s*(\d.*?)\s*\)$", r"-\1")
        text = pc.if_else(pyarrow.array(bracketed), _without_currency(text), text)
    ungrouped = bool(_is(text, rf"^{_SIGN}\d{{4,}}(?:[.,]\d*)?$").any())
    text, spaced = _without_spaces(text)
    either = _is(text, rf"^{_SIGN}[1-9]\d{{0,2}}[.,]\d{{3}}$")
    return Written(
        text=text,
        whole=_is(text, rf"^{_SIGN}\d+{_EXPONENT}$"),
        point=_certain(text, r"\.", ",") & ~either,
        comma=_certain(text, ",", r"\.") & ~either,
        either=either,
        percent=percent,
        spaced=spaced,
        ungrouped=ungrouped,
        currencies=currencies,
    )


def could_be_groups(words: Any) -> bool:
    """Whether plain numbers have points that could all be between groups of three digits: 1.234 and 12.345 and 7."""
    pointed = _is(words, r"[.eE]")
    return bool(pointed.any()) and bool(_is(words, rf"^{_SIGN}[1-9]\d{{0,2}}\.\d{{3}}$")[pointed].all())


def _certain(text: Any, decimal: str, group: str) -> Array:
    fraction = rf"(?:\d+{decimal}\d*|{decimal}\d+)"
    grouped = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+{decimal}\d*"
    several = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}}){{2,}}"
    return _is(text, rf"^{_SIGN}(?:{fraction}{_EXPONENT}|{grouped}|{several})$")


def _without_spaces(text: Any) -> tuple[Any, bool]:
    spaced = _is(text, rf"^{_SIGN}\s?\d{{1,3}}(?:(?: \d{{3}})+|(?:'\d{{3}})+)(?:[.,]\d*)?$")
    detached = _is(text, r"^[+-] \d")
    bare = pc.replace_substring_regex(text, r"[ ']", "")
    return pc.if_else(pyarrow.array(spaced | detached), bare, text), bool(spaced.any())


def _without_currency(text: Any) -> Any:
    text = pc.replace_substring_regex(text, rf"^([+-]?)\s*{_CURRENCY}\s*([+-]?)\s*", r"\1\2")
    text = pc.replace_substring_regex(text, rf"^(\(?)\s*{_CURRENCY}\s*", r"\1")
    return pc.replace_substring_regex(text, rf"\s*{_CURRENCY}(\)?)$", r"\1")


def _currencies(text: Any, digits: Array) -> tuple[Array, tuple[str, ...]]:
    before, after = rf"^\(?[+-]?\s*{_CURRENCY}\s*[+-]?\s*[\d.,]", rf"\d[.,]?\s*{_CURRENCY}\)?$"
    money = digits & (_is(text, before) | _is(text, after))
    if not money.any():
        return money, ()
    found = {re.search(_CURRENCY, word) for word, one in zip(text.to_pylist(), money, strict=True) if one}
    names = {match.group().upper() for match in found if match is not None}
    return money, tuple(sorted({_SAME.get(name, name) for name in names}))


def _is(text: Any, pattern: str) -> Array:
    found: Array = pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)
    return found.astype(bool)


DayOrder: TypeAlias = Literal["day_first", "month_first"]

_TIME = (
    r"(?:(?:T| |, )\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?(?: ?Z|(?: ?UTC)| ?[+-]\d{2}(?::?\d{2})?)?)?"
)
_YEAR_FIRST = rf"^\d{{4}}(?:-\d{{1,2}}-|/\d{{1,2}}/|\.\d{{1,2}}\.)\d{{1,2}}{_TIME}$"
_YEAR_LAST = rf"^\d{{1,2}}(?:-\d{{1,2}}-|/\d{{1,2}}/|\.\d{{1,2}}\.)\d{{4}}{_TIME}$"
_DAYS = 24 * 3600 * 1e6  # microseconds in one


class Dates(NamedTuple):
    """What the words of a column are as dates.

    Attributes:
        text: the words.
        year_first, year_last: which words are written so; none of both is no date.
        day, month: which of the latter have the day, or the month, first for certain.
    """

    text: Any
    year_first: Array
    year_last: Array
    day: Array
    month: Array

    @property
    def dates(self) -> Array:
        """Which words are written as dates."""
        found: Array = self.year_first | self.year_last
        return found

    def order(self, counts: Array) -> DayOrder | None:
        """Which is first, as far as this column's cells say; None if they do not."""
        days, months = int(counts[self.day].sum()), int(counts[self.month].sum())
        return None if days == months == 0 else "day_first" if days >= months else "month_first"

    @property
    def needs_order(self) -> bool:
        """Whether any word can be read both ways."""
        return bool((self.year_last & ~self.day & ~self.month).any())

    def days(self, order: DayOrder) -> Array:
        """Each word as days since 1970, a time as part of a day; NaN for what is no date, or none that there is."""
        import pandas

        # A word that can only be read one way is read so, whatever the others are.
        month_first = self.month | (False if order == "day_first" else self.year_last & ~self.day)
        text = pc.replace_substring_regex(self.text, r"^(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})", r"\1-\2-\3")
        text = pc.replace_substring_regex(text, r"^(\d)-", r"0\1-")
        text = pc.replace_substring_regex(text, r"^(\d+)-(\d)-", r"\1-0\2-")
        text = pc.replace_substring_regex(text, r"^(\d+-\d\d)-(\d)($|[T ,])", r"\1-0\2\3")
        turned = pc.replace_substring_regex(text, r"^(\d\d)-(\d\d)-(\d{4})", r"\3-\2-\1")
        american = pc.replace_substring_regex(text, r"^(\d\d)-(\d\d)-(\d{4})", r"\3-\1-\2")
        text = pc.if_else(pyarrow.array(month_first), american, pc.if_else(pyarrow.array(self.year_last), turned, text))
        text = _plain_times(text)
        text = pc.if_else(pyarrow.array(self.dates), text, pyarrow.scalar(None, text.type))
        moments = pandas.to_datetime(text.to_pandas(), format="ISO8601", errors="coerce", utc=True)
        return days_of(moments)


def looked_at(words: Any) -> Dates:
    """Look at the different words of a column."""
    year_last = _is(words, _YEAR_LAST)
    first = _number(words, r"^(?P<n>\d{1,2})[./-]", year_last)
    second = _number(words, r"^\d{1,2}[./-](?P<n>\d{1,2})[./-]", year_last)
    dotted = year_last & _is(words, r"^\d+\.")
    month = year_last & ~dotted & (second > 12) & (first <= 12)
    return Dates(words, _is(words, _YEAR_FIRST), year_last, dotted | (year_last & (first > 12)), month)


def days_of(moments: Any) -> Array:
    """Moments of pandas as days since 1970, NaN where missing; with a time zone, in UTC."""
    if moments.dt.tz is not None:
        moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    # Microseconds reach from the year 1 to 9999 and beyond; nanoseconds end in 2262.
    there = moments.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(there), np.nan, there.astype(np.int64) / _DAYS)


def _plain_times(text: Any) -> Any:
    """Times as ISO 8601 has them: two digits, a point, no words."""
    text = pc.replace_substring_regex(text, r"^(\d{4}-\d\d-\d\d)(?:, | )", r"\1T")
    text = pc.replace_substring_regex(text, r"T(\d):", r"T0\1:")
    text = pc.replace_substring_regex(text, r",(\d+)", r".\1")
    text = pc.replace_substring_regex(text, r" ?UTC$", "Z")
    if _is(text, r"[AaPp][Mm]").any():
        text = pyarrow.array([_by_24(word) for word in text.to_pylist()], text.type)
    return pc.replace_substring(text, " ", "")


def _by_24(word: str) -> str:
    match = re.fullmatch(r"(.*T)(\d\d)(:.*?) ?([AaPp])[Mm](.*)", word)
    if match is None:
        return word
    day, hour, rest, half, zone = match.groups()
    return f"{day}{int(hour) % 12 + (12 if half in 'pP' else 0):02d}{rest}{zone}"


def _number(words: Any, pattern: str, where: Array) -> Array:
    found = pc.struct_field(pc.extract_regex(words, pattern), [0])
    numbers = pc.cast(pc.if_else(pyarrow.array(where), found, pyarrow.scalar("0", found.type)), pyarrow.int64())
    return np.asarray(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False))
