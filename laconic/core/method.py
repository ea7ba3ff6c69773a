"""A method: settings, a script that fits, and a script that predicts."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.script import Script
from laconic.core.task import Task
from laconic.core.values import Array


class Method(Script, frozen=True):
    """One way to learn together.

    `fit` and `predict` are run by the hub. They may read the settings, the hub and answers, and write to
    `hub.memory`; they reach other parties only by asking `peers` a step.
    """

    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass", "regression")
    """The kinds of task it can do."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "vertical"
    """Whether its parties have other columns of the same people, or other people with the same columns."""

    uses: ClassVar[tuple[str, ...]] = ("train", "valid")
    """The cuts it learns from. In a vertical federation `train` and `valid` are rows that all parties share, and `own`
    are a party's other rows, which are lost to a method that does not use them."""

    server: ClassVar[bool] = False
    """Whether the hub is a server that holds no rows, so that the label holder is one of its peers."""

    @property
    def rounds(self) -> int | None:
        """How often the hub waits while fitting: a promise that `check_method` holds it to; None promises nothing."""
        return None

    @abstractmethod
    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Learn from the rows of cut `train`; yield whenever `predict` could be used."""

    @abstractmethod
    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Predict the rows of the cut named `rows`, in the shape of `Task.shape`."""


def task_of(party: Party) -> Task:
    """The task at the party that holds the labels; any other party is an error."""
    if party.data.task is None:
        raise ValueError(f"{party.name} has no labels; the hub must be the party that holds the label column")
    return party.data.task
