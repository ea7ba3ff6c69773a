"""Ways to deal the columns of one data set among parties, each a value to choose by."""

from typing import TypeAlias

import numpy as np

from laconic.core.columns import Column
from laconic.core.values import Array, Rng, Settings
from laconic.data.dataset import Dataset
from laconic.data.importance import importances

NAMES = ("bank", "shop", "insurer", "telecom", "clinic", "airline", "utility", "school", "hotel", "library")
"""What parties are called when the columns have no natural owners."""

Piece: TypeAlias = tuple[tuple[Column, ...], Array]
"""What one party gets: its columns and their raw cells."""


class Equal(Settings, frozen=True):
    """Columns in the set's order, as equally many to each party as can be (paper: equal division)."""

    parties: int = 3

    def __post_init__(self) -> None:
        """Check the number of parties."""
        _check_parties(self.parties)

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
        _need_images(dataset, "Quadrants")
        halves = [np.array_split(band, 2, axis=3) for band in np.array_split(dataset.raw, 2, axis=2)]
        images = [image for band in halves for image in band]
        return {name: _pixels(image) for name, image in zip(party_names(4), images, strict=True)}


class Rows(Settings, frozen=True):
    """Bands of an image's rows from top to bottom, as equally high as can be, each one party."""

    parties: int = 2

    def __post_init__(self) -> None:
        """Check the number of parties."""
        _check_parties(self.parties)

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's column and pixels, by its name."""
        _need_images(dataset, "Rows")
        if self.parties > dataset.raw.shape[2]:
            raise ValueError(f"images of {dataset.name} have {dataset.raw.shape[2]} rows, too few for {self.parties}")
        bands = np.array_split(dataset.raw, self.parties, axis=2)
        return {name: _pixels(band) for name, band in zip(party_names(self.parties), bands, strict=True)}


class Patches(Settings, frozen=True):
    """A grid of patches of an image, row by row from the upper left, as equally large as can be, each one party.

    Attributes:
        down: rows of the grid.
        across: columns of the grid.
    """

    down: int = 3
    across: int = 3

    def __post_init__(self) -> None:
        """Check the grid."""
        _check_parties(min(self.down, self.across))

    def pieces(self, dataset: Dataset, rng: Rng) -> dict[str, Piece]:
        """Each party's column and pixels, by its name."""
        _need_images(dataset, "Patches")
        height, width = dataset.raw.shape[2:]
        if self.down > height or self.across > width:
            raise ValueError(
                f"images of {dataset.name} are {height} x {width}, too small for {self.down} x {self.across}"
            )
        bands = np.array_split(dataset.raw, self.down, axis=2)
        images = [image for band in bands for image in np.array_split(band, self.across, axis=3)]
        return {name: _pixels(image) for name, image in zip(party_names(len(images)), images, strict=True)}


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
        """Check the share and the count."""
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is a share of columns between 0 and 1, not {self.alpha}")
        if self.top < 1:
            raise ValueError(f"top is how many columns count as telling, at least 1, not {self.top}")

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


def _pixels(images: Array) -> Piece:
    return (Column("image", "pixels"),), np.ascontiguousarray(images)


def _check_parties(parties: int) -> None:
    if parties < 1:
        raise ValueError(f"parties must be at least 1, not {parties}")


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


def _need_images(dataset: Dataset, cut: str) -> None:
    if not dataset.is_image:
        raise ValueError(f"{cut} deals pixels, but {dataset.name} is a table; use Equal(parties=...) or Groups()")
