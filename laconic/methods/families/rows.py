"""What methods need of a party's rows, beyond the table itself."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from laconic.core.capabilities import Exported
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.core.wire import describe
from laconic.errors import DataError, WireError
from laconic.learn.features import FeatureMap, draw_once
from laconic.learn.models.best import left_others_out, what_was_tried
from laconic.tables.table import PAIRED, paired_with
from laconic.values import Array, Weights, flat

ROWS_IN_ALL = "rows in all"
"""Where parties that agreed on columns by their sums remember about how many training rows all have together."""

_NO_ROWS = np.empty(0, dtype=np.int64)


def labelled(party: Party, rows: str) -> tuple[Array, Array]:
    """The prepared rows of a cut and their labels; a party without labels is an error."""
    x, y = party.data.part(rows)
    if y is None:
        raise ValueError(f"{party.name} has no labels for its rows {rows!r}; the hub must hold the label column")
    return x, y


def map_weights(chosen: FeatureMap, party: Party) -> Weights:
    """What a feature map is made of at a party: as it came home with the model, or drawn."""
    # A party to which the model came home may lack the public rows that the map was made from.
    return party.memory.get("map") or draw_once(chosen, party.data.shape, lambda: _public(party))


def _public(party: Party) -> Array:
    if "public" not in party.data.cuts:
        raise ValueError(f"{party.name} lacks the public rows from which the feature map is made; give it these rows")
    return party.data.part("public")[0]


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
    (x, y), own = labelled(party, "train"), own_labelled(party)
    return np.concatenate([x, party.data.x[own]]), np.concatenate([y, labels_at(party, own)])


def groups_at(party: Party, at: Array) -> Array | None:
    """The groups of training rows and then of the rows at these places, by the label holder's column; None without."""
    parting = party.data.parting
    if parting is None or parting.in_time:
        return None
    return np.asarray(parting.values[np.concatenate([party.data.cut("train"), at])])


def labels_at(party: Party, at: Array) -> Array:
    """The labels of rows, by their places in the table."""
    return np.empty(0) if party.data.y is None else party.data.y[at]


def own_labelled(party: Party) -> Array:
    """The places in its table of a party's rows outside the overlap for which it has labels."""
    at, y = party.data.cuts.get("own", _NO_ROWS), party.data.y
    if y is None or not len(at):
        return _NO_ROWS
    return np.asarray(at[np.isfinite(y[at]) if y.dtype.kind == "f" else y[at] >= 0])


def with_own_rows(
    hub: Party,
    shared: Sequence[Array],
    sent: Mapping[str, Mapping[str, Array]],
    *,
    learns: bool = True,
    own: Callable[[Array], Array] | None = None,
) -> tuple[list[Array], Array, Array | None]:
    """The shared training rows, then all others for which the hub has labels; all labels, and groups.

    Where a party sent nothing about a row, its numbers are NaN. A hub without columns learns from others' rows that
    some party sent something about.

    Args:
        hub: whose rows they are.
        shared: the hub's block of the shared rows, if it has columns, and one for each of `sent`.
        sent: by party, its numbers for cut "train", and for cut "paired" if it sent them.
        learns: whether the model learns from others at all.
        own: the hub's block, given its columns; None for the columns as they are.
    """
    at = own_labelled(hub) if learns else own_labelled(hub)[:0]
    paired = {name: cuts[PAIRED] for name, cuts in sent.items() if PAIRED in cuts and len(at)}
    place = np.full(hub.data.rows, -1)
    place[at] = np.arange(len(at))
    blocks, known = [], np.zeros(len(at), dtype=bool)
    for name, cuts in sent.items():
        block = np.full((len(at), *cuts["train"].shape[1:]), np.nan, np.float32)
        if name in paired:
            rows = place[hub.data.cut(paired_with(name))]
            block[rows[rows >= 0]] = _checked(name, paired[name], (len(rows), *block.shape[1:]))[rows >= 0]
            known[rows[rows >= 0]] = True
        blocks.append(block)
    if hub.data.columns:
        blocks.insert(0, own(hub.data.prepared(at)) if own else hub.data.prepared(at))
    else:
        at, blocks = at[known], [block[known] for block in blocks]
    note_outside(hub, at, paired)
    y = np.concatenate([labelled(hub, "train")[1], labels_at(hub, at)])
    # Nothing is copied where nothing is added.
    together = [np.concatenate(both) if len(at) else both[0] for both in zip(shared, blocks, strict=True)]
    return together, y, groups_at(hub, at)


def pooled_with_own_rows(
    hub: Party, sent: Mapping[str, Mapping[str, Array]], *, learns: bool = True
) -> tuple[Array, Array, Array | None]:
    """Everybody's columns side by side, and the hub's other labelled rows: see `with_own_rows`."""
    own = [hub.data.part("train")[0]] if hub.data.columns else []
    blocks, y, groups = with_own_rows(hub, [*own, *(block["train"] for block in sent.values())], sent, learns=learns)
    return side_by_side(blocks), y, groups


def note_outside(hub: Party, at: Array, paired: Mapping[str, Array] | None = None) -> None:
    """Note, for the result, how many rows outside the overlap were learnt from, by party."""
    if len(at):
        counts = {name: len(numbers) for name, numbers in (paired or {}).items()}
        hub.memory["outside"] = {hub.name: len(at)} | counts


def note_tried(hub: Party) -> None:
    """Note, for the result, what was tried for the hub's model, and if rows outside the overlap were left out."""
    hub.memory["tried"] = what_was_tried([hub.memory["model"]])
    if "outside" in hub.memory and left_others_out(hub.memory["model"]):
        hub.memory["outside"] = {}


def _checked(party: str, numbers: Any, shape: tuple[int, int]) -> Array:
    """A party's numbers for paired rows, if they are as many as there are pairs."""
    if not isinstance(numbers, np.ndarray) or numbers.shape != shape or not np.isfinite(numbers).all():
        raise WireError(
            f"{party} sent {describe(numbers)} for the rows that it shares with the hub alone; {shape[0]:,} rows of "
            f"{shape[1]} finite numbers are due"
        )
    return numbers


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


def beside_columns(hub: Party, sent: Mapping[str, Mapping[str, Array]], rows: str) -> dict[str, Array]:
    """The hub's columns and what others sent side by side, for each of the cuts named, as `train+valid`."""
    own = [{cut: hub.data.part(cut)[0] for cut in rows.split("+")}] if hub.data.columns else []
    return {cut: side_by_side([block[cut] for block in [*own, *sent.values()]]) for cut in rows.split("+")}


class Pooling(Method, frozen=True):
    """Abstract: a method whose hub has everybody's columns."""

    rounds = 1  # All columns come in one exchange.

    def predict_opening(self, rows: str) -> Opening:
        """All columns of these rows, in one exchange."""
        return Opening((Ask.known(self.give_columns, rows=rows),), then="ends")

    @step(
        takes=None, gives="all its raw columns of the rows asked for, and with these of rows that only the hub has too"
    )
    def give_columns(self, party: Party, rows: str) -> dict[str, Array]:
        """The party's prepared columns, for each of the cuts named, as `train+valid`; with `train`, pairs too."""
        cuts = rows.split("+")
        if "train" in cuts and PAIRED in self.uses and len(party.data.cuts.get(PAIRED, ())):
            cuts.append(PAIRED)
        return {cut: party.data.part(cut)[0] for cut in cuts}

    def pool(self, hub: Party, peers: Peers, rows: str) -> dict[str, Array]:
        """Everybody's columns side by side, for each of the cuts named."""
        return beside_columns(hub, peers.ask(self.give_columns, rows=rows), rows)


class RowPooling(Method, frozen=True):
    """Abstract: a method whose server has everybody's rows."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"

    rounds = 1  # All rows come in one exchange.

    def fit_opening(self) -> Opening:
        """All rows, in one exchange."""
        return Opening((Ask.known(self.give_rows),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

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


def refuse_noise(noise: object) -> None:
    """Refuse to write down what a party computes where it adds noise, which no fixed graph can draw."""
    if noise is not None:
        raise DataError(
            "parties add noise to what they send, which an exported graph cannot draw; predict with `laconic predict`"
        )


def computes_alone(party: Party, learner: object) -> Exported:
    """What a party computes that has the whole model."""
    return Exported(learner, party.memory["model"], {party.name: party.data.shape})
