"""Averaging: every party trains the same net on its own rows, and the server averages what comes back.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data (2017). A method takes part by a property `local`, which says what parties train, and by the step `improve`.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from laconic.core.capabilities import Exported
from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Step, step
from laconic.learn.models.averages import AnyAverage, Mean
from laconic.learn.models.learner import check_model
from laconic.learn.models.learners import Network
from laconic.learn.models.server_steps import AnyServerStep, TakeAverage
from laconic.learn.models.supervised import fit_from
from laconic.learn.nets.nets import Net, default_net, make, weights_of
from laconic.learn.train.sgd import Sgd
from laconic.methods.families.model_checks import ModelCheck
from laconic.methods.families.rows import computes_alone, labelled
from laconic.values import Array, Weights


class Local(NamedTuple):
    """What parties train, and how: the net, the trainer, and how strongly they are pulled back to the average."""

    net: Net | None
    trainer: Sgd
    pull: float = 0.0

    def net_for(self, party: Party) -> Net:
        """The net for a party's rows: the same for all, as their rows have the same columns."""
        return self.net or default_net(party.data.shape)


class Averages(Protocol):
    """A method that can average parties' nets."""

    @property
    def local(self) -> Local:
        """What parties train, and how."""

    improve: Step


@step(
    takes="the average of all parties' models, from which rows may be guessed at",
    gives="its model, trained on its rows, from which rows may be guessed at, and how many rows it has",
)
def improve(method: Averages, party: Party, model: Weights) -> dict[str, Any]:
    """Train the average on this party's rows."""
    net, trainer, pull = method.local.net_for(party), method.local.trainer, method.local.pull
    rows = labelled(party, "train")
    return {
        "model": fit_from(net, task_of(party), model, rows, trainer, party.rng, pull=pull),
        "rows": len(rows[1]),
    }


def first_model(local: Local, hub: Party) -> Weights:
    """Random weights, where all parties start from."""
    module = make(local.net_for(hub), hub.data.shape, task_of(hub).outputs, hub.rng)
    return {name: values.copy() for name, values in weights_of(module).items()}


def collect(
    method: Averages, hub: Party, peers: Peers, check: ModelCheck | None = None
) -> tuple[list[Weights], list[float]]:
    """The models that count after one more training of `hub.memory["model"]`, and how many rows each party has."""
    asked = peers if check is None else check.trusted(hub, peers)
    answers = asked.ask(method.improve, model=hub.memory["model"])
    form = Network(net=method.local.net_for(hub))
    models = {
        name: check_model(form, task_of(hub), one["model"], hub.data.shape, name) for name, one in answers.items()
    }
    if check is not None:
        models = check.sift(hub, models)
    return list(models.values()), [float(answers[name]["rows"]) for name in models]


def check_exchanges(exchanges: int) -> None:
    """Refuse a number of exchanges below 1."""
    if exchanges < 1:
        raise ValueError(f"exchanges must be 1 or more, not {exchanges}")


class Averaging(Method, frozen=True):
    """Abstract: a method that averages parties' nets, once per exchange; the average is in `hub.memory["model"]`.

    Attributes:
        net: the form of all nets; None takes a small net that suits the rows.
        trainer: how a party trains in each exchange.
        exchanges: how often models go out and come back.
        average: how one model is made of all: the mean, or one that bad parties cannot drag away (`Median`,
            `TrimmedMean`, `Krum`).
        update: how far the server goes towards that average: all the way, or by `Adam` or `Yogi` steps of its own,
            which need many exchanges.
        check: what the server looks for in each party's model before it counts; None looks at nothing.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass")

    net: Net | None = None
    trainer: Sgd = Sgd(epochs=10, batch=32)
    exchanges: int = 1
    average: AnyAverage = Mean()
    update: AnyServerStep = TakeAverage()
    check: ModelCheck | None = None

    improve = improve

    def __post_init__(self) -> None:
        """Refuse to exchange nothing."""
        check_exchanges(self.exchanges)

    @property
    def rounds(self) -> int:
        """Models go out with the question and come back with the answer."""
        return self.exchanges

    @property
    def local(self) -> Local:
        """Nothing but the loss of a party's own rows."""
        return Local(self.net, self.trainer)

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Send out the average, take back what parties made of it, and average again, from random weights on."""
        hub.memory["model"] = first_model(self.local, hub)
        for _ in range(self.exchanges):
            self.advance(hub, self.merge(hub, *collect(self, hub, peers, self.check)))
            yield

    def advance(self, hub: Party, average: Weights) -> None:
        """Make the average, or a step towards it, the model that goes out next."""
        hub.memory["model"] = self.update.advance(hub.memory, hub.memory["model"], average)

    def merge(self, hub: Party, models: list[Weights], shares: list[float]) -> Weights:
        """One model from all parties': as usual their mean, weighted by rows."""
        return self.average.combine(models, shares)

    def what_computes(self, party: Party, peers: tuple[str, ...]) -> Exported:
        """The average, at whoever has it."""
        return computes_alone(party, Network(net=self.net))

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """Put the server's rows through the average."""
        return Network(net=self.net).predict(task_of(hub), hub.memory["model"], hub.data.part(rows)[0])
