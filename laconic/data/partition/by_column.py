"""Rows parted by a column rather than at random: the last in time are scored on, or groups stay together.

At random, rows of one household or of one day end up on both sides, and a model is scored on what it has nearly seen.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laconic.data.partition.columns import seeds_to_try, sides_with_classes
from laconic.data.readers.columns import ColumnReader, delimiter_of, look_at
from laconic.errors import DataError
from laconic.tables.table import Parting
from laconic.values import Array, Rng

if TYPE_CHECKING:
    from pandas import DataFrame

_SIDES = ("train", "valid", "test")


class PartBy(NamedTuple):
    """The column by which rows are parted, and whether it is time or a group."""

    column: str
    in_time: bool

    @property
    def setting(self) -> str:
        """How it is set on the command line."""
        return "--split-by" if self.in_time else "--group"


def part_by(split_by: str | None, group: str | None) -> PartBy | None:
    """The column to part rows by, if one was named; None for rows parted at random."""
    if split_by is not None and group is not None:
        raise DataError(
            f"rows can be parted by time (split_by {split_by!r}) or by group (group {group!r}), not by both; leave one"
        )
    if split_by is None and group is None:
        return None
    return PartBy(split_by or group or "", split_by is not None)


def read_parting(party: str, frame: "DataFrame", by: PartBy, notes: list[str]) -> Parting:
    """What a party's rows are parted by: a number for each, the same for rows that belong together.

    Raises:
        DataError: the party has no such column, or it holds names where times are needed.
    """
    if by.column not in frame.columns:
        raise DataError(
            f"party {party!r} has no column {by.column!r} to part rows by ({by.setting}); its columns are "
            f"{', '.join(map(str, frame.columns[:20]))}"
        )
    look = look_at(frame[by.column])
    if not by.in_time:
        places = look.cells.places.astype(np.float64)
        missing = places < 0
        places[missing] = -1.0 - np.arange(missing.sum())
        if missing.any():
            notes.append(
                f"{party}, column {by.column!r}: {int(missing.sum())} rows have no group; each is a group of its own"
            )
        return Parting(places, in_time=False)
    if look.kind == "categorical":
        raise DataError(
            f"party {party!r}, column {by.column!r}: it holds names, not dates or numbers, so that none is later than "
            "another; name a column of dates after --split-by, or part rows by --group"
        )
    values = ColumnReader(party, notes, delimiter_of(frame)).values(look, look.kind, said=False)[0]
    if np.isnan(values).any():
        notes.append(
            f"{party}, column {by.column!r}: {int(np.isnan(values).sum())} rows have no date; they count as the oldest"
        )
    return Parting(np.where(np.isnan(values), -np.inf, values), in_time=True)


def split_by_column(
    parting: Parting, seed: int, *, test: float, valid: float, party: str, y: Array | None = None
) -> dict[str, Array]:
    """Cuts "train", "valid" and "test", of about the shares asked for; rows of one value are all in one of them.

    In time, the last are tested on and those before them validated on. Groups are drawn, so that there are two classes
    to learn from and, of two, both to score on, if it can be.

    Raises:
        DataError: there are fewer than three values, so that one cut would have none.
    """
    values, count = np.unique(parting.values), len(parting.values)
    if len(values) < len(_SIDES):
        what = "dates are" if parting.in_time else "groups are"
        found = "one, the same for all rows" if len(values) == 1 else str(len(values))
        raise DataError(
            f"party {party!r}: three different {what} needed to part {count} shared rows into those to learn from, to "
            f"validate and to score on, and there is {found}; "
            + ("leave --split-by out, or name a column that varies" if parting.in_time else "leave --group out")
        )
    if parting.in_time:
        return _parted(parting.values, values[::-1], test, valid)
    first: dict[str, Array] = {}
    for tried in seeds_to_try(seed):
        cuts = _parted(parting.values, _shuffled(values, np.random.default_rng(tried)), test, valid)
        if y is None or all(len(np.unique(y[cuts[side]])) > 1 for side in sides_with_classes(y)):
            return cuts
        first = first or cuts
    return first


def _shuffled(values: Array, rng: Rng) -> Array:
    return np.asarray(values[rng.permutation(len(values))])


def _parted(rows: Array, order: Array, test: float, valid: float) -> dict[str, Array]:
    """The rows of the first values tested on, of the next validated on, of the others trained on."""
    position = {value: at for at, value in enumerate(order.tolist())}
    place = np.array([position[value] for value in rows.tolist()])
    sizes = np.bincount(place, minlength=len(order))
    tested = _nearest(sizes, test * len(rows), most=len(order) - 2)
    rest = len(rows) - int(sizes[:tested].sum())
    validated = _nearest(sizes[tested:], valid * rest, most=len(order) - tested - 1)
    side = np.where(place < tested, 2, np.where(place < tested + validated, 1, 0))
    return {name: np.flatnonzero(side == at) for at, name in enumerate(_SIDES)}


def _nearest(sizes: Array, wanted: float, *, most: int) -> int:
    """How many of these, from the first, come nearest to so many rows; at least one."""
    totals = np.cumsum(sizes)[:most]
    return int(np.argmin(np.abs(totals - wanted))) + 1


def pack_cuts(cuts: dict[str, Array], rows: int) -> Array:
    """Which rows are validated and tested on, two bits per row, to be sent to parties that hold the same rows."""
    masks = np.zeros((2, rows), dtype=bool)
    masks[0, cuts["valid"]] = masks[1, cuts["test"]] = True
    return np.packbits(masks, axis=1)


def unpack_cuts(packed: object, rows: int, party: str) -> dict[str, Array]:
    """The cuts that `pack_cuts` packed; refuses what cannot be of so many rows."""
    if not isinstance(packed, np.ndarray) or packed.dtype != np.uint8 or packed.shape != (2, -(-rows // 8)):
        raise DataError(f"{party} was not sent two bits for each of {rows} shared rows; match the rows again")
    valid, test = np.unpackbits(packed, axis=1, count=rows).astype(bool)
    if (valid & test).any():
        raise DataError(f"{party} was sent rows that are both validated and tested on; match the rows again")
    return {name: np.flatnonzero(mask) for name, mask in (("train", ~valid & ~test), ("valid", valid), ("test", test))}
