"""What methods need of a party's rows, beyond the table itself."""

from functools import lru_cache

import numpy as np

from laconic.core.party import Party
from laconic.core.values import Array


def labelled(party: Party, rows: str) -> tuple[Array, Array]:
    """The prepared rows of a cut and their labels; a party without labels is an error."""
    x, y = party.data.part(rows)
    if y is None:
        raise ValueError(f"{party.name} has no labels for its rows {rows!r}; the hub must hold the label column")
    return x, y


def own_rows(party: Party) -> Array:
    """The prepared rows outside the overlap of all parties, cut "own"; none if there is no such cut."""
    return party.data.part("own")[0] if "own" in party.data.cuts else party.data.x[:0]


def rows_without_labels(party: Party) -> Array:
    """All prepared rows a party may learn from before it is told anything: its own and the shared ones."""
    return np.concatenate([own_rows(party), party.data.part("train")[0]])


def some_rows(party: Party, places: Array) -> tuple[Array, Array]:
    """Some training rows and their labels, by their places in cut "train", without copying all the others."""
    if party.data.y is None:
        raise ValueError(f"{party.name} has no labels; the hub must hold the label column")
    at = party.data.cut("train")[places]
    return party.data.x[at], party.data.y[at]


def side_by_side(blocks: list[Array]) -> Array:
    """Columns of several parties as one matrix; images of equal size as channels of one image."""
    if all(block.ndim == 4 for block in blocks) and len({block.shape[2:] for block in blocks}) == 1:
        return np.concatenate(blocks, axis=1)
    return np.concatenate([block.reshape(len(block), -1) for block in blocks], axis=1)


def batch_rows(rows: int, size: int, seed: int, epoch: int, number: int) -> Array:
    """The rows of batch `number` of an epoch: the same at every party that knows the seed, so none need be sent."""
    return _order(rows, seed, epoch)[number * size : (number + 1) * size]


@lru_cache(maxsize=4)
def _order(rows: int, seed: int, epoch: int) -> Array:
    return np.random.default_rng([seed, epoch]).permutation(rows)
