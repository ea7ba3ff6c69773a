"""How a label holder tells parties what to learn: by gradients, as the paper does, or by the labels themselves.

Both tell every party the class of every shared row. Gradients need one more upload and as many numbers a row as a party
sent; labels need one byte a row, and nobody has to guess.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.values import Array, Rng, Settings


class Student(Protocol):
    """A method whose parties can be told what to learn."""

    def begin_and_send(self, party: Party, count: int) -> Array:
        """A few numbers for each shared row, from a net with random weights."""
        ...

    def learn_from_gradients(self, party: Party, gradients: Array, classes: int) -> Any:
        """Learn classes that are read off gradients."""
        ...

    def learn_from_labels(self, party: Party, labels: Array, classes: int) -> Any:
        """Learn classes that are told."""
        ...

    def cover(self, value: Array) -> Any:
        """What was worked out from the told labels, under their noise if there is any."""
        ...


class Gradients(Settings, frozen=True):
    """Parties send numbers for the shared rows; back come gradients of the loss, which parties cluster.

    What crosses serves to tell classes apart and nothing else, so that one byte a number will do, each way.

    Attributes:
        numbers: how many of a row's numbers cross, each way. Fewer than a party's net puts out will do, and say less
            about its columns. None takes half as many as there are classes, and at least four, if the net puts out so
            many; the paper sends all.
    """

    numbers: int | None = None

    def __post_init__(self) -> None:
        """Refuse to tell classes apart by nothing."""
        if self.numbers is not None and self.numbers < 1:
            raise ValueError(f"numbers must be 1 or more, not {self.numbers}; None suits the classes")

    @property
    def rounds(self) -> int:
        """Two uploads, one download between them."""
        return 2

    def teach(self, method: Student, hub: Party, peers: Peers, codes: Array, classes: int) -> dict[str, Any]:
        """Have all parties learn; what each sends afterwards. Who is late or lost is left out."""
        numbers = peers.tolerant.ask(method.begin_and_send, count=self.numbers or max(4, -(-classes // 2)))
        gradients = first_gradients(numbers, codes, classes, hub.rng)
        questions = {
            name: {"gradients": method.cover(in_bytes(values, axis=1)), "classes": classes}
            for name, values in gradients.items()
        }
        return peers.tolerant.ask_each(method.learn_from_gradients, questions)


class SendLabels(Settings, frozen=True):
    """Parties are sent the labels of the shared rows, one byte each."""

    @property
    def rounds(self) -> int:
        """One download and one upload."""
        return 1

    def teach(self, method: Student, hub: Party, peers: Peers, codes: Array, classes: int) -> dict[str, Any]:
        """Have all parties learn; what each sends afterwards. Who is late or lost is left out."""
        labels = codes.astype(np.uint8 if classes <= 256 else np.uint16)
        return peers.tolerant.ask(method.learn_from_labels, labels=method.cover(labels), classes=classes)


AnyGuide: TypeAlias = Gradients | SendLabels


def in_bins(numbers: Array, most: int) -> tuple[Array, int]:
    """Numbers as classes, about equally many in each, and how many classes there are; fewer where numbers are tied."""
    different = np.unique(numbers)
    if len(different) < 2:
        raise ValueError(
            f"all {len(numbers)} shared rows have the same label, {different[0]:g}, so that there is nothing to learn; "
            "share more rows"
        )
    edges = np.quantile(numbers, np.linspace(0, 1, most + 1)[1:-1])
    # A bin begins at its edge: below one at the least number, which many rows may have, there would be nothing.
    least, above = different[:2]
    edges = np.unique(np.where(edges <= least, above, edges))
    return np.searchsorted(edges, numbers, side="right"), len(edges) + 1


def in_bytes(values: Array, axis: int | None = None) -> Array:
    """Numbers as whole ones from -127 to 127, the largest of all, or of each row with `axis` 1, at an end.

    How large they were before is lost: what is made of them must not depend on it.
    """
    largest = np.abs(values).max(axis=axis, keepdims=True, initial=1e-30)
    found: Array = np.rint(values * (127.0 / largest)).astype(np.int8)
    return found


def first_gradients(numbers: Mapping[str, Array], codes: Array, classes: int, rng: Rng) -> dict[str, Array]:
    """How the summed loss of an untrained linear classifier changes with each party's numbers.

    Args:
        numbers: each party's numbers for the same rows, as bytes.
        codes: the rows' classes.
        classes: how many there are.
        rng: chance for the classifier's weights, drawn anew: those of a trained one tell classes less well apart.
    """
    width = sum(block.shape[1] for block in numbers.values())
    weights = {name: rng.uniform(-1, 1, (block.shape[1], classes)) / width**0.5 for name, block in numbers.items()}
    products = (block.astype(np.float64) / 127.0 @ weights[name] for name, block in numbers.items())
    logits = sum(products, np.zeros((len(codes), classes)))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    wrong = odds / odds.sum(axis=1, keepdims=True) - np.eye(classes)[codes]
    return {name: wrong @ weights[name].T for name in numbers}


def numbered(codes: Array) -> tuple[Array, int]:
    """Class codes from 0 without gaps, and how many there are."""
    present, numbered = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        raise ValueError(
            f"all {len(codes)} shared rows are told as one class, so that there is nothing to learn; share more rows"
        )
    return numbered, len(present)
