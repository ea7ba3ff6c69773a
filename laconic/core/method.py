"""A method: settings, a script that fits, and a script that predicts."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ClassVar, Literal

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Opening, Script
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng

LABELLED = "labelled"
"""Among the cuts that a method uses: the hub's rows outside the overlap for which it has labels."""


class Method(Script, frozen=True):
    """One way to learn together.

    `fit` and `predict` are run by the hub. They may read the settings, the hub and answers, and write to
    `hub.memory`; they reach other parties only by asking `peers` a step. Whoever calls them, they run under
    `limit_threads`, so that the number of processors changes no bit.
    """

    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass", "regression")
    """The kinds of task it can do."""

    kind: ClassVar[Literal["vertical", "horizontal"]] = "vertical"
    """Whether its parties have other columns of the same people, or other people with the same columns."""

    uses: ClassVar[tuple[str, ...]] = ("train", "valid")
    """The cuts it learns from. In a vertical federation `train` and `valid` are rows that all parties share, and `own`
    are a party's other rows, which are lost to a method that does not use them; `paired` are those of them that the
    hub has too, and `labelled` those of the hub's own that have labels."""

    predicts_from: ClassVar[tuple[str, ...]] = ("model",)
    """Of a horizontal method, what of `hub.memory` it predicts from. Parties get this when the model comes home, and
    nothing else of the hub's memory; empty if the hub has to ask parties to predict."""

    server: ClassVar[bool] = False
    """Whether the hub is a server that holds no rows, so that the label holder is one of its peers."""

    def __init_subclass__(cls) -> None:
        """Limit the threads of the `fit` and `predict` that a class brings."""
        super().__init_subclass__()
        if "fit" in vars(cls):
            setattr(cls, "fit", _limited_fit(vars(cls)["fit"]))  # noqa: B010 (a method cannot be assigned to)
        if "predict" in vars(cls):
            setattr(cls, "predict", limit_threads()(vars(cls)["predict"]))  # noqa: B010

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

    def fit_opening(self) -> Opening:
        """What `fit` asks that follows from the settings alone, so that parties may answer before they are asked.

        As in `Opening((Ask.known(self.send),), then="ends")`. Declaring nothing is always right: parties wait.
        """
        return Opening()

    def fit_opening_from(self, rng: Rng) -> Opening:
        """The same where questions also follow from the hub's randomness as it is when `fit` begins."""
        return self.fit_opening()

    def predict_opening(self, rows: str) -> Opening:
        """The same of `predict`, for the cut named `rows`."""
        return Opening()


def _limited_fit(fit: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
    """The same `fit`, which limits threads while it works and not while its caller does."""

    @wraps(fit)
    def limited(*arguments: Any) -> Iterator[None]:
        turns = enumerate(fit(*arguments))
        while True:
            with limit_threads():
                if next(turns, None) is None:
                    return
            yield

    return limited


def task_of(party: Party) -> Task:
    """The task at the party that holds the labels; any other party is an error."""
    if party.data.task is None:
        raise ValueError(f"{party.name} has no labels; the hub must be the party that holds the label column")
    return party.data.task
