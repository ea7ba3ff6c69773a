"""Ways to deal the columns of one data set among parties, each a value to choose by."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from laconic.data.datasets import Dataset
from laconic.data.federation import HELD_OUT, Federation
from laconic.tables.columns import Column, apply_recipe, fit_recipe
from laconic.tables.table import Table
from laconic.values import Array, Rng, Settings, check_least

_MOST_ROWS = 5000  # a ranking of columns needs no more


def importances(dataset: Dataset, rng: Rng) -> Array:
    """One number per raw column, summing to 1: how much extremely randomised trees gain from it."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    rows = rng.permutation(dataset.rows)[:_MOST_ROWS]
    recipe = fit_recipe(dataset.raw, dataset.columns, rows, party=dataset.name)
    forest = ExtraTreesRegressor if dataset.task.kind == "regression" else ExtraTreesClassifier
    model = forest(n_estimators=50, min_samples_leaf=3, random_state=int(rng.integers(2**31 - 1)))
    model.fit(apply_recipe(recipe, dataset.raw[rows]), dataset.y[rows])
    gains = np.zeros(len(dataset.columns))
    np.add.at(gains, [part.source for part in recipe.parts], model.feature_importances_)
    return gains


NAMES = ("bank", "shop", "insurer", "telecom", "clinic", "airline", "utility", "school", "hotel", "library")
"""What parties are called when the columns have no natural owners."""

Piece: TypeAlias = tuple[tuple[Column, ...], Array]
"""What one party gets: its columns and their raw cells."""


class Equal(Settings, frozen=True):
    """Columns in the set's order, as equally many to each party as can be (paper: equal division)."""

    parties: int = 3

    def __post_init__(self) -> None:
        check_least(1, parties=self.parties)

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's columns and cells, by its name."""
        _need_table(dataset, "Equal")
        if self.parties > len(dataset.columns):
            raise ValueError(
                f"{dataset.name} has {len(dataset.columns)} columns, too few for {self.parties} parties; use fewer"
            )
        shares = np.array_split(np.arange(len(dataset.columns)), self.parties)
        return {name: _columns(dataset, share) for name, share in zip(party_names(self.parties), shares, strict=True)}


class Groups(Settings, frozen=True):
    """Columns by named groups, each group one party; the data set's natural groups when none are given.

    Columns in no group belong to nobody.
    """

    groups: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 msgspec copies an empty default for each value

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's columns and cells, by its name."""
        _need_table(dataset, "Groups")
        groups = self.groups or dataset.groups
        if not groups:
            raise ValueError(f"{dataset.name} has no natural groups of columns; give Groups(groups={{name: columns}})")
        _check_groups(groups, dataset)
        places = {column.name: i for i, column in enumerate(dataset.columns)}
        return {
            party: _columns(dataset, np.array([places[name] for name in names], dtype=np.int64))
            for party, names in groups.items()
        }


class Quadrants(Settings, frozen=True):
    """The four quarters of an image, each one party: upper left, upper right, lower left, lower right."""

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's column and pixels, by its name."""
        return _patches(dataset, 2, 2)


class Rows(Settings, frozen=True):
    """Bands of an image's rows from top to bottom, as equally high as can be, each one party."""

    parties: int = 2

    def __post_init__(self) -> None:
        check_least(1, parties=self.parties)

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's column and pixels, by its name."""
        return _patches(dataset, self.parties, 1)


class Patches(Settings, frozen=True):
    """A grid of patches of an image, row by row from the upper left, as equally large as can be, each one party.

    Attributes:
        down: rows of the grid.
        across: columns of the grid.
    """

    down: int = 3
    across: int = 3

    def __post_init__(self) -> None:
        check_least(1, down=self.down, across=self.across)

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's column and pixels, by its name."""
        return _patches(dataset, self.down, self.across)


class Biased(Settings, frozen=True):
    """Two parties with equally many columns; the first gets a given share of the most telling ones.

    FedOnce paper, section 5.5, where importance comes from boosted trees; here from extremely randomised trees.
    Choosing columns by importance looks at all labels: it makes an experiment, not something parties could do.

    Attributes:
        alpha: share of the `top` columns that the first party gets; 1 gives it the best, 0 the worst.
        top: how many of the most important columns count as telling.
    """

    alpha: float = 0.5
    top: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is a share of columns between 0 and 1, not {self.alpha}")
        check_least(1, top=self.top)

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's columns and cells, by its name."""
        _need_table(dataset, "Biased")
        width = len(dataset.columns)
        if self.top > width // 2:
            raise ValueError(f"top={self.top} telling columns do not fit half of the {width} columns; lower top")
        ranked = np.argsort(-importances(dataset, rng), kind="stable")
        telling, plain = rng.permutation(ranked[: self.top]), rng.permutation(ranked[self.top :])
        given = round(self.alpha * self.top)
        filler = (width + 1) // 2 - given
        first = np.sort(np.concatenate([telling[:given], plain[:filler]]))
        second = np.sort(np.concatenate([telling[given:], plain[filler:]]))
        names = party_names(2)
        return {names[0]: _columns(dataset, first), names[1]: _columns(dataset, second)}


Cut: TypeAlias = Equal | Groups | Quadrants | Rows | Patches | Biased


def usual_cut(dataset: Dataset, parties: int) -> Cut:
    """The cut to use when nobody chose one: equal columns of a table; quadrants or bands of an image."""
    if not dataset.is_image:
        return Equal(parties=parties)
    return Quadrants() if parties == 4 else Rows(parties=parties)


def party_names(parties: int) -> tuple[str, ...]:
    """Plain words for parties: bank, shop, insurer and so on, then party11."""
    return NAMES[:parties] + tuple(f"party{i + 1}" for i in range(len(NAMES), parties))


def _columns(dataset: Dataset, places: Array) -> Piece:
    return tuple(dataset.columns[i] for i in places), dataset.raw[:, places]


def _patches(dataset: Dataset, down: int, across: int) -> dict[str, Piece]:
    """Images cut into a grid, row by row from the upper left."""
    if not dataset.is_image:
        raise ValueError(
            f"{dataset.name} is a table, but this cut deals pixels of images; use Equal(parties=...) or Groups()"
        )
    height, width = dataset.raw.shape[2:]
    if down > height or across > width:
        raise ValueError(f"images of {dataset.name} are {height} x {width}, too small for {down} x {across} patches")
    bands = np.array_split(dataset.raw, down, axis=2)
    images = [np.ascontiguousarray(image) for band in bands for image in np.array_split(band, across, axis=3)]
    column = (Column("image", "pixels"),)
    return {name: (column, image) for name, image in zip(party_names(len(images)), images, strict=True)}


def _check_groups(groups: dict[str, tuple[str, ...]], dataset: Dataset) -> None:
    known = [column.name for column in dataset.columns]
    owners: dict[str, str] = {}
    for party, names in groups.items():
        for name in names:
            if name not in known:
                raise ValueError(f"group {party!r}: {dataset.name} has no column {name!r}; it has {', '.join(known)}")
            if name in owners:
                raise ValueError(f"column {name!r} is in group {owners[name]!r} and in {party!r}; keep it in one")
            owners[name] = party


def _need_table(dataset: Dataset, cut: str) -> None:
    if dataset.is_image:
        raise ValueError(f"{cut} deals columns, but {dataset.name} has images; use Quadrants() or Rows(parties=...)")


def split(
    rows: int, rng: Rng, test: float = HELD_OUT, valid: float = 0.1, fixed_test: Array | None = None
) -> dict[str, Array]:
    """Part rows at random into "train", "valid" and "test", each in rising order.

    Args:
        test: share of all rows to test on; not used with `fixed_test`.
        valid: share of the remaining rows to validate on; 0 for none.
        fixed_test: rows of an official test set; None to draw them.
    """
    if not (0 <= test < 1 and 0 <= valid < 1):
        raise ValueError(f"shares of rows must be at least 0 and below 1, not test={test} and valid={valid}")
    order = rng.permutation(rows)
    tested = order[: round(rows * test)] if fixed_test is None else np.asarray(fixed_test)
    rest = order[~np.isin(order, tested)]
    validated, trained = np.split(rest, [round(len(rest) * valid)])
    if len(trained) < 2:
        raise ValueError(
            f"of {rows} rows, {len(trained)} are left to train on, and 2 are needed; add rows, or lower "
            f"data.test={test} or data.valid={valid}"
        )
    return {"train": np.sort(trained), "valid": np.sort(validated), "test": np.sort(tested)}


def sides_with_classes(y: Array) -> tuple[str, ...]:
    """Which cuts need two classes: that to learn from and, where there are two classes of two rows or more, the test.

    Of more classes some may be missing among the rows scored on, and a class of one row can only be on one side.
    """
    _, counts = np.unique(y, return_counts=True)
    return ("train", "test") if len(counts) == 2 and counts.min() > 1 else ("train",) if len(counts) > 1 else ()


def seeds_to_try(seed: int) -> Iterator[int]:
    """The seed itself, then others drawn from it, for rows that must be parted with two classes on either side."""
    yield seed
    for number in range(1, 200):
        yield int(np.random.default_rng([seed, number]).integers(2**31))


LABEL_HOLDER = "label_holder"
"""What a party is called that has the labels and no columns."""


def deal(
    dataset: Dataset,
    cut: Cut,
    *,
    hub: int | None = 0,
    overlap: float | None = None,
    own_labels: bool = False,
    seed: int = 0,
    test: float = HELD_OUT,
    valid: float = 0.1,
) -> Federation:
    """Deal a data set among parties, with the labels at one of them.

    Rows are split into test, valid and training rows as `split` does, by the seed alone, so that every cut of a set is
    scored on the same rows. All parties have all test and valid rows. Of the training rows, `overlap` are shared: they
    are the cut "train" of every party; all rows that every party has are the cut "shared". Each of the others goes to
    one party with columns, as equally many to each as can be, and is in that party's cut "own": no other party has it,
    and the hub has no label for its own unless `own_labels` is set. Shared rows come first in every table and in the
    same order, so that only the cut "own" has other positions at each party.

    Args:
        hub: which party, counting from 0, has the labels; None for one more party that has nothing else.
        overlap: how many training rows are shared, or which share of them if below 1; None for all.
        own_labels: whether the hub has labels for its own rows, too.
        test: share of rows to test on; an official test set is used instead where there is one.
        valid: share of the other rows to validate on.
    """
    for_rows, for_columns, for_overlap = np.random.default_rng(seed).spawn(3)
    cuts = split(dataset.rows, for_rows, test, valid, dataset.test)
    pieces = cut.pieces(dataset, for_columns)
    if hub is None:
        hub, pieces = 0, {LABEL_HOLDER: ((), np.empty((dataset.rows, 0)))} | pieces
    if not 0 <= hub < len(pieces):
        raise ValueError(f"hub must be one of the parties 0 to {len(pieces) - 1}, not {hub}")
    shared = _shared_rows(cuts["train"], overlap, for_overlap)
    own = _own_rows(cuts["train"], shared, [bool(columns) for columns, _ in pieces.values()], for_overlap)
    cuts = {"train": shared, "valid": cuts["valid"], "test": cuts["test"]}
    tables = {}
    for i, (party, (columns, cells)) in enumerate(pieces.items()):
        rows, table_cuts = _rows_of(cuts, own[i])
        tables[party] = Table(
            cells[rows],
            columns,
            ids=dataset.keys()[rows],
            y=_labels(dataset, rows, table_cuts["own"][: 0 if own_labels else None]) if i == hub else None,
            task=dataset.task if i == hub else None,
            cuts=table_cuts,
            party=party,
        )
    facts = _facts(dataset, tables, seed)
    return Federation(name=dataset.name, tables=tables, hub=list(tables)[hub], aligned=True, facts=facts)


def _shared_rows(train: Array, overlap: float | None, rng: Rng) -> Array:
    if overlap is None:
        return train
    count = round(overlap * len(train)) if 0 < overlap < 1 else int(overlap)
    if not 2 <= count <= len(train):
        raise ValueError(
            f"overlap={overlap} asks for {count} shared training rows; it must be 2 to {len(train)}, "
            "or a share between 0 and 1"
        )
    return np.sort(rng.permutation(train)[:count])


def _own_rows(train: Array, shared: Array, has_columns: list[bool], rng: Rng) -> list[Array]:
    """Each party's own rows; a party without columns would know nothing of any, and gets none."""
    rest = rng.permutation(train[~np.isin(train, shared)])
    parts = iter(np.array_split(rest, sum(has_columns)))
    return [np.sort(next(parts)) if holds else rest[:0] for holds in has_columns]


def _rows_of(cuts: dict[str, Array], own: Array) -> tuple[Array, dict[str, Array]]:
    """The data set's rows that a party has, and its cuts as positions among them."""
    everyone = np.sort(np.concatenate([cuts["train"], cuts["valid"], cuts["test"]]))
    there = {name: np.searchsorted(everyone, rows) for name, rows in cuts.items()}
    there["shared"] = np.arange(len(everyone))
    there["own"] = len(everyone) + np.arange(len(own))
    return np.concatenate([everyone, own]), there


def _labels(dataset: Dataset, rows: Array, own: Array) -> Array:
    y = dataset.y[rows]
    y[own] = -1 if dataset.task.of_classes else np.nan
    return y


def _facts(dataset: Dataset, tables: dict[str, Table], seed: int) -> dict[str, object]:
    first = next(iter(tables.values()))
    return {
        "source": dataset.name,
        "note": dataset.note,
        "seed": seed,
        "rows": {name: len(first.cuts[name]) for name in ("train", "valid", "test")},
        "own": {party: len(table.cuts["own"]) for party, table in tables.items()},
        "columns": {party: len(table.columns) for party, table in tables.items()},
    }


def disturb(
    federation: Federation, party: str, sd: float, *, cuts: Sequence[str] = ("train", "valid", "test"), seed: int = 0
) -> Federation:
    """The same federation with noise on all cells of one party in the cuts named, drawn once for each row.

    Args:
        sd: standard deviation of the noise in units of the spread among the party's training rows: of a numeric column,
            or of all shades of its images, which stay within their range. Of categories, the share that is exchanged
            for other rows' cells.
    """
    if party not in federation.tables:
        raise ValueError(f"there is no party {party!r}; the parties are {', '.join(federation.tables)}")
    check_least(0, sd=sd)
    table, rng = federation.tables[party], np.random.default_rng(seed)
    raw = table.raw.copy()
    for cut in cuts:
        at = table.cut(cut)
        raw[at] = _noisy_images(table, raw[at], sd, rng) if raw.ndim == 4 else _noisy_columns(table, raw[at], sd, rng)
    facts = federation.facts | {"disturbed": {"party": party, "sd": sd, "cuts": list(cuts)}}
    return replace(federation, tables=federation.tables | {party: table.changed(raw=raw, recipe=None)}, facts=facts)


def _noisy_images(table: Table, images: Array, sd: float, rng: Rng) -> Array:
    spread = float(np.std(table.raw[table.cut("train")], dtype=np.float64))
    noise = rng.standard_normal(images.shape, dtype=np.float32) * np.float32(sd * spread)
    noisy: Array = np.clip(np.rint(images + noise), 0, 255).astype(np.uint8)
    return noisy


def _noisy_columns(table: Table, cells: Array, sd: float, rng: Rng) -> Array:
    found = cells.copy()
    spreads = np.nanstd(table.raw[table.cut("train")], axis=0)
    for place, column in enumerate(table.columns):
        if column.kind == "numeric":
            found[:, place] += rng.normal(0.0, sd * spreads[place] + 1e-300, len(cells))
        else:
            strange = rng.random(len(cells)) < sd
            found[strange, place] = rng.permutation(cells[:, place])[strange]
    return found
