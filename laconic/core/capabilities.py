"""What a method may offer beyond `fit` and `predict`, each as a small protocol.

A method offers one by having its functions; nothing is to be declared. Whoever uses one asks, for example,
`isinstance(method, Growable)`, and says clearly what cannot be done without. `laconic methods` lists who offers what.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from laconic.core.ledger import Noise
from laconic.core.method import Method
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Step
from laconic.values import Array, Weights

Kept: TypeAlias = dict[str, dict[str, dict[str, Array]]]
"""Answers by party, step and cut."""

BudgetT_contra = TypeVar("BudgetT_contra", contravariant=True)


@runtime_checkable
class Budgeted(Protocol[BudgetT_contra]):
    """Works out how much noise keeps a privacy budget, before anything runs."""

    def within(self, budget: BudgetT_contra, rows: int, hub: str, guests: tuple[str, ...]) -> Method:
        """The same method with as little noise as keeps the budget, for so many training rows and these parties."""

    def expected_noise(self, rows: int, hub: str, guests: tuple[str, ...]) -> dict[str, tuple[Noise, ...]]:
        """The noise on each party's model and on what it sends, which is known before anything runs."""


@runtime_checkable
class Cacheable(Protocol):
    """Has answers of parties from fitting, so that saving a model need not ask for these again."""

    def answers_at_hand(self, hub: Party) -> Kept:
        """Those answers, by party, step and cut."""


@runtime_checkable
class Growable(Protocol):
    """Lets a party join a fitted model without asking any other party."""

    def take_in(self, peers: Peers) -> Kept:
        """What new parties answer about the rows the model is fitted to, by party, step and cut."""


@runtime_checkable
class Mergeable(Protocol):
    """Keeps apart what each party added to the model: parties join, add rows and leave, and no other party is asked."""

    def members(self, hub: Party) -> dict[str, int]:
        """Who is in the model, and with how many rows; 0 where noise hides that."""

    def merge_in(self, hub: Party, peers: Peers) -> None:
        """Ask parties what their training rows add, put it to what they added before, and fit anew."""

    def take_out(self, hub: Party, name: str) -> None:
        """Drop what a party added, and fit anew: the model is then as if the party had never taken part."""


ERASED = "erased"
"""The cut of rows that are to be erased, which a party has only while it takes them back."""


@runtime_checkable
class Erasable(Protocol):
    """Takes single rows out of a fitted model, exactly, if their party has them still."""

    def erase(self, hub: Party, peers: Peers) -> None:
        """Ask a party what its rows of the cut `ERASED` had added; take it off, and fit anew."""


@runtime_checkable
class Attributable(Protocol):
    """Keeps each party's part for the training rows, so that its share of the result can be worked out."""

    def stored_parts(self, hub: Party, places: Array) -> dict[str, Array]:
        """Each party's part for these places in cut "train", ready to be put together."""

    def predict_from(self, hub: Party, parts: Mapping[str, Array], places: Array) -> Array:
        """Predictions for these places from some parties' parts; a party left out counts for nothing."""

    def head_norms(self, hub: Party, ask: Callable[[Step], dict[str, Any]]) -> dict[str, float]:
        """The length of each party's linear head, if there are any; parties that keep theirs are asked."""


@runtime_checkable
class ManyModels(Protocol):
    """Ends with a model for each party and none of all: each is scored on all rows, and the score is their mean."""

    def predict_each(self, hub: Party, peers: Peers, rows: str, /) -> dict[str, Array]:
        """What each party's model predicts for the rows of a cut, in the shape of `Task.shape`."""

    def as_one(self, each: Mapping[str, Array], /) -> Array:
        """What `predict` makes of these, and so what a model that is kept predicts."""


@runtime_checkable
class Tunable(Protocol):
    """Names further settings to try when a comparison tunes all its arms (see `laconic.deploy.tuning`).

    Settings by common names, such as learning rates, are tried of every method; this is for what is a method's own.
    """

    def tuning(self) -> Mapping[str, tuple[Any, ...]]:
        """Plain values to try, the given one first, by the setting's dotted key: `{"encoder.dim": (0, 8, 16)}`."""


@runtime_checkable
class Refittable(Protocol):
    """Says by which learner the hub's model can be fitted anew to the hub's columns and all numbers side by side."""

    def head_as_fitted(self, hub: Party) -> Any:
        """That learner, as it was chosen; None if the model is a net that only the method itself can build."""


class Exported(NamedTuple):
    """What a party computes, for programs that do not have this package.

    Attributes:
        form: a net with its weights, or a learner of `laconic.learn`.
        weights: of the learner, and the label's scale for a net that predicts numbers.
        inputs: the shape of what comes from each party for a row, in order, the hub's first.
        rounded: how exactly what comes out is sent.
    """

    form: object
    weights: Weights
    inputs: dict[str, tuple[int, ...]]
    rounded: str = "float32"


@runtime_checkable
class Exportable(Protocol):
    """Can say what each party computes at a prediction, so that it can be written as ONNX."""

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The hub's model, if the party is the hub, or what a party makes of its rows; `peers` is who is asked."""


CAPABILITIES: tuple[type, ...] = (
    *(Budgeted, Cacheable, Growable, Mergeable, Erasable, Attributable, ManyModels, Tunable, Refittable, Exportable),
)


def capabilities_of(method: Method | type[Method]) -> tuple[type, ...]:
    """The capabilities that a method offers.

    Example:
        >>> from laconic import FedOnce, Solo
        >>> [one.__name__ for one in capabilities_of(FedOnce)]
        ['Budgeted', 'Cacheable', 'Growable', 'Attributable', 'Refittable', 'Exportable']
        >>> [one.__name__ for one in capabilities_of(Solo)]
        ['Exportable']
    """
    kind = method if isinstance(method, type) else type(method)
    return tuple(one for one in CAPABILITIES if issubclass(kind, one))
