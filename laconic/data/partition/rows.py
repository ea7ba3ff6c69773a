"""Ways to deal rows, each a value to choose by: among parties that all have the columns, and by a column.

At random, rows of one household or of one day end up on both sides, and a model is scored on what it has nearly seen.
By a column, the last in time are scored on, or groups stay together.
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

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec

from laconic.data.datasets import Dataset
from laconic.data.federation import Federation
from laconic.tables.columns import Recipe, fit_recipe
from laconic.tables.table import Table
from laconic.tables.task import Task, scale_of_labels
from laconic.values import Settings, check_least

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


_TRIES = 1000


class Iid(Settings, frozen=True):
    """Rows at random, equally many to each party."""

    parties: int = 10

    def __post_init__(self) -> None:
        check_least(1, parties=self.parties)

    def shares(self, y: Array, rng: Rng) -> list[Array]:
        """Each party's rows, as positions in `y`."""
        return [np.sort(part) for part in np.array_split(rng.permutation(len(y)), self.parties)]


class Dirichlet(Settings, frozen=True):
    """Label skew: for each class, the parties' shares are drawn from a Dirichlet distribution.

    Attributes:
        parties: how many there are.
        beta: small for parties that see few classes each, large for equal parties.
        least: every party gets at least this many rows; shares are drawn again until it does. 0 allows a party
            that has none at all.
        balanced: classes are dealt from the rarest to the commonest, and a party that already has an equal share of all
            rows gets none of those still to come. FedKT's published experiments deal so; its text does not say it.
    """

    parties: int = 10
    beta: float = 0.5
    least: int = 10
    balanced: bool = False

    def __post_init__(self) -> None:
        check_least(1, parties=self.parties)
        _check_beta(self.beta)

    def shares(self, y: Array, rng: Rng) -> list[Array]:
        """Each party's rows, as positions in `y`."""
        return _with_enough(lambda: self._draw(y, rng), self.least, self.beta)

    def _draw(self, y: Array, rng: Rng) -> list[Array]:
        codes, counts = np.unique(y, return_counts=True)
        shares = [np.empty(0, dtype=np.int64)] * self.parties
        for code in codes[np.argsort(counts, kind="stable")] if self.balanced else codes:
            full = np.array([self.balanced and len(share) >= len(y) / self.parties for share in shares])
            parts = _by_weight(np.flatnonzero(y == code), self.parties, self.beta, rng, full)
            shares = [np.concatenate(pair) for pair in zip(shares, parts, strict=True)]
        return shares


class Sizes(Settings, frozen=True):
    """Quantity skew: how many rows a party has is drawn from a Dirichlet distribution; which ones is random.

    Attributes:
        parties: how many there are.
        beta: small for a few large parties and many small ones, large for equal parties.
        least: every party gets at least this many rows; sizes are drawn again until it does.
    """

    parties: int = 10
    beta: float = 0.5
    least: int = 10

    def __post_init__(self) -> None:
        check_least(1, parties=self.parties)
        _check_beta(self.beta)

    def shares(self, y: Array, rng: Rng) -> list[Array]:
        """Each party's rows, as positions in `y`."""
        rows = np.arange(len(y))
        return _with_enough(lambda: _by_weight(rows, self.parties, self.beta, rng), self.least, self.beta)


RowCut: TypeAlias = Iid | Dirichlet | Sizes


class RandomHoldout(Settings, frozen=True):
    """Test and public rows drawn at random from the rows at hand; an official test set is left out altogether.

    Attributes:
        test: share of the rows to score on.
        public: share of the rows that everybody has, without labels.
        keep: which share of the public rows is handed out; the rest is used by nobody.
        valid: share of the parties' rows that the server keeps instead, with labels, to choose settings by.
    """

    test: float = 0.125
    public: float = 0.125
    keep: float = 1.0
    valid: float = 0.0

    def __post_init__(self) -> None:
        if min(self.test, self.public) <= 0 or self.test + self.public >= 1:
            raise ValueError(
                f"test={self.test} and public={self.public} must be above 0 and leave rows for the parties"
            )
        _check_shares(self.keep, self.valid)

    def part(self, dataset: Dataset, rng: Rng) -> "Parts":
        """The rows for the parties, for everybody, and to score on."""
        official = np.empty(0, dtype=np.int64) if dataset.test is None else dataset.test
        rows = rng.permutation(np.setdiff1d(np.arange(dataset.rows), official))
        ends = np.cumsum([round(len(rows) * self.test), round(len(rows) * self.public)])
        tested, opened, trained = np.split(rows, ends)
        return _parts(trained, opened, tested, self.keep, self.valid)


class HalfTest(Settings, frozen=True):
    """One half of the official test set is public, without its labels; the other half is scored on.

    Attributes:
        keep: which share of the public rows is handed out; the rest is used by nobody.
        valid: share of the parties' rows that the server keeps instead, with labels, to choose settings by.
    """

    keep: float = 1.0
    valid: float = 0.0

    def __post_init__(self) -> None:
        _check_shares(self.keep, self.valid)

    def part(self, dataset: Dataset, rng: Rng) -> "Parts":
        """The rows for the parties, for everybody, and to score on."""
        if dataset.test is None:
            raise ValueError(f"{dataset.name} has no official test set to halve; use reserve=RandomHoldout()")
        tested, opened = np.array_split(rng.permutation(dataset.test), 2)
        trained = rng.permutation(np.setdiff1d(np.arange(dataset.rows), dataset.test))
        return _parts(trained, opened, tested, self.keep, self.valid)


Reserve: TypeAlias = RandomHoldout | HalfTest


class Parts(NamedTuple):
    """Row positions of a data set, in rising order: for the parties, for everybody, to score on, to choose by."""

    trained: Array
    opened: Array
    tested: Array
    validated: Array


def deal_rows(dataset: Dataset, cut: RowCut, *, reserve: Reserve | None = None, seed: int = 0) -> Federation:
    """Deal a data set's rows among parties with labels of their own, and keep some for everybody and for scoring.

    Every party has two cuts: "train", its own rows with labels, which may be none at all, and "public", the same rows
    for everybody, in the same order, without labels. The hub is a party of its own, "server", with the cuts "public",
    "test", and "valid" if the reserve keeps such rows; their labels are for scores only. Columns must mean the same
    everywhere, so one recipe, fitted on the public rows, prepares all tables: it gives away nothing of anyone's own
    rows. Labels that are numbers are scaled by their mean and spread over all parties' rows.

    Args:
        reserve: which rows are public and which are scored on; None halves an official test set, or else draws them.
        seed: for all randomness; the test and public rows depend on it and on `reserve` alone.
    """
    for_rows, for_shares = np.random.default_rng(seed).spawn(2)
    chosen = reserve or (RandomHoldout() if dataset.test is None else HalfTest())
    parts = chosen.part(dataset, for_rows)
    recipe = fit_recipe(dataset.raw, dataset.columns, parts.opened, party="server")
    dataset = replace(dataset, task=_with_scale(dataset.task, dataset.y[parts.trained]))
    shares = cut.shares(dataset.y[parts.trained], for_shares)
    held = {"test": parts.tested} | ({"valid": parts.validated} if len(parts.validated) else {})
    tables = {"server": _table(dataset, parts.opened, held, "server", recipe)}
    for i, share in enumerate(shares):
        name = f"party{i + 1}"
        tables[name] = _table(dataset, parts.opened, {"train": parts.trained[share]}, name, recipe)
    facts: dict[str, object] = {
        "source": dataset.name,
        "note": dataset.note,
        "seed": seed,
        "rows": {"train": len(parts.trained), "public": len(parts.opened)} | {cut: len(at) for cut, at in held.items()},
        "own": {f"party{i + 1}": len(share) for i, share in enumerate(shares)},
    }
    return Federation(name=dataset.name, tables=tables, hub="server", aligned=True, kind="horizontal", facts=facts)


def _with_scale(task: Task, y: Array) -> Task:
    """The task, of numbers with mean and spread over all parties' rows, as parties with files agree on them."""
    return task if task.of_classes else msgspec.structs.replace(task, scale=scale_of_labels(task, y))


def _table(dataset: Dataset, opened: Array, own: dict[str, Array], party: str, recipe: Recipe) -> Table:
    """A table of the public rows, without labels, and of a party's own by cut, with labels."""
    everything = np.concatenate([opened, *own.values()])
    places = np.split(np.arange(len(everything)), np.cumsum([len(opened), *map(len, own.values())])[:-1])
    y = dataset.y[everything]
    y[: len(opened)] = -1 if dataset.task.of_classes else np.nan
    return Table(
        dataset.raw[everything],
        dataset.columns,
        ids=dataset.keys()[everything],
        y=y,
        task=dataset.task,
        cuts=dict(zip(("public", *own), places, strict=True)),
        party=party,
        recipe=recipe,
    )


def _parts(trained: Array, opened: Array, tested: Array, keep: float, valid: float) -> Parts:
    """The parts, shuffled still, less the public rows that are not kept, and with rows to choose by."""
    validated, trained = np.split(trained, [round(len(trained) * valid)])
    opened = opened[: max(1, round(len(opened) * keep))]
    return Parts(np.sort(trained), np.sort(opened), np.sort(tested), np.sort(validated))


def _check_shares(keep: float, valid: float) -> None:
    if not 0 < keep <= 1:
        raise ValueError(f"keep is a share of the public rows above 0 and up to 1, not {keep}")
    if not 0 <= valid < 1:
        raise ValueError(f"valid is a share of the parties' rows from 0 and below 1, not {valid}")


def _by_weight(rows: Array, parties: int, beta: float, rng: Rng, full: Array | None = None) -> list[Array]:
    """Shuffled rows in shares of random size; none for parties that are full."""
    weights = rng.dirichlet(np.full(parties, beta))
    if full is not None:
        weights = np.where(full, 0.0, weights)
        weights /= weights.sum()
    ends = np.round(np.cumsum(weights)[:-1] * len(rows)).astype(np.int64)
    return np.split(rng.permutation(rows), ends)


def _check_beta(beta: float) -> None:
    if not beta > 0:
        raise ValueError(f"beta must be above 0, not {beta}; small is skewed, large is equal")


def _with_enough(draw: Callable[[], list[Array]], least: int, beta: float) -> list[Array]:
    """Shares drawn again until every party has at least so many rows."""
    for _ in range(_TRIES):
        shares = draw()
        if min(len(share) for share in shares) >= least:
            return [np.sort(share) for share in shares]
    raise ValueError(
        f"{sum(map(len, shares))} rows could not be dealt so that each of {len(shares)} parties has at least {least} "
        f"at beta={beta}; use fewer parties, a larger beta or a smaller least"
    )
