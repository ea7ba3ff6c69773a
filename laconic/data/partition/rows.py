"""Ways to deal the rows of one data set among parties that all have its columns, each a value to choose by."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from laconic.data.datasets.dataset import Dataset
from laconic.data.federation import Federation
from laconic.tables.columns import Recipe, fit_recipe
from laconic.tables.table import Table
from laconic.tables.task import Task, scale_of_labels
from laconic.values import Array, Rng, Settings, check_least

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
