"""What the ids in one key column look like, counted batch by batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from laconic.core.values import Array

if TYPE_CHECKING:
    from pandas import Series

PATTERNS = {
    "digits": r"^\d+$",
    "leading zero": r"^0\d+$",
    "upper case": r"[A-Z]",
    "lower case": r"[a-z]",
    "space inside": r"\S\s+\S",
    "point zero": r"^\d+\.0+$",
    "rounded": r"^\d(?:\.\d+)?[eE]\+?\d+$",
    "iso": r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?$",
    "day_first": r"^(?:1[3-9]|2\d|3[01])[./]\d{1,2}[./]\d{4}",
    "month_first": r"^\d{1,2}[./](?:1[3-9]|2\d|3[01])[./]\d{4}",
    "either first": r"^\d{1,2}[./]\d{1,2}[./]\d{4}",
}
"""Forms of ids that matter when two parties' ids are compared, as regular expressions on text without outer space."""


class Tally:
    """Counts of forms, with one example of each, and the shortest and longest id.

    Attributes:
        rows: cells seen. empty: cells without an id.
        counts, examples: by form, and for `space around`.
    """

    def __init__(self) -> None:
        self.rows = self.empty = 0
        self.counts: dict[str, int] = dict.fromkeys((*PATTERNS, "space around"), 0)
        self.examples: dict[str, str] = {}
        self.shortest, self.longest = 10**9, 0

    @property
    def known(self) -> int:
        """Cells with an id."""
        return self.rows - self.empty

    def add(self, series: "Series") -> None:
        """Count one batch."""
        given = series.astype("string").fillna("")
        text = given.str.strip()
        self.rows += len(text)
        known = text != ""
        self.empty += int((~known).sum())
        self._count("space around", (given != text) & known, given)
        for form, pattern in PATTERNS.items():
            self._count(form, text.str.contains(pattern, regex=True), text)
        if known.any():
            lengths = text[known].str.len()
            self.shortest = min(self.shortest, int(lengths.min()))
            self.longest = max(self.longest, int(lengths.max()))

    def _count(self, form: str, matches: "Series", text: "Series") -> None:
        found = matches.to_numpy(dtype=bool)
        self.counts[form] += int(found.sum())
        if found.any() and form not in self.examples:
            self.examples[form] = str(text.iloc[int(found.argmax())])


class Repeats:
    """Which ids occur more than once, by short digests: a million ids take eight megabytes."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def add(self, ids: Array) -> None:
        """Take one batch; empty ids are left out."""
        from pandas.util import hash_array

        self._parts.append(hash_array(ids[ids != ""].astype(object), categorize=False))

    @property
    def different(self) -> int:
        """How many different ids there are."""
        return len(np.unique(np.concatenate(self._parts))) if self._parts else 0

    def repeated(self) -> Array:
        """The digests of ids that occur more than once."""
        digests, times = np.unique(np.concatenate(self._parts), return_counts=True)
        return np.asarray(digests[times > 1])


def examples_of(digests: Array, batches: Iterator[Array], most: int = 3) -> list[str]:
    """A few ids that have these digests, from a second reading."""
    from pandas.util import hash_array

    found: dict[str, None] = {}
    for ids in batches:
        known = ids[ids != ""].astype(object)
        found |= dict.fromkeys(known[np.isin(hash_array(known, categorize=False), digests)][: 10 * most].tolist())
        if len(found) >= most:
            break
    return list(found)[:most]
