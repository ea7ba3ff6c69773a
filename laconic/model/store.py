"""What the hub keeps so that it can predict and refit without asking: its own rows, and what parties answered for them.

Every method whose parties answer row by row can be kept so: an answer is cut into rows, each under the person's id, and
given again when the method asks for that person.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from laconic.core.errors import DataError
from laconic.core.ledger import Ledger
from laconic.core.script import Script
from laconic.core.table import Table
from laconic.core.values import Array
from laconic.core.wire import decode_question, encode

_CUT = "\0cut"
"""Stands for the name of the cut in answers that name it: another cut will be asked for."""


@dataclass(frozen=True)
class Answers:
    """What one party answered, row by row.

    Attributes:
        ids: whose rows, as text.
        steps: by step: an array with a row for each id, or a dict of such arrays.
    """

    ids: tuple[str, ...]
    steps: dict[str, Any]

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each id's row is."""
        return {one: at for at, one in enumerate(self.ids)}

    @property
    def block(self) -> Array:
        """All numbers of each row side by side, float32."""
        flat = [array.reshape(len(array), -1).astype(np.float32) for array in _arrays(self.steps)]
        return np.concatenate([np.zeros((len(self.ids), 0), np.float32), *flat], axis=1)

    def take(self, ids: Sequence[str]) -> "Answers":
        """The rows of these ids, in this order."""
        at = np.array([self.places[one] for one in ids], dtype=np.int64)
        return Answers(tuple(ids), _each(self.steps, lambda array: array[at]))

    def with_more(self, more: "Answers") -> "Answers":
        """These rows, and after them those that are new in `more`; a row that both have is taken from `more`."""
        kept = self.take([one for one in self.ids if one not in more.places])
        return Answers(kept.ids + more.ids, _beneath(kept.steps, more.steps))

    def zeros(self, count: int) -> "Answers":
        """As many rows of zeros in the same form."""
        steps = _each(self.steps, lambda array: np.zeros((count, *array.shape[1:]), array.dtype))
        return Answers(tuple(str(place) for place in range(count)), steps)

    def for_cut(self, step: str, rows: str) -> Any:
        """The answer to a step asked for the cut `rows`."""
        answer = self.steps[step]
        return (
            {rows if key == _CUT else key: one for key, one in answer.items()} if isinstance(answer, dict) else answer
        )


def as_kept(answer: Any, rows: str, count: int) -> Any:
    """An answer in the form in which it is kept, or None if it has not one row for each of the `count` asked for."""
    if isinstance(answer, dict):
        answer = {_CUT if key == rows else key: one for key, one in answer.items()}
    arrays = list(_arrays(answer))
    fits = bool(arrays) and all(isinstance(one, np.ndarray) and one.ndim and len(one) == count for one in arrays)
    return answer if fits else None


@dataclass(frozen=True)
class Store:
    """The hub's own rows and labels, and every party's answers.

    Attributes:
        own: the hub's rows, with cuts "train" and "valid" for those that heads are fitted to and judged by.
        y: a label for each of those rows; -1 or NaN where there is none.
        answers: by party.
    """

    own: Table
    y: Array
    answers: dict[str, Answers]

    def ids_of(self, cut: str) -> list[str]:
        """The ids of a cut's rows."""
        return [str(one) for one in self.own.keys[self.own.cut(cut)]]

    def labels_of(self, cut: str) -> Array:
        """The labels of a cut's rows."""
        return np.asarray(self.y[self.own.cut(cut)])

    def knowing(self, ids: Sequence[str]) -> list[frozenset[str]]:
        """Which parties have answered for each id."""
        return [frozenset(name for name, one in self.answers.items() if person in one.places) for person in ids]

    def inputs(self, ids: Sequence[str], parties: Sequence[str]) -> Array:
        """The hub's columns and these parties' numbers side by side, a row for each id."""
        blocks = [self.answers[name].take(ids).block for name in parties]
        if self.own.columns:
            x = self.own.x[[self.own.places[one] for one in ids]]
            blocks.insert(0, x.reshape(len(x), -1))
        if not blocks:
            raise DataError(f"{self.own.party} has no columns of its own, so it cannot predict without any other party")
        return np.concatenate(blocks, axis=1)

    def as_if_absent(self, party: str) -> "Store":
        """The same as if a party had answered about nobody; the form of its answers stays known."""
        return Store(self.own, self.y, self.answers | {party: self.answers[party].take(())})

    def without(self, party: str) -> "Store":
        """The same without a party's answers."""
        return Store(self.own, self.y, {name: one for name, one in self.answers.items() if name != party})

    def with_answers(self, more: Mapping[str, Answers]) -> "Store":
        """The same with more answers."""
        joined = {
            name: self.answers[name].with_more(one) if name in self.answers else one for name, one in more.items()
        }
        return Store(self.own, self.y, self.answers | joined)

    def with_rows(self, more: Table, y: Array, cut: str | None) -> "Store":
        """The same with more rows of the hub, in cut `cut` too if one is named; rows that are there already stay."""
        new = [at for at, key in enumerate(more.keys.tolist()) if key not in self.own.places]
        count = self.own.rows
        cuts = dict(self.own.cuts)
        if cut is not None:
            cuts[cut] = np.concatenate([cuts[cut], count + np.arange(len(new))])
        own = Table(
            np.concatenate([self.own.raw, more.raw[new]]),
            self.own.columns,
            ids=[*self.own.keys.tolist(), *more.keys[new].tolist()],
            task=self.own.task,
            cuts=cuts,
            party=self.own.party,
            recipe=self.own.recipe,
        )
        return Store(own, np.concatenate([self.y, y[new]]), self.answers)

    def to_plain(self) -> dict[str, Any]:
        """The hub's own rows as plain values; answers are kept party by party."""
        return {"table": self.own.to_plain(), "y": self.y}


class FromStore:
    """Parties that answer from the store: a carrier, for a method that believes it is asking them."""

    def __init__(self, answers: Mapping[str, Answers]) -> None:
        self._answers = answers

    @property
    def names(self) -> tuple[str, ...]:
        """The parties there are."""
        return tuple(self._answers)

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        """Give again what was answered before."""
        for name, blob in blobs.items():
            question = decode_question(blob)
            if name in self._answers:
                yield name, encode(self._answers[name].for_cut(question.step, question.payload["rows"]))

    def ledgers(self) -> dict[str, Ledger]:
        """Nothing is given away."""
        return {}


def _arrays(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for inner in tree.values():
            yield from _arrays(inner)
    else:
        yield tree


def _each(tree: Any, change: Any) -> Any:
    return {key: _each(inner, change) for key, inner in tree.items()} if isinstance(tree, dict) else change(tree)


def _beneath(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: _beneath(one[key], other[key]) for key in one}
    return np.concatenate([one, other])
