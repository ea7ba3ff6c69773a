"""What methods need of a party's rows, beyond the table itself."""

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.values import Array, flat


def labelled(party: Party, rows: str) -> tuple[Array, Array]:
    """The prepared rows of a cut and their labels; a party without labels is an error."""
    x, y = party.data.part(rows)
    if y is None:
        raise ValueError(f"{party.name} has no labels for its rows {rows!r}; the hub must hold the label column")
    return x, y


def labels_of(party: Party, rows: str) -> Array:
    """The labels of a cut without copying its rows, which a method that asks per batch cannot afford."""
    if party.data.y is None:
        raise ValueError(f"{party.name} has no labels for its rows {rows!r}; the hub must hold the label column")
    return party.data.y[party.data.cut(rows)]


def own_rows(party: Party) -> Array:
    """The prepared rows outside the overlap of all parties, cut "own"; none if there is no such cut."""
    return party.data.part("own")[0] if "own" in party.data.cuts else party.data.x[:0]


def rows_without_labels(party: Party) -> Array:
    """All prepared rows a party may learn from before anything is sent to it: its own and the shared ones."""
    return np.concatenate([own_rows(party), party.data.part("train")[0]])


def all_labelled(party: Party) -> tuple[Array, Array]:
    """All rows that a party alone may learn from, with their labels: the shared training rows, then its own.

    Rows of its own without a label are left out.
    """
    x, y = labelled(party, "train")
    if "own" not in party.data.cuts:
        return x, y
    places, own_y = party.data.cut("own"), labels_of(party, "own")
    known = np.isfinite(own_y) if own_y.dtype.kind == "f" else own_y >= 0
    return np.concatenate([x, party.data.x[places[known]]]), np.concatenate([y, own_y[known]])


def some_rows(party: Party, places: Array) -> tuple[Array, Array]:
    """Some training rows and their labels, by their places in cut "train", without copying all the others."""
    return party.data.x[party.data.cut("train")[places]], labels_of(party, "train")[places]


def side_by_side(blocks: list[Array]) -> Array:
    """Columns of several parties as one matrix; images of equal size as channels of one image."""
    if all(block.ndim == 4 for block in blocks) and len({block.shape[2:] for block in blocks}) == 1:
        return np.concatenate(blocks, axis=1)
    return np.concatenate([flat(block) for block in blocks], axis=1)


def batch_rows(rows: int, size: int, seed: int, epoch: int, number: int) -> Array:
    """The rows of batch `number` of an epoch: the same at every party that knows the seed, so none need be sent."""
    return _order(rows, seed, epoch)[number * size : (number + 1) * size]


@lru_cache(maxsize=4)
def _order(rows: int, seed: int, epoch: int) -> Array:
    return np.random.default_rng([seed, epoch]).permutation(rows)


class Pooling(Method, frozen=True):
    """Abstract: a method whose hub has everybody's columns."""

    rounds = 1  # All columns come in one exchange.

    def predict_opening(self, rows: str) -> Opening:
        """All columns of these rows, in one exchange."""
        return Opening((Ask.known(self.give_columns, rows=rows),), then="ends")

    @step(takes=None, gives="all its raw columns of the rows asked for")
    def give_columns(self, party: Party, rows: str) -> dict[str, Array]:
        """The party's prepared columns, for each of the cuts named, as `train+valid`."""
        return {cut: party.data.part(cut)[0] for cut in rows.split("+")}

    def pool(self, hub: Party, peers: Peers, rows: str) -> dict[str, Array]:
        """Everybody's columns side by side, for each of the cuts named."""
        own = [self.give_columns(hub, rows)] if hub.data.columns else []
        blocks = [*own, *peers.ask(self.give_columns, rows=rows).values()]
        return {cut: side_by_side([block[cut] for block in blocks]) for cut in rows.split("+")}


class RowPooling(Method, frozen=True):
    """Abstract: a method whose server has everybody's rows."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    rounds = 1  # All rows come in one exchange.

    @step(takes=None, gives="all its raw columns and all its labels")
    def give_rows(self, party: Party) -> dict[str, Array]:
        """The party's prepared training rows and their labels."""
        x, y = labelled(party, "train")
        return {"x": x, "y": y}

    def pool(self, peers: Peers) -> tuple[Array, Array]:
        """Everybody's rows below each other, and their labels."""
        answers = list(peers.ask(self.give_rows).values())
        x, y = (np.concatenate([answer[part] for answer in answers]) for part in ("x", "y"))
        return x, y
